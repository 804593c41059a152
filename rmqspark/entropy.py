"""The only place that draws random numbers. Everything else is given an `Entropy`; tests give a seeded one."""

from __future__ import annotations

import random
from typing import Protocol


class Entropy(Protocol):
    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""

    def token(self, size_bytes: int) -> bytes:
        """That many random bytes."""


class SystemEntropy:
    """The operating system's randomness, or a reproducible stream where a seed is given."""

    def __init__(self, seed: int | str | None = None) -> None:
        self._random = random.SystemRandom() if seed is None else random.Random(seed)  # noqa: S311 - a seed is for who repeats a run

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def token(self, size_bytes: int) -> bytes:
        return self._random.randbytes(size_bytes)
