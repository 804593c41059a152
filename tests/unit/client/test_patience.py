"""How often and how long a request is tried again."""

from __future__ import annotations

import logging

import pytest

from rmqspark.client.cluster.patience import Patience, patiently
from rmqspark.errors import BrokerNotRegistered, ConnectionLost, RmqError, TopicNotFound
from rmqspark.source.retry import RetryPolicy
from rmqspark.testing.manual_clock import ManualClock

AWAY = ConnectionLost("It is away.", address="a")


class Attempts:
    """Fails with each of these in turn, the last over and over, after so long; then succeeds."""

    def __init__(self, clock: ManualClock, *failures: RmqError | None, takes_ms: int = 0) -> None:
        self._clock, self._failures, self._takes_ms = clock, list(failures), takes_ms
        self.began_ms: list[int] = []

    def __call__(self) -> str:
        self.began_ms.append(self._clock.monotonic_ms())
        self._clock.sleep_ms(self._takes_ms)
        failure = self._failures[0] if len(self._failures) == 1 else self._failures.pop(0)
        if failure is not None:
            raise failure
        return "done"

    @property
    def pauses_ms(self) -> list[int]:
        return [later - earlier for earlier, later in zip(self.began_ms, self.began_ms[1:], strict=False)]


@pytest.mark.parametrize(
    ("patience", "takes_ms", "between_ms"),
    [
        (Patience(()), 0, []),
        (Patience((1, 5)), 0, [1, 5]),
        (Patience((1, 5)), 100, [101, 105]),
        (Patience((1, 5), for_ms=14), 0, [1, 5, 5, 5]),
        (Patience((1, 5), for_ms=1), 0, [1]),
        (Patience((1, 5), for_ms=300), 200, [201, 205]),  # counted from the first failure on
    ],
    ids=repr,
)
def test_tries_end_by_number_or_by_time(patience: Patience, takes_ms: int, between_ms: list[int]) -> None:
    """The pauses alone say how many tries there are, or the time alone, whatever a try takes."""
    clock = ManualClock()
    attempts = Attempts(clock, AWAY, takes_ms=takes_ms)
    with pytest.raises(ConnectionLost, match="It is away"):
        patiently(attempts, patience, clock)
    assert attempts.pauses_ms == between_ms


@pytest.mark.parametrize(
    ("retry", "between_ms"),
    [
        (RetryPolicy(for_ms=14_000), [200, 1000, 5000, 5000, 5000]),
        (RetryPolicy(interval_ms=50, for_ms=10_000), [50, 250, 1250, 5000, 5000]),
        (RetryPolicy(interval_ms=0, for_ms=10_000), [0, 0, 0, 5000, 5000]),
    ],
    ids=repr,
)
def test_a_query_that_runs_grows_calm(retry: RetryPolicy, between_ms: list[int]) -> None:
    """However soon it first tries again: what has been away for seconds is not asked for a minute without a pause."""
    clock = ManualClock()
    attempts = Attempts(clock, AWAY)
    with pytest.raises(ConnectionLost):
        patiently(attempts, retry.under_way, clock)
    assert attempts.pauses_ms == between_ms


def test_only_what_may_pass_is_tried_again() -> None:
    """The want of a broker may, and what the caller knows to pass."""
    clock = ManualClock()
    passing = Attempts(clock, AWAY, BrokerNotRegistered("b"), TopicNotFound("t"), None)
    assert patiently(passing, Patience((1, 1, 1)), clock, besides=(TopicNotFound,)) == "done"
    lasting = Attempts(clock, TopicNotFound("t"))
    with pytest.raises(TopicNotFound):
        patiently(lasting, Patience((1,), for_ms=100), clock)
    assert len(lasting.began_ms) == 1


def test_each_further_try_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Who looks on learns why nothing happens, and how long that will go on."""
    clock = ManualClock()
    with caplog.at_level(logging.WARNING):
        patiently(Attempts(clock, AWAY, AWAY, None), Patience((10, 20)), clock)
        patiently(Attempts(clock, AWAY, AWAY, None), Patience((1500,), for_ms=2000), clock)
    assert [record.getMessage().removeprefix("It is away. Trying again in ") for record in caplog.records] == [
        "10 ms, 2 more times.",
        "20 ms, 1 more times.",
        "1500 ms, for 2 s more.",
        "1500 ms, for 1 s more.",
    ]
