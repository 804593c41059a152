"""Pulls held at the end of a queue until there is something to answer. Pure: no socket, no timer.

A parked pull is woken, that is, run once more with waiting forbidden, when
- messages arrive in its queue and its filter accepts one of their tags, or
- the periodic scan finds messages beyond its offset (the scan knows no tags: it wakes whatever the filter says, so a
  pull whose queue only gets other tags still moves forward), or finds that its time is over.
So a pull may be answered one scan later than its own timeout; clients wait twice as long as they ask for.
RocketMQ: PullRequestHoldService; spec: semantics, section 8.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from rmqspark.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class ParkedPull(Generic[R]):
    """A pull of `queue_offset`, the end of its queue when it came. `tag_codes` None accepts every message."""

    topic: str
    queue_id: int
    queue_offset: int
    tag_codes: frozenset[int] | None
    deadline_ms: int  # monotonic
    request: R

    def accepts(self, tags_codes: frozenset[int]) -> bool:
        return self.tag_codes is None or not self.tag_codes.isdisjoint(tags_codes)


class ParkedPulls(Generic[R]):
    """All pulls held by one broker, at most `limit` of them."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._queues: dict[tuple[str, int], list[ParkedPull[R]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, pull: ParkedPull[R]) -> None:
        """Holds `pull` until it is woken. Raises Busy when the broker holds as many as it may."""
        if self._count >= self._limit:
            raise Busy(f"This broker holds {self._limit} waiting pulls already.")
        self._queues.setdefault((pull.topic, pull.queue_id), []).append(pull)
        self._count += 1

    def arrived(
        self, topic: str, queue_id: int, max_offset: int, tags_codes: Callable[[], Iterable[int]]
    ) -> list[ParkedPull[R]]:
        """Takes out the pulls that new messages wake. `tags_codes` is only called if somebody filters."""
        parked = self._queues.get((topic, queue_id))
        if parked is None:
            return []
        codes = frozenset(tags_codes()) if any(pull.tag_codes is not None for pull in parked) else frozenset()
        return self._take(lambda pull: max_offset > pull.queue_offset and pull.accepts(codes), (topic, queue_id))

    def due(
        self, now_ms: int, max_offset: Callable[[str, int], int], is_gone: Callable[[R], bool]
    ) -> list[ParkedPull[R]]:
        """Takes out what the periodic scan wakes; pulls of clients that are gone are dropped on the way."""
        woken: list[ParkedPull[R]] = []
        for key in list(self._queues):
            self._take(lambda pull: is_gone(pull.request), key)
            woken += self._take_due(key, now_ms, max_offset(*key))
        return woken

    def take_all(self) -> list[ParkedPull[R]]:
        """Takes out everything, for the shutdown."""
        everything = [pull for parked in self._queues.values() for pull in parked]
        self._queues.clear()
        self._count = 0
        return everything

    def _take_due(self, key: tuple[str, int], now_ms: int, end: int) -> list[ParkedPull[R]]:
        return self._take(lambda pull: end > pull.queue_offset or now_ms >= pull.deadline_ms, key)

    def _take(self, condition: Callable[[ParkedPull[R]], bool], key: tuple[str, int]) -> list[ParkedPull[R]]:
        parked = self._queues.get(key, [])
        taken = [pull for pull in parked if condition(pull)]
        if not taken:
            return taken
        left = [pull for pull in parked if not condition(pull)]
        if left:
            self._queues[key] = left
        else:
            del self._queues[key]
        self._count -= len(taken)
        return taken
