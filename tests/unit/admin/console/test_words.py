"""How the console says numbers and times."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

import pytest

from rmqspark.admin.console import words

BERLIN = ZoneInfo("Europe/Berlin")
AT_MS = 1_769_860_800_123  # 2026-01-31T12:00:00.123Z


@pytest.mark.parametrize(
    ("said", "is_said"),
    [
        (words.number(None), "unknown"),
        (words.number(0), "0"),
        (words.number(9007199254740993), "9,007,199,254,740,993"),
        (words.rate(None), "unknown"),
        (words.rate(0.0), "0"),
        (words.rate(0.52), "0.5"),
        (words.rate(1234.5), "1,234"),
        (words.percent(None), "unknown"),
        (words.percent(0.856), "86%"),
        (words.seconds(119), "119 s"),
        (words.seconds(120), "2 min"),
        (words.seconds(None), "unknown"),
        (words.milliseconds(1_999), "1999 ms"),
        (words.milliseconds(2_000), "2 s"),
        (words.size(1_536), "1.5 KiB"),
        (words.size(None), "unknown"),
        (words.counted(1, "row"), "1 row"),
        (words.counted(2_000, "body", "bodies"), "2,000 bodies"),
        (words.caught_up(None, 0), "caught up"),
        (words.caught_up(None, 5), "unknown"),
        (words.caught_up(90, 5), "in 90 s"),
        (words.moment(AT_MS, UTC), "2026-01-31 12:00:00Z"),
        (words.moment(253_402_300_799_999, BERLIN), "9999-12-31 23:59:59Z"),
        (words.moment(AT_MS, UTC, exact=True), "2026-01-31 12:00:00.123Z"),
        (words.moment(AT_MS, BERLIN), "2026-01-31 13:00:00+01:00"),
        (words.moment(None, UTC), "unknown"),
        (words.moment(-1, UTC), "-1"),
        (words.moment(1 << 62, UTC), str(1 << 62)),
        (words.clock_time(AT_MS, BERLIN), "13:00:00"),
    ],
)
def test_numbers_and_times(said: str, is_said: str) -> None:
    """Unknown is a word, and exact is exact."""
    assert said == is_said


@pytest.mark.parametrize(
    ("asked", "meant"), [("oders", "orders"), ("ORDERS", "orders"), ("Order", "orders"), ("zzz", None), ("", None)]
)
def test_the_nearest_name(asked: str, meant: str | None) -> None:
    """What was probably meant; nothing where nothing is near."""
    assert words.nearest(asked, ["orders", "invoices", "Billing"]) == meant
