"""The queue entries of messages that came one by one: in log order, of as many queues as there may be.

What an append does for a message is the same whether all are for one queue or each is for another. So nothing is
gathered by queue: entries are added to what waits of their queues (`write_behind.py`) in one loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.store.queues.consume_queue import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.store.dispatcher import Readable
    from rmqspark.store.queues.consume_queue import ConsumeQueue
    from rmqspark.store.queues.consume_queues import ConsumeQueues


class SingleEntries:
    """A column for each thing that is known of such a message, filled by whoever gives the messages their places.

    `next_offsets` are those that the queues will have; nothing has advanced before `take_offsets`.
    """

    __slots__ = ("_all_queues", "entries", "next_offsets", "queue_offsets", "queues", "tags_codes")

    def __init__(self, all_queues: ConsumeQueues) -> None:
        self._all_queues = all_queues
        self.queues: list[ConsumeQueue] = []
        self.queue_offsets: list[int] = []
        self.entries: list[bytes] = []
        self.tags_codes: list[int] = []
        self.next_offsets: dict[ConsumeQueue, int] = {}

    def offset_in(self, queue: ConsumeQueue) -> int:
        """What the next message of a queue gets."""
        return self.next_offsets.get(queue) or queue.next_offset

    def add(self, queue: ConsumeQueue, entry: bytes, tags_code: int) -> None:
        """The next message of a queue."""
        queue_offset = self.offset_in(queue)
        self.queues.append(queue)
        self.queue_offsets.append(queue_offset)
        self.entries.append(entry)
        self.tags_codes.append(tags_code)
        self.next_offsets[queue] = queue_offset + 1

    def take_offsets(self) -> None:
        """The messages are in the log: their queue offsets are given."""
        for queue, next_offset in self.next_offsets.items():
            queue.next_offset = next_offset

    def put(self) -> None:
        """Makes the messages readable; those that are already are skipped. Raises OSError; then some may not be."""
        if len(self.next_offsets) == 1:  # they follow each other
            self.queues[0].put(self.queue_offsets[0], b"".join(self.entries))
            return
        self._all_queues.make_room(len(self.entries) * ENTRY_BYTES)
        for queue, queue_offset, entry in zip(self.queues, self.queue_offsets, self.entries, strict=True):
            tail, position = queue.tail, queue_offset * ENTRY_BYTES
            if queue_offset == queue.max_offset and position == tail.end < tail.limit:
                max_offset, end = queue_offset + 1, position + ENTRY_BYTES
                tail.data += entry
                tail.end = end
                queue.max_offset = max_offset
            else:
                queue.put(queue_offset, entry)

    def readable(self) -> Iterator[Readable]:
        """What readers are told, queue by queue."""
        tags_codes: dict[ConsumeQueue, list[int]] = {}
        for queue, tags_code in zip(self.queues, self.tags_codes, strict=True):
            tags_codes.setdefault(queue, []).append(tags_code)
        for queue, codes in tags_codes.items():
            yield queue.topic, queue.queue_id, queue.max_offset, codes

    def without(self, topic: str) -> SingleEntries:
        """The same but for the messages of one topic."""
        others = SingleEntries(self._all_queues)
        columns = zip(self.queues, self.queue_offsets, self.entries, self.tags_codes, strict=True)
        for queue, queue_offset, entry, tags_code in columns:
            if queue.topic != topic:
                others.queues.append(queue)
                others.queue_offsets.append(queue_offset)
                others.entries.append(entry)
                others.tags_codes.append(tags_code)
        return others
