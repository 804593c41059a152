"""What a broker counts: totals, rates over three windows, the totals of this morning."""

from __future__ import annotations

import pytest

from rmqspark.broker.stats import BrokerStats

DAY_MS = 86_400_000


def test_rates_look_back_ten_seconds_a_minute_and_ten_minutes() -> None:
    """A burst shows in the short window first and fades from it first."""
    stats = BrokerStats(now_ms=0)
    for tick in range(1, 61):
        stats.count_puts(100 if tick == 60 else 10, 1)
        stats.sample(tick * 10_000)
    assert stats.per_second("puts") == pytest.approx((10.0, (5 * 10 + 100) / 60, (59 * 10 + 100) / 600))


def test_rates_of_a_young_broker_go_back_to_its_start() -> None:
    """And before the first sample there are none."""
    stats = BrokerStats(now_ms=0)
    assert stats.per_second("puts") == (0.0, 0.0, 0.0)
    stats.count_puts(50, 1)
    stats.sample(10_000)
    assert stats.per_second("puts") == (5.0, 5.0, 5.0)


def test_gets_count_requests_and_messages() -> None:
    """A pull that finds nothing is a miss; one that finds five is one hit and five messages."""
    stats = BrokerStats(now_ms=0)
    stats.count_get(5)
    stats.count_get(0)
    assert (stats.gets_found, stats.gets_missed, stats.transferred) == (1, 1, 5)


def test_at_midnight_the_totals_become_those_of_the_morning() -> None:
    """Today's count is the total less this morning's, yesterday's what lies between the two mornings."""
    stats = BrokerStats(now_ms=DAY_MS - 5_000)
    stats.count_puts(7, 1)
    stats.sample(DAY_MS - 1)
    assert stats.today_morning.puts == 0
    stats.sample(DAY_MS + 1)
    assert (stats.yesterday_morning.puts, stats.today_morning.puts) == (0, 7)
    stats.count_puts(3, 1)
    stats.sample(2 * DAY_MS)
    assert (stats.yesterday_morning.puts, stats.today_morning.puts) == (7, 10)
