"""Times and offsets as people type them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.administration.group_resets import ResetTarget
from rmqspark.client.moments import EARLIEST, LATEST, Position, parse_moment, parse_offset_words, parse_offsets
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        ("2023-11-14T23:13:20+01:00", Position(timestamp_ms=NOW)),
        ("2023-11-14T22:13:20", Position(timestamp_ms=NOW)),
        ("2023-11-14", Position(timestamp_ms=NOW - 80_000_000)),
    ],
)
def test_moments_are_read_as_people_write_them(text: str, expected: Position) -> None:
    """Names, relative times, milliseconds and ISO 8601 all say when."""
    assert parse_moment(text, now_ms=NOW, option="--from") == expected


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_utc")
def test_a_time_means_the_same_to_every_verb() -> None:
    """`rmq consume --from` and `rmq group reset --to` go to one place, wherever they are typed."""
    text = "2023-11-14T22:13:20"
    target = ResetTarget.parse(text).moment
    assert target is not None
    assert parse_moment(text, now_ms=0, option="--from").timestamp_ms == target.resolve(0) == NOW


def test_a_day_without_dashes_is_refused_with_the_day() -> None:
    """It would be milliseconds, of 1970."""
    with pytest.raises(InvalidArgument, match="--from '20260131' is not a moment: .*2026-01-31 is accepted"):
        parse_moment("20260131", now_ms=NOW, option="--from")


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
        ("+5", Position(after_first=5), None),
        (":10", EARLIEST, Position(offset=10)),
        (":end", EARLIEST, LATEST),
        ("5:", Position(offset=5), None),
        ("@-1h", Position(timestamp_ms=NOW - 3_600_000), None),
        ("@-1h:-30m", Position(timestamp_ms=NOW - 3_600_000), Position(timestamp_ms=NOW - 1_800_000)),
        ("@-48h:24h", Position(timestamp_ms=NOW - 172_800_000), Position(timestamp_ms=NOW - 86_400_000)),
        ("@2023-11-14:1h", Position(timestamp_ms=NOW - 80_000_000), Position(timestamp_ms=NOW - 76_400_000)),
        ("@2023-11-14T22:13:20Z..500ms", Position(timestamp_ms=NOW), Position(timestamp_ms=NOW + 500)),
        ("@:3000", EARLIEST, Position(timestamp_ms=3000)),
        ("s@1000", Position(timestamp_ms=1000), None),
        ("e@3000", EARLIEST, Position(timestamp_ms=3000)),
        ("@1000:3000", Position(timestamp_ms=1000), Position(timestamp_ms=3000)),
        ("@2023-11-14T22:13:20Z", Position(timestamp_ms=NOW), None),
        ("@2023-11-14T22:13:20Z:end", Position(timestamp_ms=NOW), LATEST),
        ("@2023-11-14T22:13:19Z:2023-11-14T22:13:20Z", Position(timestamp_ms=NOW - 1000), Position(timestamp_ms=NOW)),
        ("@-1h:2023-11-14T22:13:20Z", Position(timestamp_ms=NOW - 3_600_000), Position(timestamp_ms=NOW)),
        ("@:2023-11-14T22:13:20Z", EARLIEST, Position(timestamp_ms=NOW)),
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


@pytest.mark.parametrize("words", [("s@1000", "e@3000"), ("e@3000", "s@1000"), ("@1000", "e@3000")])
def test_where_to_end_may_be_a_word_of_its_own(words: tuple[str, ...]) -> None:
    """As kcat's users type it: `-o s@1000 -o e@3000`. All from the first message on was read."""
    assert parse_offset_words(words, now_ms=NOW) == (Position(timestamp_ms=1000), Position(timestamp_ms=3000))
    assert parse_offset_words(["5:10"], now_ms=NOW) == (Position(offset=5), Position(offset=10))


@pytest.mark.parametrize("words", [("5", "7"), ("e@1000", "e@3000"), ("5:10", "e@3000"), ("s@1", "e@2", "e@3")])
def test_of_words_that_contradict_each_other_none_is_left_aside(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument, match=f"--offset is given {len(words)} times.*-o s@T1 -o e@T2"):
        parse_offset_words(words, now_ms=NOW)


@pytest.mark.parametrize("text", ["@:1h", "@start:1h", "@-1h:10x", "@1h"])
def test_a_span_of_time_needs_a_time_to_begin_at(text: str) -> None:
    """An hour from the first message on is no moment, and neither is an hour alone."""
    with pytest.raises(InvalidArgument, match="--offset .*is not a moment"):
        parse_offsets(text, now_ms=NOW)


def test_what_is_no_offset_is_refused_with_examples() -> None:
    """The error shows what an offset looks like."""
    with pytest.raises(InvalidArgument, match=r"'a:b'.*5:10"):
        parse_offsets("a:b", now_ms=NOW)


@pytest.mark.parametrize(
    ("end", "begin", "is_backwards"),
    [
        (Position(offset=5), Position(offset=10), True),
        (Position(offset=5), Position(offset=5), False),
        (Position(offset=-10), Position(offset=-5), True),
        (Position(offset=5), Position(offset=-5), False),
        (Position(offset=5), Position(after_first=10), False),
        (Position(timestamp_ms=1), Position(timestamp_ms=2), True),
        (Position(timestamp_ms=2), Position(timestamp_ms=1), False),
        (EARLIEST, LATEST, True),
        (LATEST, EARLIEST, False),
        (EARLIEST, Position(timestamp_ms=1), False),
    ],
)
def test_a_range_that_is_backwards_whatever_the_queue_holds(end: Position, begin: Position, is_backwards: bool) -> None:
    """Only that is a slip: what depends on the queue may be empty in one and not in another."""
    assert end.is_before(begin) is is_backwards
