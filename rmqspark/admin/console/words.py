"""Numbers, sizes and times as the console says them. What is unknown is "unknown": neither 0 nor -1. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import tzinfo

UNKNOWN: Final = "unknown"

_UNITS_S = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_SIZE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
_FROM = 2  # 119 s is said so, 120 s is 2 min
_WHOLE_FROM = 10  # rates from here on need no decimal
_FIRST_OF_10_000_MS = 253_402_300_800_000


def number(value: int | None) -> str:
    """`1,234`; exactly, however large."""
    return UNKNOWN if value is None else f"{value:,}"


def rate(value: float | None) -> str:
    """So many a second: `1,234`, `0.5`."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value >= _WHOLE_FROM or value == 0 else f"{value:.1f}"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def seconds(value: int | None) -> str:
    """`45 s`, `12 min`, `3 h`, `4 days`: in the largest unit of which there are two."""
    if value is None:
        return UNKNOWN
    unit, unit_s = next(((unit, unit_s) for unit, unit_s in _UNITS_S if value >= _FROM * unit_s), ("s", 1))
    return f"{value // unit_s:,} {unit}"


def milliseconds(value: int | None) -> str:
    """`850 ms`, and from two seconds on as seconds are."""
    return UNKNOWN if value is None else f"{value} ms" if value < _FROM * 1000 else seconds(value // 1000)


def size(size_bytes: int | None) -> str:
    """`512 bytes`, `1.5 KiB`, `3.0 GiB`."""
    if size_bytes is None:
        return UNKNOWN
    power = min((max(size_bytes, 1).bit_length() - 1) // 10, len(_SIZE_UNITS) - 1)
    return f"{size_bytes} bytes" if not power else f"{size_bytes / 1024**power:.1f} {_SIZE_UNITS[power]}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 row`, `2,000 rows`; `plural` where it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def moment(timestamp_ms: int | None, zone: tzinfo, *, exact: bool = False) -> str:
    """`2026-01-31 12:00:00Z`, or with the offset of another zone; `exact` has the milliseconds. What no calendar has
    stays a number."""
    if timestamp_ms is None:
        return UNKNOWN
    if not 0 <= timestamp_ms < _FIRST_OF_10_000_MS:
        return str(timestamp_ms)
    at = datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)
    text = at.astimezone(zone).isoformat(" ", "milliseconds" if exact else "seconds")
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
