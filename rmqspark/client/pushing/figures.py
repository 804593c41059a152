"""How much a push consumer reads and consumes of each topic, as it tells operators.

RocketMQ: ConsumerStatsManager.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.protocol.bodies.admin import ConsumeStatus

if TYPE_CHECKING:
    from rmqspark.client.pushing.agenda import Agenda
    from rmqspark.clock import Clock

SAMPLED_EVERY_MS: Final = 10_000
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class Totals(NamedTuple):
    """Of one topic, since the start: messages pulled, consumed and failed, and how long that took."""

    pulled: int = 0
    pulls: int = 0
    pull_ms: int = 0
    consumed: int = 0
    failed: int = 0
    calls: int = 0
    call_ms: int = 0


class _Change(NamedTuple):
    """What a sample had that the one before had not."""

    at_ms: int
    totals: Totals


class Figures:
    """Belongs to the pump's thread. Of a topic that is idle for an hour nothing is kept."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}  # by topic, as in Totals
        self._sampled_ms: deque[int] = deque()  # in the last hour
        self._changes: dict[str, deque[_Change]] = {}  # by topic; the first says how it was an hour ago

    def watch(self, agenda: Agenda, clock: Clock) -> None:
        """Notes now and again how much it was by then."""
        now_ms = clock.monotonic_ms()
        while self._sampled_ms and self._sampled_ms[0] < now_ms - HOUR_MS:
            self._sampled_ms.popleft()
        self._sampled_ms.append(now_ms)
        for topic, counts in list(self._counts.items()):
            self._sample(topic, Totals(*counts), now_ms)
        agenda.add(now_ms + SAMPLED_EVERY_MS, partial(self.watch, agenda, clock))

    def _sample(self, topic: str, totals: Totals, now_ms: int) -> None:
        changes, begin_ms = self._changes.setdefault(topic, deque()), self._sampled_ms[0]
        if not changes or changes[-1].totals != totals:
            changes.append(_Change(now_ms, totals))
        while len(changes) > 1 and changes[1].at_ms <= begin_ms:
            changes.popleft()
        if changes[-1].at_ms < begin_ms:
            del self._changes[topic], self._counts[topic]

    def pulled(self, topic: str, count: int, took_ms: int) -> None:
        """A pull has brought so many messages, perhaps none."""
        if count:
            counts = self._of(topic)
            counts[0] += count
            counts[1] += 1
            counts[2] += took_ms

    def consumed(self, topic: str, count: int, took_ms: int, *, failed: bool) -> None:
        """The listener was called with so many messages."""
        counts = self._of(topic)
        counts[4 if failed else 3] += count
        counts[5] += 1
        counts[6] += took_ms

    def status(self, topic: str, now_ms: int) -> ConsumeStatus:
        """The last minute of a topic, and what failed in the last hour."""
        now = Totals(*self._counts.get(topic, ()))
        at_ms, then = self._since(topic, now_ms - MINUTE_MS)
        seconds = max(now_ms - at_ms, 1) / 1000
        return ConsumeStatus(
            pullRT=(now.pull_ms - then.pull_ms) / max(now.pulls - then.pulls, 1),
            pullTPS=(now.pulled - then.pulled) / seconds,
            consumeRT=(now.call_ms - then.call_ms) / max(now.calls - then.calls, 1),
            consumeOKTPS=(now.consumed - then.consumed) / seconds,
            consumeFailedTPS=(now.failed - then.failed) / seconds,
            consumeFailedMsgs=now.failed - self._since(topic, now_ms - HOUR_MS)[1].failed,
        )

    def _of(self, topic: str) -> list[int]:
        counts = self._counts.get(topic)
        return self._counts.setdefault(topic, [0] * len(Totals._fields)) if counts is None else counts

    def _since(self, topic: str, time_ms: int) -> tuple[int, Totals]:
        """The first sample at that time or later, when it was and what it says of a topic."""
        at = bisect_left(self._sampled_ms, time_ms)
        if at == len(self._sampled_ms):
            return time_ms, Totals()
        at_ms = self._sampled_ms[at]
        until_then = (change.totals for change in reversed(self._changes.get(topic, ())) if change.at_ms <= at_ms)
        return at_ms, next(until_then, Totals())
