"""Numbers, sizes and times as `rmqspark.words` has them, where they may be unknown: neither 0 nor -1 then. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from rmqspark.display import utc
from rmqspark.words import counted as counted
from rmqspark.words import duration
from rmqspark.words import size as known_size

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

UNKNOWN: Final = "unknown"

_WHOLE_FROM = 10  # rates from here on need no decimal
_SECONDS_FROM_MS = 2_000


def number(value: int | None) -> str:
    """`1,234`; exactly, however large."""
    return UNKNOWN if value is None else f"{value:,}"


def known(text: str | None) -> str:
    return UNKNOWN if text is None else text


def rate(value: float | None) -> str:
    """So many a second: `1,234`, `0.5`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= _WHOLE_FROM or value == 0 else f"{value:.1f}"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def seconds(value: int | None) -> str:
    """`45 s`, `12 min`, `3 h`, `4 days`."""
    return UNKNOWN if value is None else duration(value * 1000)


def milliseconds(value: int | None) -> str:
    """`850 ms`, and from two seconds on as seconds are."""
    return UNKNOWN if value is None else f"{value} ms" if value < _SECONDS_FROM_MS else duration(value)


def size(size_bytes: int | None) -> str:
    """`512 bytes`, `1.5 KiB`, `3.0 GiB`."""
    return UNKNOWN if size_bytes is None else known_size(size_bytes)


def moment(timestamp_ms: int | None, zone: tzinfo, *, exact: bool = False) -> str:
    """`2026-01-31 12:00:00Z`, or with the offset of another zone; `exact` has the milliseconds. What no calendar has
    stays a number."""
    if timestamp_ms is None:
        return UNKNOWN
    at = utc(timestamp_ms)
    if at is None:
        return str(timestamp_ms)
    try:
        at = at.astimezone(zone)
    except OverflowError:  # the last hours that there are: they stay in UTC, where they have a date
        zone = UTC
    text = at.isoformat(" ", "milliseconds" if exact else "seconds")
    return text.removesuffix("+00:00") + "Z" if zone is UTC else text


def clock_time(timestamp_ms: int, zone: tzinfo) -> str:
    """`12:00:00`, for the axis of a chart that says its zone."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).astimezone(zone).strftime("%H:%M:%S")


def caught_up(value: int | None, lag: int | None) -> str:
    """When nothing will be left, at the pace of now."""
    if lag == 0:
        return "caught up"
    return UNKNOWN if value is None else f"in {seconds(value)}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    by_fold = {each.casefold(): each for each in names}
    found = get_close_matches(name.casefold(), by_fold, 1, 0.5)
    return by_fold[found[0]] if found else None
