"""How patient the source is with brokers that do not answer."""

from __future__ import annotations

from typing import NamedTuple

from rmqspark.client.cluster.patience import Patience

_LONGEST_GROWN_PAUSE_MS = 5_000


class RetryPolicy(NamedTuple):
    """How often a failed request is tried again, and the pause before the first try; each next one is 5 times as long.

    By default that is patience for six seconds, in which a broker can be restarted. With `for_ms` what runs is more
    patient than what begins: it goes on for so long, behind these tries at the longest pause there is.
    """

    retries: int = 3
    interval_ms: int = 200
    for_ms: int | None = None

    @property
    def pauses_ms(self) -> tuple[int, ...]:
        """Before each further try."""
        return tuple(min(self.interval_ms * 5 ** min(turn, 8), self._longest_ms) for turn in range(self.retries))

    @property
    def beginning(self) -> Patience:
        return Patience(self.pauses_ms)

    @property
    def under_way(self) -> Patience:
        if self.for_ms is None:
            return self.beginning
        return Patience((*self.pauses_ms, self._longest_ms), self.for_ms)  # or a pause of 0 would be one for a minute

    @property
    def further_looks(self) -> Patience:
        """Looks at a cluster in which a broker has gone since the last one: each is patient itself."""
        return Patience((0,)) if self.for_ms is None else self.under_way

    @property
    def _longest_ms(self) -> int:
        return max(self.interval_ms, _LONGEST_GROWN_PAUSE_MS)
