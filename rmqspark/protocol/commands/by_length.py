"""What was made of headers, found again by their length; a bounded number of them, the newest first."""

from __future__ import annotations

from typing import Final, TypeVar

T = TypeVar("T")

MOST_HEADER_BYTES: Final = 1024  # of a header that something is remembered of
_MOST_LENGTHS: Final = 256
_MOST_ALIKE: Final = 4  # of one length


class ByLength(dict[int, list[T]]):
    """Whoever sends headers of all lengths fills a few hundred places, and then begins anew."""

    def remember(self, length: int, made: T) -> None:
        if length not in self and len(self) == _MOST_LENGTHS:
            self.clear()
        alike = self.setdefault(length, [])
        alike.insert(0, made)
        del alike[_MOST_ALIKE:]

    @property
    def total(self) -> int:
        return sum(map(len, self.values()))
