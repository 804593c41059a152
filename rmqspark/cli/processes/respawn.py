"""How long to wait before a process that ended is started again. Pure."""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_MS: Final = 250
LONGEST_PAUSE_MS: Final = 30_000
STEADY_MS: Final = 10_000  # who ran as long as this did not end because of how it was started


class Backoff:
    """Pauses that double while a process ends soon after its start, and begin anew once it has run steadily."""

    def __init__(self) -> None:
        self._next_ms = FIRST_PAUSE_MS

    def pause_ms(self, ran_ms: int) -> int:
        """The pause after a run of `ran_ms`; 0 is one that never came to serve."""
        if ran_ms >= STEADY_MS:
            self._next_ms = FIRST_PAUSE_MS
        pause_ms, self._next_ms = self._next_ms, min(2 * self._next_ms, LONGEST_PAUSE_MS)
        return pause_ms
