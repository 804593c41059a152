"""Answers that clients have not taken yet, all connections of a server together.

A client that does not read costs what its connection may hold; a thousand of them cost a thousand times that. So there
is a bound for all, and above it those are given up whose answers have waited longest. What a connection holds is noted
when it is written to and looked at; it may have become less since, so it is asked again before it is given up.
"""

from __future__ import annotations

from typing import Protocol


class Holder(Protocol):
    """A connection, as this sees it."""

    @property
    def unsent_bytes(self) -> int:
        """What it holds now."""

    def close(self, reason: str) -> None:
        """Ends it; it holds nothing then."""


class UnsentAnswers:
    """Sums up what the connections of a server hold, and ends some of them above about `limit_bytes`."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._total = 0
        self._held: dict[Holder, int] = {}  # in the order in which they began to hold something

    @property
    def total_bytes(self) -> int:
        return self._total

    def note(self, holder: Holder, unsent_bytes: int) -> None:
        """Takes down what a connection holds now; above the bound, closes connections until it is kept again."""
        self._set(holder, unsent_bytes)
        if self._total > self._limit:
            self._give_up()

    def _give_up(self) -> None:
        for holder in list(self._held):
            self._set(holder, holder.unsent_bytes)
            if self._total <= self._limit:
                return
            if holder in self._held:
                self._set(holder, 0)
                holder.close("its answers have waited longest, and too many wait for all clients together")

    def _set(self, holder: Holder, unsent_bytes: int) -> None:
        self._total += unsent_bytes - self._held.get(holder, 0)
        if unsent_bytes:
            self._held[holder] = unsent_bytes
        else:
            self._held.pop(holder, None)
