"""What a store must be, in a few lines: one list of messages in the order of the log, and three numbers into it."""

from __future__ import annotations

from typing import NamedTuple

Queue = tuple[str, int]
NOWHERE: Queue = ("", 0)  # of messages whose topic was deleted: they are in the log, and in no queue


class Sent(NamedTuple):
    """A message that was handed to the store."""

    queue: Queue
    body: bytes
    stored_ms: int


class Model:
    """`sent[first:]` is in the log; of it `sent[:durable]` outlives a power loss, `sent[:seen]` has been readable.

    `lost` are places of messages whose records were damaged on the disk.
    """

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.first = self.durable = self.seen = 0
        self.lost: set[int] = set()

    def queue(self, queue: Queue, end: int) -> list[tuple[int, bytes]]:
        """What a reader finds in a queue, and where, when `sent[:end]` is readable."""
        places = [place for place, sent in enumerate(self.sent[:end]) if sent.queue == queue]
        return [
            (offset, self.sent[place].body)
            for offset, place in enumerate(places)
            if place >= self.first and place not in self.lost
        ]

    def count(self, queue: Queue, end: int) -> int:
        """How many of `sent[:end]` are of this queue."""
        return sum(sent.queue == queue for sent in self.sent[:end])

    def delete(self, topic: str) -> None:
        """Its queues are gone, and others of the same names begin anew."""
        self.sent = [sent._replace(queue=NOWHERE) if sent.queue[0] == topic else sent for sent in self.sent]

    def keep(self, end: int) -> None:
        """Nothing from `end` on was stored."""
        del self.sent[end:]
        self.durable = self.seen = end

    def all_durable(self) -> None:
        self.durable = len(self.sent)
