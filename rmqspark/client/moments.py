"""Times and offsets as people type them: `earliest`, `-10m`, `2026-01-31T12:00`, `1700000000000`, `5:10`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.options import duration_ms, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

_NEVER_MS = (1 << 63) - 1
_TIMES = re.compile(r"([se]?)@(.*)")
_DURATION = re.compile(r"\d{1,12}(ms|s|min|m|h|d)", re.ASCII)
_COLON_BETWEEN = re.compile(r"([^:T]*|[^:T]*T[^Z]*Z):(.*)")


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin or end in each queue: exactly one of the four is set.

    `offset` is a queue offset, or counts back from the queue's end where it is negative. `after_first` counts from the
    oldest message that is still there.
    """

    name: str | None = None  # "earliest" or "latest"
    timestamp_ms: int | None = None
    offset: int | None = None
    after_first: int | None = None

    def is_before(self, other: Position) -> bool:
        """Whether it is so in every queue, whatever the queue holds."""
        if self.timestamp_ms is not None and other.timestamp_ms is not None:
            return self.timestamp_ms < other.timestamp_ms
        if self.offset is not None and other.offset is not None:
            return (self.offset < 0) == (other.offset < 0) and self.offset < other.offset
        return self == EARLIEST and other == LATEST


EARLIEST = Position(name="earliest")
LATEST = Position(name="latest")


def parse_moment(text: str, *, now_ms: int, option: str) -> Position:
    """`earliest`, `latest`, relative (`-10m`), milliseconds since 1970, or ISO 8601.

    A time without a zone is UTC: as every time that `rmq` prints, as `rmq group reset`, and as Spark's options.
    """
    word = text.strip()
    if word in ("earliest", "beginning", "start"):
        return EARLIEST
    if word in ("latest", "end"):
        return LATEST
    try:
        return Position(timestamp_ms=moment(word).resolve(now_ms))
    except ValueError as error:
        raise InvalidArgument(
            f"{option} {text!r} is not a moment: {error}",
            hint="Use earliest, latest, -10m (s, m, h, d), milliseconds since 1970, or 2026-01-31T12:00 (UTC).",
        ) from None


def time_span(from_: str | None, to: str | None, now_ms: int, prefix: str = "--") -> range:
    """The milliseconds in [--from, --to); without them, and with earliest and latest, all there are."""
    begin, end = begin_and_end(from_, to, now_ms, prefix)
    return range(_ms(begin), _ms(end))


def begin_and_end(from_: str | None, to: str | None, now_ms: int, prefix: str = "--") -> tuple[Position, Position]:
    """--from and --to as positions, else earliest and latest. InvalidArgument if that is backwards.

    `prefix` is what stands before their names where they are asked for: nothing in REST."""
    begin = parse_moment(from_ or "earliest", now_ms=now_ms, option=f"{prefix}from")
    end = parse_moment(to or "latest", now_ms=now_ms, option=f"{prefix}to")
    if end.is_before(begin):
        said = [f"{prefix}{option} {text}" for option, text in (("from", from_), ("to", to)) if text]
        raise backwards(" ".join(said))
    return begin, end


def backwards(said: str) -> InvalidArgument:
    return InvalidArgument(f"{said} ends before it begins.", hint="Give the earlier one first: 5:10, -10m and -1m.")


def _ms(moment_: Position) -> int:
    if moment_.timestamp_ms is not None:
        return moment_.timestamp_ms
    return 0 if moment_ == EARLIEST else _NEVER_MS


def parse_offsets(text: str, *, now_ms: int, option: str = "--offset") -> tuple[Position, Position | None]:
    """rpk's and kcat's `-o`: `start`, `end`, `42`, `-5` (the last five of each queue), `+5` (all but its first
    five), `5:10`, `:10`, `@-1h`, `@t1:t2`, `@t1:1h` (an hour from t1 on), and kcat's `s@t1` and `e@t2`.

    Returns where to begin and where to end (exclusive), None for the end of the queue.
    """
    if match := _TIMES.fullmatch(text):
        begin, end = ("", match[2]) if match[1] == "e" else _split_times(match[2])
        first = parse_moment(begin, now_ms=now_ms, option=option) if begin else EARLIEST
        if end and first.timestamp_ms is not None and _DURATION.fullmatch(end):
            return first, Position(timestamp_ms=min(first.timestamp_ms + duration_ms(end), _NEVER_MS))
        return first, parse_moment(end, now_ms=now_ms, option=option) if end else None
    begin, _, end = text.partition(":")
    return _offset(begin, text, option) if begin else EARLIEST, _offset(end, text, option) if end else None


def parse_offset_words(words: Sequence[str], *, now_ms: int) -> tuple[Position, Position | None]:
    """The same of an option that may be given again: kcat says where to end in a word of its own, `-o s@t1 -o e@t2`.
    InvalidArgument for more than that."""
    ends = [word for word in words if word.startswith("e@")]
    parsed = [parse_offsets(word, now_ms=now_ms) for word in sorted(words, key=ends.__contains__)]
    match parsed:
        case [only]:
            return only
        case [(begin, None), (_, end)] if len(ends) == 1:
            return begin, end
    raise InvalidArgument(
        f"--offset is given {len(words)} times.", hint="Once, as 5:10 or @t1..t2, or as kcat has it: -o s@T1 -o e@T2."
    )


def _split_times(text: str) -> tuple[str, str]:
    """A colon also stands inside an ISO time: behind a Z it ends one, as in rpk; other zones need dots, `@t1..t2`."""
    if ".." not in text and (match := _COLON_BETWEEN.fullmatch(text)):
        return match[1], match[2]
    begin, _, end = text.partition("..")
    return begin, end


def _offset(text: str, whole: str, option: str) -> Position:
    if text in ("start", "earliest", "beginning"):
        return EARLIEST
    if text in ("end", "latest"):
        return LATEST
    try:
        return Position(after_first=int(text)) if text.startswith("+") else Position(offset=int(text))
    except ValueError:
        raise InvalidArgument(
            f"{option} {whole!r} is not an offset or a range.",
            hint="Use 42, -5, +5, 5:10, start, end, @-1h or @t1..t2.",
        ) from None
