"""The laws of histories, each judged by the part that keeps its evidence; `history_checker` feeds them."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqspark.model import MessageQueue
    from rmqspark.testing.history import Scan, Send, Sent

    Report: TypeAlias = Callable[["Law", MessageQueue | None, int | None, str, str], None]


class Law(Enum):
    """What must hold, as numbered in docs/reliability.md."""

    NOTHING_LOST = (1, "what was acknowledged is there")
    NOTHING_INVENTED = (2, "what is read is what somebody sent, to the byte")
    STABLE = (3, "an offset always shows the same message")
    DENSE = (4, "offsets follow each other without gap or repeat")
    IN_ORDER = (5, "what one producer had acknowledged is in the order of its sends")
    COPIES = (6, "a message is stored once, and once more for each try of which nobody heard")


class Violation(NamedTuple):
    """A law that was broken, where and by which message."""

    law: Law
    queue: MessageQueue | None
    queue_offset: int | None
    message: str
    story: str

    def __str__(self) -> str:
        number, meaning = self.law.value
        place = f"{self.queue or 'any queue'}" + ("" if self.queue_offset is None else f" offset {self.queue_offset}")
        return f"Law {number} ({meaning}): {place}: {self.message or 'no message'}: {self.story}"


class Sending:
    """One send, and what came of it; `outcome` is None while it is under way, or for ever if its client died."""

    __slots__ = ("names", "number", "outcome", "producer")

    def __init__(self, event: Send) -> None:
        self.number = event.id
        self.producer = event.producer
        self.names = [name for name, _ in event.messages]
        self.outcome: Sent | None = None

    @property
    def most_copies(self) -> int:
        """How often each message may be there at most."""
        if self.outcome is None:
            return 1
        return (self.outcome.outcome == "ok") + self.outcome.unknown_tries


class Messages:
    """Laws 2 and 6: every message that was sent, and how often it was found."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._sent: dict[str, tuple[str, Sending]] = {}
        self._copies: dict[str, int] = {}
        self._last_place: dict[str, tuple[MessageQueue, int]] = {}

    def add(self, name: str, content: str, sending: Sending) -> None:
        if name in self._sent:
            raise ValueError(f"two messages of the history are named {name!r}")
        self._sent[name] = content, sending

    def count(self, name: str, queue: MessageQueue, queue_offset: int) -> None:
        """It was found at a place where it had not been seen before."""
        self._copies[name] = self._copies.get(name, 0) + 1
        self._last_place[name] = queue, queue_offset
        if name in self._sent and self._sent[name][1].outcome is not None:  # else it may be tried once more
            self._judge(name, self._sent[name][1])

    def uncount(self, names: Iterable[str]) -> None:
        """Places are forgotten, for what they showed may have gone; they may be counted again."""
        for name in names:
            self._copies[name] -= 1

    def judge_copies(self, sending: Sending) -> None:
        for name in sending.names:
            self._judge(name, sending)

    def finish(self) -> None:
        """Judges what was never answered: what a client that died was about to do."""
        for name, (_, sending) in self._sent.items():
            if sending.outcome is None:
                self._judge(name, sending)

    def judge_content(self, name: str, content: str, queue: MessageQueue, queue_offset: int) -> None:
        sent = self._sent.get(name)
        if sent is None:
            self._report(Law.NOTHING_INVENTED, queue, queue_offset, name, "nobody sent it")
        elif sent[0] != content:
            changed = _what_changed(sent[0], content)
            self._report(Law.NOTHING_INVENTED, queue, queue_offset, name, f"sent with another {changed}")

    def _judge(self, name: str, sending: Sending) -> None:
        copies = self._copies.get(name, 0)
        if copies > sending.most_copies:
            queue, queue_offset = self._last_place[name]
            story = f"there {copies} times, where {sending.most_copies} may be"
            self._report(Law.COPIES, queue, queue_offset, name, story)


