"""Texts from outside, shown: in notebooks as plain HTML tables, on terminals without what those would obey. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_ROWS = 200  # of a table; a topic may have thousands of queues
FIRST_OF_10_000_MS: Final = 253_402_300_800_000
"""Since 1970, of the year that calendars of Python do not have."""

OBEYED: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""As in a class of a pattern: control characters, C1's among them, and what turns the line around or breaks it."""

_OBEYED: Final = re.compile(f"[{OBEYED}]")


def printable(text: str) -> str:
    """A text for a terminal: nothing in it moves the cursor, and it reads as it is. Lines and tabs stay."""
    return _OBEYED.sub(lambda found: _code(ord(found.group())), text)


def printable_json(document: str) -> str:
    """The same of a JSON document, which stays one, with the same meaning."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found.group()):04x}", document)


def _code(character: int) -> str:
    return f"\\x{character:02x}" if character < 0x100 else f"\\u{character:04x}"


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """A title, and name and value in a row each."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{_cell(name)}</th>{_data(value)}</tr>" for name, value in facts.items()
    )
    return f"{_title(title)}<table>{rows}</table>"


def table_html(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A title, and rows under their headings, the first `MAX_ROWS` of them."""
    listed = list(rows)
    head = "".join(f"<th>{_cell(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_data, row))}</tr>" for row in listed[:MAX_ROWS])
    more = f"<p>and {len(listed) - MAX_ROWS:,} more</p>" if len(listed) > MAX_ROWS else ""
    return f"{_title(title)}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def time_text(timestamp_ms: int) -> str:
    """A time in UTC; 0 is never. What no calendar has stays a number."""
    if not timestamp_ms:
        return "never"
    at = utc(timestamp_ms)
    return str(timestamp_ms) if at is None else at.strftime("%Y-%m-%d %H:%M:%SZ")


def exact_time(timestamp_ms: int, between: str = "T") -> str:
    """A time in UTC to the millisecond, as ISO 8601 has it. What no calendar has stays a number."""
    at = utc(timestamp_ms)
    return str(timestamp_ms) if at is None else at.isoformat(between, "milliseconds")


def utc(timestamp_ms: int) -> datetime | None:
    """None for what no calendar has: when a message was born clients say as they like."""
    if not 0 <= timestamp_ms < FIRST_OF_10_000_MS:
        return None
    return datetime.fromtimestamp(timestamp_ms // 1000, UTC).replace(microsecond=timestamp_ms % 1000 * 1000)


def _title(title: str) -> str:
    return f"<p><b>{escape(title)}</b></p>" if title else ""


def _data(value: Any) -> str:
    side = "right" if isinstance(value, (int, float)) and not isinstance(value, bool) else "left"
    return f"<td style='text-align:{side}'>{_cell(value)}</td>"


def _cell(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(str(value))
