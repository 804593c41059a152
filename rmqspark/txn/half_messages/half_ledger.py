"""Which half messages are open, and when their producers are to be asked. Pure: told what time it is.

A half message is open from its place in the half queue on until it ended: committed, rolled back, or set aside after
too many questions. It ends once; whatever is said of it later changes nothing. That is where we part from RocketMQ,
which puts a copy of the half back with every question and then knows original and copy as two messages, both of which
can be committed (its issues 8158, 2694, 5574). Here the half stays where it is, and the question names it.

In the files all is RocketMQ's: op records say what ended, and the committed offset of the half queue is the first half
that is open. An Apache broker that opens the store goes on from there, and so do we after a restart: `half_replay.py`.
"""

from __future__ import annotations

import heapq
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rmqspark.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable

REMEMBERED: Final = 10_000  # how many ended halves are known by what became of them
_MOST_STALE: Final = 1_000  # of those that ended and would be asked about much later; beyond, all such are put away


class Outcome(Enum):
    """How a half message ended."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    SET_ASIDE = "set aside"


class CheckRules(NamedTuple):
    """When producers are asked: RocketMQ's transactionTimeOut, transactionCheckInterval, transactionCheckMax and
    fileReservedTime."""

    timeout_ms: int
    interval_ms: int
    max_checks: int
    reserved_ms: int


class OpenHalf(msgspec.Struct, gc=False):
    """A half message that has not ended. Times are monotonic."""

    queue_offset: int
    physical_offset: int
    topic: str
    checks: int
    expires_ms: int  # when it is too old to be asked for


class Ask(NamedTuple):
    """A producer of its group is to be asked, for the `checks`-th time."""

    half: OpenHalf
    checks: int


class SetAside(NamedTuple):
    """Nobody knows what becomes of it: it is for an operator to decide."""

    half: OpenHalf
    reason: str


class HalfLedger:
    """The open half messages of one broker, `max_open` at most."""

    def __init__(self, rules: CheckRules, *, max_open: int) -> None:
        self.next_offset = 0
        """The first offset of the half queue not looked at yet."""
        self._rules = rules
        self._max_open = max_open
        self._open: dict[int, OpenHalf] = {}  # by queue offset, ascending
        self.open_by_topic: dict[str, int] = {}
        """How many are known to be open; 0 of topics that had some, until these are forgotten."""
        self._ended_ahead: set[int] = set()  # ended before they were looked at
        self._outcomes: dict[int, Outcome] = {}  # the latest REMEMBERED
        self._due: list[tuple[int, int]] = []  # heap of (when, queue offset); some that ended are in it

    def __len__(self) -> int:
        """How many are known to be open."""
        return len(self._open)

    @property
    def first_open(self) -> int:
        """The queue offset below which every half message has ended: what RocketMQ keeps as the half queue's offset."""
        return next(iter(self._open), self.next_offset)

    def admit(
        self,
        queue_offset: int,
        physical_offset: int,
        *,
        topic: str = "",
        age_ms: int,
        now_ms: int,
        immunity_ms: int | None = None,
        checks: int = 0,
    ) -> None:
        """Looks at the half message at `queue_offset`, unless it was looked at before. `age_ms` since it was stored."""
        self.skip_to(queue_offset)
        if queue_offset < self.next_offset:
            return  # it has ended already
        self.next_offset = queue_offset + 1
        age_ms = max(0, age_ms)  # the wall clock may have gone back
        expires_ms = now_ms + max(0, self._rules.reserved_ms - age_ms)
        half = OpenHalf(queue_offset, physical_offset, topic, checks, expires_ms)
        self._open[queue_offset] = half
        self.open_by_topic[topic] = self.open_by_topic.get(topic, 0) + 1
        immune_ms = self._rules.timeout_ms if immunity_ms is None else immunity_ms
        self._schedule(half, min(now_ms + max(0, immune_ms - age_ms), half.expires_ms))

    def check_room(self, end_offset: int) -> None:
        """Raises Busy where one more half message would be too many, with those below `end_offset` that were not looked
        at yet."""
        unseen = max(0, end_offset - self.next_offset) - len(self._ended_ahead)
        if len(self._open) + unseen >= self._max_open:
            raise Busy(f"{self._max_open} transactions are open here already.")

    def forget(self, is_there: Callable[[str], bool]) -> None:
        """Drops topics that are gone, and have none open any more, from `open_by_topic`."""
        self.open_by_topic = {topic: open_ for topic, open_ in self.open_by_topic.items() if open_ or is_there(topic)}

    def skip_to(self, queue_offset: int) -> None:
        """There is nothing to look at below `queue_offset`, nor at offsets from there on that ended already."""
        if queue_offset > self.next_offset:
            self.next_offset = queue_offset
            self._ended_ahead = {ahead for ahead in self._ended_ahead if ahead >= queue_offset}
        while self.next_offset in self._ended_ahead:
            self._ended_ahead.remove(self.next_offset)
            self.next_offset += 1

    def is_open(self, queue_offset: int) -> bool:
        """Whether the half message there, which exists, has not ended."""
        if queue_offset < self.next_offset:
            return queue_offset in self._open
        return queue_offset not in self._ended_ahead

    def outcome(self, queue_offset: int) -> Outcome | None:
        """How the half message ended; None if that was long ago, or before the last start."""
        return self._outcomes.get(queue_offset)

    def end(self, queue_offset: int, outcome: Outcome) -> None:
        """An open half message has ended."""
        if queue_offset < self.next_offset:
            half = self._open.pop(queue_offset)
            self.open_by_topic[half.topic] -= 1
        else:
            self._ended_ahead.add(queue_offset)
            self.skip_to(self.next_offset)
        self._outcomes[queue_offset] = outcome
        if len(self._outcomes) > REMEMBERED:
            del self._outcomes[next(iter(self._outcomes))]

    def take_due(self, now_ms: int, limit: int) -> list[Ask | SetAside]:
        """What is to be done now, `limit` things at most. Each half comes again after the interval, until it ended."""
        actions: list[Ask | SetAside] = []
        while self._due and self._due[0][0] <= now_ms and len(actions) < limit:
            _, queue_offset = heapq.heappop(self._due)
            half = self._open.get(queue_offset)
            if half is not None:
                actions.append(self._decide(half, now_ms))
                self._schedule(half, now_ms + self._rules.interval_ms)
        return actions

    def _decide(self, half: OpenHalf, now_ms: int) -> Ask | SetAside:
        if now_ms >= half.expires_ms:
            return SetAside(half, "it is older than messages are kept")
        if half.checks >= self._rules.max_checks:
            return SetAside(half, f"its producers were asked {half.checks} times")
        half.checks += 1
        return Ask(half, half.checks)

    def _schedule(self, half: OpenHalf, when_ms: int) -> None:
        heapq.heappush(self._due, (when_ms, half.queue_offset))
        if len(self._due) > 2 * len(self._open) + _MOST_STALE:
            self._due = [turn for turn in self._due if turn[1] in self._open]
            heapq.heapify(self._due)
