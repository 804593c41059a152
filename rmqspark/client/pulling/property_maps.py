"""The properties of thousands of records as dicts.

Messages of one topic mostly have the same properties in the same order, and most values are the same, too: cluster,
region, WAIT. NumPy sees that without looking at each. Then every dict is a copy of one, with only the values that
differ put in: half the time of decoding each record, and the equal strings are one object. Records that are not of one
shape go through `decode_properties` one by one, with the same outcome.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rmqspark.protocol.buffers.spans import Spans, equal_to, sliding
from rmqspark.protocol.records.properties import PAIR_END, decode_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.records.record_batch import RecordBatch

T = TypeVar("T")
_PAIR_END: Final = bytes((PAIR_END,))


class DecodedProperties(NamedTuple):
    """The properties of each record. Where all records have the same names, `shared` are those of the first, and
    `differing` has the values of the names whose values are not all the same."""

    maps: list[dict[str, str]]
    shared: dict[str, str] | None = None
    differing: dict[str, list[str]] = {}  # noqa: RUF012 never changed

    def values(self, name: str, absent: T) -> Iterable[str | T]:
        """The value of one property in each record, `absent` where it has none."""
        if self.shared is None:
            return [properties.get(name, absent) for properties in self.maps]
        return self.differing.get(name) or repeat(self.shared.get(name, absent), len(self.maps))


def decoded_properties(batch: RecordBatch, raw: bytes | memoryview) -> DecodedProperties:
    """The properties of each record of a checked batch, at least one; `raw` is the batch's buffer."""
    columns = batch.property_columns() or _columns_of_pairs(batch)
    if columns is None:
        return DecodedProperties([decode_properties(encoded) for encoded in slices(raw, batch.properties)])
    shared: dict[str, str] = {}
    differing: dict[str, list[str]] = {}
    for encoded_name, column in columns.items():
        name = encoded_name.decode("utf-8", "replace")
        shared[name] = span_bytes(batch.buffer, column, 0).decode("utf-8", "replace")
        differing.pop(name, None)  # names that are no UTF-8 may read alike
        if not alike(batch.buffer, column):
            differing[name] = _values(batch.buffer, raw, column)
    return DecodedProperties(_maps(shared, differing, len(batch)), shared, differing)


def _columns_of_pairs(batch: RecordBatch) -> dict[bytes, Spans] | None:
    """The values of each name, where all records have the same names in the same order; else None."""
    counts, names, values = batch.property_pairs()
    width = int(counts[0])
    name_columns = _columns(names, width)
    if (counts != width).any() or not all(alike(batch.buffer, column) for column in name_columns):
        return None
    first_names = [span_bytes(batch.buffer, column, 0) for column in name_columns]
    return dict(zip(first_names, _columns(values, width), strict=True))


def _maps(shared: dict[str, str], differing: dict[str, list[str]], count: int) -> list[dict[str, str]]:
    if shared.keys() == differing.keys() and len(shared) == 1:
        ((name, values),) = differing.items()
        return [{name: value} for value in values]
    maps = list(map(dict.copy, repeat(shared, count)))
    for name, values in differing.items():
        for properties, value in zip(maps, values, strict=True):
            properties[name] = value
    return maps


def _values(buffer: Bytes, raw: bytes | memoryview, column: Spans) -> list[str]:
    """The values of a property in all records. Those of one length are taken out at once, with the separator that
    stands behind each and in none."""
    width = int(column.lengths[0])
    if (column.lengths == width).all() and int(column.starts.max()) + width < len(buffer):
        rows = sliding(buffer, f"V{width + 1}")[column.starts].tobytes()
        if rows.isascii() and rows[width :: width + 1] == _PAIR_END * len(column.starts):
            return rows.decode("ascii").split(_PAIR_END.decode())[:-1]
    return list(texts(raw, column))


def alike(buffer: Bytes, spans: Spans) -> bool:
    """Whether all spans, at least one, hold the same bytes."""
    first, last = span_bytes(buffer, spans, 0), span_bytes(buffer, spans, -1)
    if first != last or (spans.lengths != len(first)).any():
        return False
    return bool(equal_to(buffer, spans.starts, first).all())


def span_bytes(buffer: Bytes, spans: Spans, row: int) -> bytes:
    """What one span holds."""
    start = int(spans.starts[row])
    return buffer[start : start + int(spans.lengths[row])].tobytes()


def slices(raw: bytes | memoryview, spans: Spans) -> Iterator[bytes | memoryview]:
    return (raw[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))


def texts(raw: bytes | memoryview, spans: Spans) -> Iterator[str]:
    """What is no UTF-8 becomes U+FFFD, as in RocketMQ."""
    return (str(piece, "utf-8", "replace") for piece in slices(raw, spans))


def _columns(spans: Spans, width: int) -> list[Spans]:
    """The first pair of every record, the second of every record, …, if each has `width`."""
    return [Spans(spans.starts[column::width], spans.lengths[column::width]) for column in range(width)]
