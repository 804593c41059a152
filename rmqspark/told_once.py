"""What a log hears of once: whoever causes it does not stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from rmqspark.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.clock import Clock

_Kind = TypeVar("_Kind")

_DAY_MS: Final = 24 * 3_600_000


class _Log(Protocol):
    def warning(self, event: str, **facts: Any) -> Any: ...


class ToldOnce(Generic[_Kind]):
    """Kinds of a thing, each told once, and `most` of them: who causes them may invent kinds, too, and neither log nor
    memory is theirs to fill. Of the first that is one too many the log hears that no more are told; a day later all are
    news again, for nobody is to keep others from being told of, either."""

    def __init__(self, log: _Log, what: str, most: int = 1_000, clock: Clock | None = None) -> None:
        self._log = log
        self._what = what
        self._most = most
        self._clock = clock or SystemClock()
        self._told: set[_Kind] = set()
        self._newest_ms = 0
        self._is_full_told = False

    def is_news(self, kind: _Kind) -> bool:
        """Whether it is to be told, now. From here on it is no news."""
        now_ms = self._clock.monotonic_ms()
        if len(self._told) >= self._most and now_ms - self._newest_ms >= _DAY_MS:
            self._told.clear()
            self._is_full_told = False
        if kind in self._told:
            return False
        if len(self._told) < self._most:
            self._told.add(kind)
            self._newest_ms = now_ms
            return True
        if not self._is_full_told:
            self._is_full_told = True
            self._log.warning(f"no further kinds of {self._what} are told for a day", told=self._most)
        return False

    def forget(self, kinds: Iterable[_Kind]) -> None:
        """They are news again; there is room for others, too."""
        self._told.difference_update(kinds)
