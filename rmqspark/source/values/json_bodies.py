"""JSON bodies into Arrow columns of a schema, thousands at a time.

The fast way hands all bodies to Arrow's JSON reader at once, joined by newlines. It is taken where it gives what one
body after the other would: each body begins with a brace, ends with one and has no newline. Then no object reaches
over a newline (behind a closing brace no value may begin), each body holds one object at least, and as many rows as
bodies means one in each. Whatever Arrow refuses, a single body of a thousand too, is left to the slower way, a body at
a time in Python (`json_values`), for the block of rows that it is in.

The two agree but for what Python's parser has limits to: the fast way lets pass a number of five thousand digits, and
in a field that nobody reads an array nested a thousand deep, a `-NaN`, and an `Inf`.

Fields of other types than `_FAST` (maps, binary, dates and long decimals inside of structs) are read in the slower way
only: Arrow reads them from other JSON than Spark does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.pandas.types import to_arrow_schema

from rmqspark.source.values.json_values import Unfit, document_reader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BLOCK_ROWS = 512

_MAX_DECIMAL_DIGITS = 38
_NEWLINE, _OPEN, _CLOSE = b"\n{}"
# Arrow makes -0.0 of a whole -0, and takes the others; Spark does neither.
_NOT_SPARKS = re.compile(rb"-0[\s,}\]]|-NaN|\bInf\b")
_FAST = (
    pa.types.is_boolean, pa.types.is_signed_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_decimal,
)  # fmt: skip


class Parsed(NamedTuple):
    """A column for each field, and why rows did not parse, by row: their fields are null where they do not fit."""

    columns: list[Any]
    bad: dict[int, str]


class JsonBodies:
    """Parses bodies (a `binary` array without nulls) against fields that `check_read_schema` has passed."""

    def __init__(self, fields: StructType) -> None:
        self._schema = to_arrow_schema(fields, timezone="UTC")
        self._read_document = document_reader(fields)
        self._reading = _reading_schema(self._schema)

    def parse(self, bodies: Any) -> Parsed:
        if self._reading is None:
            return self._one_by_one(bodies)
        columns = self._at_once(bodies, self._reading)
        if columns is not None:
            return Parsed(columns, {})
        return _joined([self._block(bodies.slice(first, BLOCK_ROWS)) for first in range(0, len(bodies), BLOCK_ROWS)])

    def _block(self, bodies: Any) -> Parsed:
        columns = self._at_once(bodies, self._reading)
        return self._one_by_one(bodies) if columns is None else Parsed(columns, {})

    def _at_once(self, bodies: Any, reading: Any) -> list[Any] | None:
        """The columns, or None where one body at least has to be looked at by itself."""
        lines = pa.ListArray.from_arrays(pa.array([0, len(bodies)], pa.int32()), bodies)
        text = pc.binary_join(lines, b"\n")[0].as_buffer()
        if not _is_plain(text, len(bodies)):
            return None
        try:
            table = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(use_threads=False, block_size=text.size + 1),
                parse_options=pj.ParseOptions(explicit_schema=reading, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != len(bodies):
                return None
            columns = [_as_wanted(table.column(field.name), field.type) for field in self._schema]
        except pa.ArrowInvalid:
            return None
        is_doubtful = any(map(_may_not_be_sparks, columns)) and _NOT_SPARKS.search(text)
        return None if is_doubtful else columns

    def _one_by_one(self, bodies: Any) -> Parsed:
        bad: dict[int, str] = {}
        rows: list[dict[str, Any]] = []
        for row, body in enumerate(bodies.to_pylist()):
            try:
                rows.append(self._read_document(body))
            except Unfit as unfit:
                rows.append(unfit.partial or {})
                bad[row] = unfit.reason
        return Parsed([pa.array([row.get(field.name) for row in rows], field.type) for field in self._schema], bad)


def _is_plain(text: Any, count: int) -> bool:
    """Whether each line of UTF-8 begins and ends with a brace, and there are `count` of them."""
    letters = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(letters == _NEWLINE)
    if not len(letters) or len(ends) != count - 1 or letters[0] != _OPEN or letters[-1] != _CLOSE:
        return False
    if (letters[ends - 1] != _CLOSE).any() or (letters[ends + 1] != _OPEN).any():
        return False
    try:
        str(text, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _reading_schema(schema: Any) -> Any:
    """The schema to have Arrow read, None where it cannot."""
    fields = []
    for field in schema:
        kind = _read_as(field.type)
        if not _is_fast(kind):
            return None
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields) if fields else None


def _read_as(kind: Any) -> Any:
    """Dates as text, for Arrow takes them from numbers; decimals with room for what Arrow makes of a large number."""
    if pa.types.is_date32(kind):
        return pa.string()
    return pa.decimal256(kind.precision, kind.scale) if _may_overflow(kind) else kind


def _may_overflow(kind: Any) -> bool:
    """Whether a number that does not fit may come out as another that does: Arrow takes as many digits as the type has,
    and appends zeros up to its scale without a look at the 38 that there is room for."""
    return bool(pa.types.is_decimal128(kind)) and kind.precision + kind.scale > _MAX_DECIMAL_DIGITS


def _is_fast(kind: Any) -> bool:
    if _may_overflow(kind):
        return False
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_fast(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _is_fast(kind.value_type)
    if pa.types.is_timestamp(kind):
        return kind.tz is not None  # Arrow would take a zone for a time that has none
    return any(is_kind(kind) for is_kind in _FAST)


def _as_wanted(column: Any, kind: Any) -> Any:
    """One array of `kind`. Raises ArrowInvalid: the reader lets decimals pass that have too many digits."""
    array = column.combine_chunks()
    array.validate(full=True)
    return array if array.type == kind else array.cast(kind)


def _may_not_be_sparks(array: Any) -> bool:
    """Whether there is a zero with a sign in a column, infinity, or no number."""
    kind = array.type
    if pa.types.is_struct(kind):
        return any(_may_not_be_sparks(array.field(number)) for number in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _may_not_be_sparks(array.values)
    if not pa.types.is_floating(kind):
        return False
    bits = pa.int32() if kind.bit_width == 32 else pa.int64()  # as a whole number -0.0 is the least there is
    has_minus_zero = pc.index(array.view(bits), -1 << (kind.bit_width - 1)).as_py() >= 0
    return bool(has_minus_zero or not pc.all(pc.is_finite(array), min_count=0).as_py())


def _joined(parts: list[Parsed]) -> Parsed:
    bad: dict[int, str] = {}
    first = 0
    for part in parts:
        bad.update((first + row, reason) for row, reason in part.bad.items())
        first += len(part.columns[0])
    return Parsed([pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True)], bad)
