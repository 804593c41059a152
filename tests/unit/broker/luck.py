"""What a power loss leaves."""

from __future__ import annotations

from random import Random


class Luck:
    """What of unsynced bytes survives a power loss, by a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def token(self, size: int) -> bytes:
        return self._random.randbytes(size)
