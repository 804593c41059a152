"""Whether a server does better to rest for a moment, so that requests come together.

A client of many threads sends each request by itself. Where the server is quick it then handles one or two in a turn of
its loop, and both sides pay for waking up, reading and writing each time. A rest of a tenth of a millisecond lets them
gather, as network cards do with packets: the answers of a turn leave in one piece, and the client wakes once for all.

Whether that pays only the clients' answers to it can tell: some go on sending meanwhile, some wait for what is due. So
it is tried: a stretch with rests beside one without, and what had more requests handled is kept for a while. Those who
send one by one never meet a rest: there is none after a turn of a single request, and none after one of many.
"""

from __future__ import annotations

from typing import Final

REST_US: Final = 60  # the kernel makes some 110 of it
_TURNS_TO_REST_AFTER: Final = range(2, 33)  # by their requests
_TRIAL_MS: Final = 25
_KEPT_MS: Final = 1_000
_LEAST_REQUESTS: Final = 125  # of a trial, 5,000 a second: with fewer there is nothing to gain
_WORTH_IT: Final = 1.1


class Resting:
    """Belongs to the loop's thread. Time comes in as milliseconds of the loop's clock."""

    def __init__(self) -> None:
        self._rests = False
        self._is_trial = True
        self._rate_without = 0.0  # requests a millisecond
        self._begin_ms = 0.0
        self._requests = 0

    def after_turn(self, requests: int, now_ms: float) -> bool:
        """Whether to rest now, after a turn in which so many requests were handled."""
        self._requests += requests
        duration_ms = now_ms - self._begin_ms
        if duration_ms >= (_TRIAL_MS if self._is_trial else _KEPT_MS):
            self._next_stretch(self._requests / duration_ms)
            self._begin_ms, self._requests = now_ms, 0
        return self._rests and requests in _TURNS_TO_REST_AFTER

    def _next_stretch(self, rate: float) -> None:
        """A trial without rests, one with rests if there is much to do, then what was better, and so on."""
        if not self._is_trial:
            self._is_trial, self._rests = True, False
        elif not self._rests and rate * _TRIAL_MS >= _LEAST_REQUESTS:
            self._rate_without, self._rests = rate, True
        else:
            self._is_trial, self._rests = False, self._rests and rate >= _WORTH_IT * self._rate_without
