"""How the latency of rows is told from what was sent when, and when each batch was committed."""

from __future__ import annotations

from typing import Any

import pytest
from empty_edge import SteadyReader
from feed import TICK_S, run
from hypothesis import given
from hypothesis import strategies as st
from latency import Batch, latencies_ms, percentiles, table


def test_a_row_waits_from_its_tick_to_the_end_of_its_batch() -> None:
    """Rows go into batches in the order in which they were sent."""
    ticks = [(10.0, 1), (10.5, 3), (11.0, 4)]
    batches = [Batch(11.0, 2), Batch(12.0, 2)]
    assert latencies_ms(ticks, batches, from_s=0) == [1_000, 500, 1_500, 1_000]


def test_rows_of_the_first_seconds_do_not_count() -> None:
    """A query's first batches pay for what is made once."""
    assert latencies_ms([(10.0, 1), (11.0, 2)], [Batch(12.0, 2)], from_s=11.0) == [1_000]


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([7.0], [7.0, 7.0, 7.0]),
        (range(1, 101), [50, 95, 99]),
        ([*range(1, 100), 5_000], [50, 95, 99]),
        ([2, 1], [1, 2, 2]),
    ],
)
def test_percentiles_are_values_that_were_measured(latencies: Any, expected: list[float]) -> None:
    """p95 is the smallest latency that 95 of 100 rows do not exceed."""
    assert percentiles(latencies) == expected


@given(
    rate=st.integers(1, 50_000),
    parts=st.integers(1, 8),
    times=st.lists(st.integers(1_700_000_000_000, 1_700_000_100_000), min_size=2, max_size=6),
)
def test_made_up_rows_come_at_the_rate_and_none_twice(rate: int, parts: int, times: list[int]) -> None:
    """However time is cut into batches, the source that does nothing has as many rows in all."""
    times.sort()
    reader = SteadyReader(parts, rate, seconds=1)

    def made(start: int, end: int) -> int:
        return sum(part.value for part in reader.partitions({"at_ms": start}, {"at_ms": end}))

    assert sum(map(made, times, times[1:])) == made(times[0], times[-1])
    assert abs(made(times[0], times[-1]) - (times[-1] - times[0]) * rate / 1000) < parts + 1


def test_made_up_rows_begin_once_whatever_spark_asks_first() -> None:
    """No batch has the rows since the epoch."""
    reader = SteadyReader(2, rate=1_000, seconds=0)
    assert reader.latestOffset() == reader.initialOffset() == reader.latestOffset()


class Hands:
    """A clock that goes on only when somebody sleeps or sends."""

    def __init__(self) -> None:
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_feed_keeps_its_rate_also_after_a_slow_send() -> None:
    """What a slow send delayed goes out with the next tick, and its latency counts from there."""
    hands, sent = Hands(), []

    def send(count: int, queue: int) -> None:
        sent.append((count, queue))
        hands.now += 0.1 if len(sent) == 10 else 0.0

    told = run(send, rate=1_000, seconds=1.0, queues=2, clock=hands)
    assert sum(count for count, _ in sent) == told["ticks"][-1][1]
    assert abs(told["ticks"][-1][1] - 1_000) <= 1_000 * TICK_S + 1
    assert told["longest_send_ms"] == 100
    assert max(count for count, _ in sent) >= 100
    assert {queue for _, queue in sent} == {0, 1}


def test_the_table_shows_both_measures() -> None:
    """The ratio to Kafka, and the share above Spark alone, each beside what is asked."""
    side = {"p50": 90.0, "p95": 140.0, "p99": 160.0}
    line = {"rate": 10_000, "rmqspark": side, "kafka": side, "empty": side, "p50_ratio": 1.0, "p50_share_ms": 12.0}
    assert table([line]).splitlines()[-1] == (
        "| 10,000 a second | 90 / 140 / 160 | 90 / 140 / 160 | 90 / 140 / 160 | 1.00 (≤ 1.3) | 12 ms (or ≤ 30) |"
    )