class QueueLaws:
    """Laws 1, 3 and 4: what was promised and what was shown at each offset of one queue."""

    def __init__(self, key: MessageQueue, report: Report) -> None:
        self._key = key
        self._report = report
        self._shown: dict[int, str] = {}
        self._promised: dict[int, tuple[str, bool]] = {}
        self._end = 0  # one past the last offset that was promised or shown
        self._covered: dict[str, tuple[int, int]] = {}  # by reader: what its last reads, end to end, were of

    def promise(self, queue_offset: int, name: str, *, durable: bool) -> None:
        """It was acknowledged there."""
        other = self._promised.get(queue_offset)
        if other is not None:
            self._report(Law.NOTHING_LOST, self._key, queue_offset, name, f"{other[0]} was acknowledged there, too")
        self._promised[queue_offset] = name, durable
        self._end = max(self._end, queue_offset + 1)
        if queue_offset in self._shown:
            self._judge_promise(queue_offset)

    def show(self, queue_offset: int, name: str) -> bool:
        """It was read there; returns whether it is the first to be."""
        before = self._shown.get(queue_offset)
        if before is not None:
            if before != name:
                self._report(Law.STABLE, self._key, queue_offset, name, f"earlier {before} was read there")
            return False
        self._shown[queue_offset] = name
        self._end = max(self._end, queue_offset + 1)
        if queue_offset in self._promised:
            self._judge_promise(queue_offset)
        return True

    def cover(self, reader: str, begin: int, end: int) -> None:
        first, last = self._covered.get(reader, (begin, begin))
        self._covered[reader] = (first if last == begin else begin), end

    def judge_scan(self, scan: Scan) -> None:
        begin, end = self._covered.get(scan.reader, (scan.begin, scan.begin))
        if begin > scan.begin or end < scan.end:
            story = f"of [{scan.begin}, {scan.end}) {scan.reader} was shown [{begin}, {end})"
            self._report(Law.DENSE, self._key, end, "", story)
        for queue_offset in range(scan.end, self._end):
            if queue_offset in self._promised:
                self._report_lost(queue_offset, f"the queue ends at {scan.end}")
            elif queue_offset in self._shown:
                story = f"it had been read, and the queue ends at {scan.end}"
                self._report(Law.STABLE, self._key, queue_offset, self._shown[queue_offset], story)

    def judge_unseen(self) -> None:
        for queue_offset in self._promised:
            if queue_offset not in self._shown:
                self._report_lost(queue_offset, "it was never read")

    def begin_incarnation(self) -> Iterable[str]:
        """What was not durable may be gone, and its offsets may show others: returns what had been shown."""
        shown, self._shown = self._shown, {}
        self._promised = {offset: promise for offset, promise in self._promised.items() if promise[1]}
        self._covered.clear()
        self._end = max(self._promised, default=-1) + 1
        return shown.values()

    def _judge_promise(self, queue_offset: int) -> None:
        shown = self._shown[queue_offset]
        if self._promised[queue_offset][0] != shown:
            self._report_lost(queue_offset, f"{shown} is there")

    def _report_lost(self, queue_offset: int, story: str) -> None:
        name, _ = self._promised[queue_offset]
        self._report(Law.NOTHING_LOST, self._key, queue_offset, name, f"acknowledged there, but {story}")


class ProducerOrder:
    """Law 5, for one producer. Sends that took several tries are left out: they may be overtaken."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._under_way: deque[Sending] = deque()
        self._ends: dict[MessageQueue, int] = {}

    def begin(self, sending: Sending) -> None:
        self._under_way.append(sending)

    def advance(self) -> None:
        """Judges every send before which nothing is under way any more."""
        while self._under_way and (outcome := self._under_way[0].outcome) is not None:
            sending = self._under_way.popleft()
            if outcome.outcome == "ok" and outcome.tries == 1 and outcome.queue is not None:
                self._judge(sending, outcome.queue, outcome.queue_offset)

    def begin_incarnation(self, broker_name: str) -> None:
        """Offsets of this broker may be given out again."""
        self._ends = {queue: end for queue, end in self._ends.items() if queue.broker_name != broker_name}

    def finish(self) -> None:
        """Judges the rest, past those whose outcome will never be known."""
        while self._under_way:
            self.advance()
            if self._under_way:
                self._under_way.popleft()

    def _judge(self, sending: Sending, queue: MessageQueue, queue_offset: int) -> None:
        end = self._ends.get(queue, 0)
        if queue_offset < end:
            story = f"{sending.producer} had sent before it what is at {end - 1}"
            self._report(Law.IN_ORDER, queue, queue_offset, sending.names[0], story)
        self._ends[queue] = max(end, queue_offset + len(sending.names))


def _what_changed(sent: str, read: str) -> str:
    (sent_body, _, _), (read_body, _, _) = sent.partition("/"), read.partition("/")
    return "body" if sent_body != read_body else "key, tag or property"
