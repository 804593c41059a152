"""What was measured over the last hour, for charts: bounded, in memory, from when this process began to look. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, TypeAlias

Series: TypeAlias = "list[tuple[int, float | None]]"

MOST_POINTS: Final = 360
_MOST_SERIES: Final = 1_000


class Histories:
    """Series by name: time in ms, and value; None where it was unknown."""

    def __init__(self) -> None:
        self._series: OrderedDict[str, deque[tuple[int, float | None]]] = OrderedDict()

    def note(self, name: str, at_ms: int, value: float | None) -> None:
        """One more point. Of too many series the one that was noted longest ago is forgotten; so are points of a clock
        that has been set back since, which would lie in the time to come."""
        points = self._series.setdefault(name, deque(maxlen=MOST_POINTS))
        _append(points, at_ms, value)
        self._series.move_to_end(name)
        if len(self._series) > _MOST_SERIES:
            self._series.popitem(last=False)

    def gap(self, at_ms: int, names: str = "") -> None:
        """From here on nothing is known of those whose names begin so, until something is noted."""
        for name, points in self._series.items():
            if name.startswith(names) and points[-1][1] is not None:
                _append(points, at_ms, None)

    def of(self, name: str) -> Series:
        """The oldest first."""
        return list(self._series.get(name, ()))


def _append(points: deque[tuple[int, float | None]], at_ms: int, value: float | None) -> None:
    while points and points[-1][0] > at_ms:
        points.pop()
    points.append((at_ms, value))
