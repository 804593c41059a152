"""Times and offsets as people type them."""

from __future__ import annotations

from datetime import datetime

import pytest

from rmqspark.cli.moments import EARLIEST, LATEST, Position, parse_moment, parse_offsets
from rmqspark.errors import InvalidArgument

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("-10m", Position(timestamp_ms=NOW - 600_000)),
        ("-250ms", Position(timestamp_ms=NOW - 250)),
        ("-2d", Position(timestamp_ms=NOW - 172_800_000)),
        ("1699999999000", Position(timestamp_ms=1_699_999_999_000)),
        ("2023-11-14T22:13:20+00:00", Position(timestamp_ms=NOW)),
        ("2023-11-14", Position(timestamp_ms=int(datetime(2023, 11, 14).timestamp() * 1000))),  # noqa: DTZ001 - local
    ],
)
def test_moments_are_read_as_people_write_them(text: str, expected: Position) -> None:
    """Names, relative times, milliseconds and ISO 8601 all say when."""
    assert parse_moment(text, now_ms=NOW, option="--from") == expected


@pytest.mark.parametrize("text", ["yesterday", "-10x", "", "10m"])
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    """The error names the option and shows what it takes."""
    with pytest.raises(InvalidArgument, match=r"--from .*-10m"):
        parse_moment(text, now_ms=NOW, option="--from")


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("start", EARLIEST, None),
        ("end", LATEST, None),
        ("42", Position(offset=42), None),
        ("-5", Position(offset=-5), None),
        ("5:10", Position(offset=5), Position(offset=10)),
        (":10", EARLIEST, Position(offset=10)),
        ("5:", Position(offset=5), None),
        ("@-1h", Position(timestamp_ms=NOW - 3_600_000), None),
        ("@1000:2000", Position(timestamp_ms=1000), Position(timestamp_ms=2000)),
        (
            "@2023-11-14T22:13:19+00:00..2023-11-14T22:13:20+00:00",
            Position(timestamp_ms=NOW - 1000),
            Position(timestamp_ms=NOW),
        ),
    ],
)
def test_offsets_are_read_as_rpk_and_kcat_read_them(text: str, begin: Position, end: Position | None) -> None:
    """Single offsets, offsets from the end, ranges and times."""
    assert parse_offsets(text, now_ms=NOW) == (begin, end)


def test_what_is_no_offset_is_refused_with_examples() -> None:
    """The error shows what an offset looks like."""
    with pytest.raises(InvalidArgument, match=r"'a:b'.*5:10"):
        parse_offsets("a:b", now_ms=NOW)
