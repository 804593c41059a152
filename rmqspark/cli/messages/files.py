"""Reading files of messages: JSON lines, CSV and Parquet, with the names of the Spark columns."""

from __future__ import annotations

import csv
import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from rmqspark.cli.messages.formats import BODIES, READ_COLUMNS, SOURCE_ONLY, as_text, from_object
from rmqspark.cli.messages.parquet_rows import check_heading, read_parquet
from rmqspark.cli.messages.places import naming
from rmqspark.errors import DecodeError, InvalidArgument
from rmqspark.model import Message
from rmqspark.options import json_object, moment, most_like
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_LINE_BYTES = 6 << 20  # a body of 4 MiB, with room for its key
_MAX_JSON_LINE_BYTES = 26 << 20  # one of control characters, which JSON spells in six, and the rest of its object
_KNOWN = frozenset({*READ_COLUMNS, *SOURCE_ONLY})
_COLUMNS_NAMED = 8
_MAX_INT64 = (1 << 63) - 1
_ALIKE = 0.65  # as Spark's sink has it
_SECONDS = range(10**8, 10**11)  # as there, too


class Recorded(NamedTuple):
    """A message of a file, where in it, and what the file says of where and when it was; None where it says nothing."""

    message: Message
    place: str
    queue_id: int | None
    shard: str | None
    store_timestamp_ms: int | None


def read_file(file: Path, topic: str | None, *, ignores_unknown: bool = False) -> Iterator[Recorded]:
    """The messages of F.jsonl, F.csv or F.parquet, for `topic`, else for the one that each row names.

    Raises InvalidArgument for a file that is none of them, or has a column that nobody knows beside a body, unless that
    is to be left out; DecodeError for one that does not hold what it should.
    """
    readers = {".jsonl": _read_jsonl, ".ndjson": _read_jsonl, ".csv": _read_csv, ".parquet": read_parquet}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InvalidArgument(f"{file} is neither .jsonl, .csv nor .parquet.")
    if not file.is_file():
        raise InvalidArgument(f"{file} does not exist.")
    for number, record in enumerate(reader(file), start=1):
        place = f"{file}, row {number}"
        if not ignores_unknown:
            _check_columns(record, place)
        yield _recorded(record, topic, place)


def _check_columns(record: dict[str, Any], place: str) -> None:
    """A row without a body is the body: its columns are whatever they are."""
    strange = sorted(record.keys() - _KNOWN)
    if not strange or BODIES.isdisjoint(record):
        return
    nearest = next(filter(None, (most_like(name, READ_COLUMNS, cutoff=_ALIKE) for name in strange)), None)
    wish = f"Did you mean {nearest!r}? " if nearest else ""
    raise InvalidArgument(
        f"{place}: nothing is known of {_columns(strange)}.",
        hint=f"{wish}Put it into body or properties, drop it, or say --ignore-unknown-columns.",
    )


def _columns(names: list[str]) -> str:
    rest = f" and {len(names) - _COLUMNS_NAMED} more" if len(names) > _COLUMNS_NAMED else ""
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {', '.join(repr(name) for name in names[:_COLUMNS_NAMED])}{rest}"


def _recorded(record: dict[str, Any], topic: str | None, place: str) -> Recorded:
    is_message = not BODIES.isdisjoint(record)  # else the row is the body, whatever its columns are called
    target = topic or (record.get("topic") if is_message else None)
    if not target:
        raise InvalidArgument(f"{place} names no topic.", hint="Say which: --topic orders.")
    with naming(place):
        message = from_object(str(target), record)
    if not is_message:
        return Recorded(message, place, None, None, None)
    flag, level = (_number(record, name, place) or 0 for name in ("flag", "delayLevel"))
    return Recorded(
        replace(message, flag=flag, delay_level=level, deliver_time_ms=_deliver_time_ms(record, place)),
        place,
        _number(record, "queueId", place),
        _shard(record),
        _time_ms(record, "storeTimestamp", place),
    )


