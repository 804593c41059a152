"""When the ledger is restated. Pure: told what there is, and what time it is."""

from __future__ import annotations

from typing import Final, NamedTuple

_AFTER_EVENTS: Final = 100_000
_FIRST_REST_MS: Final = 60_000  # after a failure, doubled up to
_LONGEST_REST_MS: Final = 3_600_000


class Extent(NamedTuple):
    """How much there is from some place of the ledger on: bytes of the log, whoever's, and events."""

    log_bytes: int = 0
    events: int = 0


class RestateTimes:
    """It is due once the log has grown by `after_bytes` or so; where it fails, it rests: longer and longer, for each
    try may write up to all there is, but no longer than until the log has grown, for what is pinned must not fill the
    disk."""

    def __init__(self, after_bytes: int) -> None:
        self._enough = Extent(after_bytes, _AFTER_EVENTS)
        self._took = Extent()
        self._pause_ms = 0
        self._rests_until_ms = 0
        self._rests_until_end = 0  # physical offset

    def is_due(self, behind: Extent) -> bool:
        """Whether there is much behind the start. What restating took lies there itself, and must not make the next
        one due: so there has to be as much again."""
        each = zip(behind, self._enough, self._took, strict=True)
        return any(found >= max(enough, 2 * took) for found, enough, took in each)

    def is_resting(self, now_ms: int, end_offset: int) -> bool:
        """Whether it is too early to try again. `now_ms` is monotonic, `end_offset` where the log ends."""
        return now_ms < self._rests_until_ms and end_offset < self._rests_until_end

    def took(self, extent: Extent) -> None:
        """That it is done, and what lies behind the start by that."""
        self._took = extent

    def succeeded(self) -> None:
        """That the last try did not fail."""
        self._pause_ms = 0

    def failed(self, now_ms: int, end_offset: int, wrote_bytes: int) -> bool:
        """That a try failed after so many bytes; whether the one before it did not."""
        is_first = not self._pause_ms
        self._pause_ms = min(max(2 * self._pause_ms, _FIRST_REST_MS), _LONGEST_REST_MS)
        self._rests_until_ms = now_ms + self._pause_ms
        self._rests_until_end = end_offset + max(self._enough.log_bytes, 2 * wrote_bytes)
        return is_first
