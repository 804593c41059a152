"""What was made and may be wanted again, so many of it and no more."""

from __future__ import annotations

from typing import Final, TypeVar

MOST_SHEETS: Final = 64
"""Of one kind: the shapes that sends come in are few, unless somebody wants them to be many."""

K = TypeVar("K")
V = TypeVar("V")


class AtMost(dict[K, V]):
    """A dict of at most so many. Where one more is kept, all that were kept before are dropped."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, made: V) -> V:
        """Keeps what was made, and returns it."""
        if len(self) >= self._most:
            self.clear()
        self[key] = made
        return made
