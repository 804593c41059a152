"""Dates and times in JSON bodies, as Spark's from_json reads them without a format. Pure."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from datetime import tzinfo

BLANKS = "".join(map(chr, (*range(ord(" ") + 1), 0x7F)))
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?", re.ASCII | re.DOTALL)
_MOMENT = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*([A-Za-z+-][\w:/+-]*)?)?)?)?",
    re.ASCII,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d)|:(\d))?", re.ASCII)
_NO_ZONES = re.compile("localtime|posixrules|Factory|(?:posix|right)/.*")  # files beside those of zones
_PARTS = ((1, 1), (2, 1), (3, 1), (4, 0), (5, 0), (6, 0))  # of a match, and what they are where they are missing
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CALENDAR_CYCLE_YEARS = 400  # so many years later every date of the calendar comes again
_CALENDAR_CYCLE = timedelta(days=146_097)


def days_since_1970(text: str) -> int | None:
    """Days to a date, None for what is none: `2024-01-31`, `2024-1`, `2024`, and the date of a time."""
    match = _DATE.fullmatch(text.strip(BLANKS))
    if match is None:
        return None
    year, cycles = _within_python(int(match[1]))
    try:
        since = date(year, int(match[2] or 1), int(match[3] or 1)) - _EPOCH.date()
    except ValueError:
        return None
    return (since - cycles * _CALENDAR_CYCLE).days


def microseconds_since_1970(text: str, *, zoned: bool) -> int | None:
    """Microseconds to an ISO-8601 time, None for what is none. With `zoned` it is in UTC unless it says otherwise
    (`Z`, `+02:00`, `Europe/Berlin`), else it must name no zone."""
    match = _MOMENT.fullmatch(text.strip(BLANKS))
    if match is None or (match[8] and not zoned):
        return None
    named_year, month, day, hour, minute, second = (int(match[part] or least) for part, least in _PARTS)
    year, cycles = _within_python(named_year)
    try:
        when = datetime(year, month, day, hour, minute, second, tzinfo=_zone(match[8] or "Z"))
    except (ValueError, ZoneInfoNotFoundError, OSError):  # OSError: `America` is a folder of zones
        return None
    since = when - _EPOCH - cycles * _CALENDAR_CYCLE
    return since // timedelta(microseconds=1) + int((match[7] or "").ljust(6, "0")[:6])


def _within_python(year: int) -> tuple[int, int]:
    """The year, or one with the same calendar that Python's dates can have, and how many cycles later that is."""
    return (year, 0) if year else (_CALENDAR_CYCLE_YEARS, 1)


def _zone(name: str) -> tzinfo:
    if offset := _OFFSET.fullmatch(name):
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or offset[4] or 0))
        return timezone(ahead if offset[1] == "+" else -ahead)
    if _NO_ZONES.fullmatch(name):
        raise ValueError(name)
    return UTC if name in ("Z", "UTC", "GMT", "UT") else ZoneInfo(name)
