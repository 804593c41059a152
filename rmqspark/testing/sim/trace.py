"""What happened in a run: a hash of all of it, and which kinds of things were reached."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256


class Trace:
    """Two runs that have the same hash were the same run."""

    def __init__(self) -> None:
        self._hash = sha256()
        self.reached_points: Counter[str] = Counter()

    def note(self, now_s: float, what: str, data: bytes = b"") -> None:
        self._hash.update(f"{now_s!r} {what} {len(data)} ".encode())
        self._hash.update(data)

    def delivered(self, now_s: float, where: str, data: bytes) -> None:
        self.note(now_s, where, data)

    def reached(self, point: str) -> None:
        """Something that should happen in some of the runs, or they are not worth much."""
        self.reached_points[point] += 1

    def digest(self) -> str:
        return self._hash.hexdigest()
