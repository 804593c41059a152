"""The properties of thousands of records as dicts.

Messages of one topic mostly have the same properties in the same order, and most values are the same, too: cluster,
region, WAIT. NumPy sees that without looking at each. Then every dict is a copy of one, with only the values that
differ put in: half the time of decoding each record, and the equal strings are one object. Records that are not of one
shape go through `decode_properties` one by one, with the same outcome.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

from rmqspark.protocol.properties import decode_properties
from rmqspark.protocol.spans import Spans, equal_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.record_batch import RecordBatch
    from rmqspark.protocol.spans import Bytes


def property_maps(batch: RecordBatch, raw: bytes) -> list[dict[str, str]]:
    """The properties of each record of a checked batch, at least one; `raw` is the batch's buffer."""
    counts, names, values = batch.property_pairs()
    width = int(counts[0])
    name_columns, value_columns = _columns(names, width), _columns(values, width)
    if (counts != width).any() or not all(alike(batch.buffer, column) for column in name_columns):
        return [decode_properties(encoded) for encoded in slices(raw, batch.properties)]
    first: dict[str, str] = {}
    differing: list[tuple[str, Spans]] = []
    for name_column, column in zip(name_columns, value_columns, strict=True):
        name = next(texts(raw, name_column))
        first[name] = next(texts(raw, column))
        if not alike(batch.buffer, column):
            differing.append((name, column))
    maps = list(map(dict.copy, repeat(first, len(batch))))
    for name, column in differing:
        for properties, value in zip(maps, texts(raw, column), strict=True):
            properties[name] = value
    return maps


def alike(buffer: Bytes, spans: Spans) -> bool:
    """Whether all spans, at least one, hold the same bytes."""
    start, length = int(spans.starts[0]), int(spans.lengths[0])
    if (spans.lengths != length).any():
        return False
    return bool(equal_to(buffer, spans.starts, buffer[start : start + length].tobytes()).all())


def slices(raw: bytes, spans: Spans) -> Iterator[bytes]:
    return (raw[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True))


def texts(raw: bytes, spans: Spans) -> Iterator[str]:
    """What is no UTF-8 becomes U+FFFD, as in RocketMQ."""
    return (piece.decode("utf-8", "replace") for piece in slices(raw, spans))


def _columns(spans: Spans, width: int) -> list[Spans]:
    """The first pair of every record, the second of every record, …, if each has `width`."""
    return [Spans(spans.starts[column::width], spans.lengths[column::width]) for column in range(width)]