def _shard(record: dict[str, Any]) -> str | None:
    """The sink has a column for it; what was read has it among the properties."""
    properties = record.get("properties")
    stored = properties.get(Property.SHARDING_KEY) if isinstance(properties, dict) else None
    given = record.get("shardingKey")
    shard = stored if given is None or given == "" else given
    return None if shard is None else as_text(shard)


def _deliver_time_ms(record: dict[str, Any], place: str) -> int:
    """Not in seconds: they would be long past."""
    time_ms = _time_ms(record, "deliverTime", place) or 0
    if time_ms in _SECONDS and not isinstance(record["deliverTime"], datetime):
        raise DecodeError(f"{place}: deliverTime {time_ms} looks like seconds since 1970, and is in milliseconds.")
    return time_ms


def _time_ms(record: dict[str, Any], name: str, place: str) -> int | None:
    """A time in ms, as a number, of a Parquet file, or written out as REST and Spark do; without a zone in UTC."""
    value = record.get(name)
    if isinstance(value, datetime):
        return round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1_000)
    if isinstance(value, str) and not re.fullmatch("[+-]?[0-9]*", value):
        with suppress(ValueError):
            if (at_ms := moment(value).at_ms) is not None:
                return at_ms
        raise DecodeError(
            f"{place}: {name} {value!r:.60} is no time.", hint="Write 2026-01-31T12:00Z, or milliseconds."
        )
    return _number(record, name, place)


def _number(record: dict[str, Any], name: str, place: str) -> int | None:
    """A whole number; None where there is none."""
    value = record.get(name)
    if value is None or value == "":
        return None
    with suppress(TypeError, ValueError, OverflowError):  # the last of infinity, which JSON's 1e999 is
        number = int(value)
        if (number == value or isinstance(value, str)) and abs(number) <= _MAX_INT64:
            return number
    raise DecodeError(f"{place}: {name} {value!r:.60} is no whole number of 64 bits.")


def lines(stream: IO[bytes], name: str = "", most_bytes: int = _MAX_LINE_BYTES) -> Iterator[tuple[str, bytes]]:
    """Each line without its end, and its place in what is called so. DecodeError for one that is longer than any
    message."""
    for number in count(1):
        place = f"{name}, line {number}" if name else f"Line {number}"
        line = stream.readline(most_bytes)
        if not line:
            return
        if len(line) == most_bytes:
            raise DecodeError(f"{place} is longer than {most_bytes:,} bytes; a body may have 4 MiB.")
        yield place, line.rstrip(b"\r\n")


def _read_jsonl(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as stream:
        for place, line in lines(stream, str(file), _MAX_JSON_LINE_BYTES):
            try:
                record = json.loads(line) if line else None
            except (ValueError, RecursionError) as error:
                raise DecodeError(f"{place} is not JSON that can be read: {error}.") from None
            if isinstance(record, dict):
                yield record
            elif line:
                raise DecodeError(f"{place} is not a JSON object.")


def _read_csv(file: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_MAX_LINE_BYTES)  # 128 KiB otherwise, less than a body may have
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:  # Excel begins a file with a byte order mark
            reader = csv.DictReader(stream, strict=True)  # or a file that was cut off within quotes would do
            check_heading(reader.fieldnames or (), file)
            for number, row in enumerate(reader, start=1):
                if None in row:  # where DictReader puts what has no heading
                    raise DecodeError(f"{file}, row {number} has more fields than the heading.")
                yield _with_parsed_properties(row, f"{file}, row {number}")
    except (csv.Error, UnicodeDecodeError) as error:
        hint = "Of Spark's CSV, it takes what is written with option escape='\"'."
        raise DecodeError(f"{file} is no CSV in UTF-8 that can be read: {error}.", hint=hint) from None


def _with_parsed_properties(row: dict[str, Any], place: str) -> dict[str, Any]:
    """A field of CSV has room for a JSON object."""
    text = row.get("properties")
    if not text or BODIES.isdisjoint(row):
        return row
    try:
        return row | {"properties": json_object(text)}
    except ValueError as error:
        raise DecodeError(f"{place}: properties {text!r:.60} cannot be read: {error}") from None
