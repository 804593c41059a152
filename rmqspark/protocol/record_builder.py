"""Writing many records at once, into one buffer, as a bulk send carries them.

Columns come in as values and offsets, and no row is touched by Python. Where all bodies are equally long and all
properties too, the records form a rectangle that is filled block by block. Otherwise heads, bodies and properties are
scattered to their places (`spans.py`).

The records have IPv4 hosts. Queue offset, physical offset, store timestamp and store host stay zero until the broker
`patch`es them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqspark.errors import InvalidMessage
from rmqspark.protocol import record as layout
from rmqspark.protocol.body_crcs import body_crcs
from rmqspark.protocol.properties import MAX_PROPERTIES_BYTES
from rmqspark.protocol.record import SysFlag, encode_record
from rmqspark.protocol.record_heads import HEAD
from rmqspark.protocol.spans import copy_spans, gather_rows, scatter_rows, sliding, spacing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.columns import Column, Pieces
    from rmqspark.protocol.spans import Bytes, Positions, Spans

    Integers = int | NDArray[np.integer[Any]]

_PLACE: Final = np.dtype([("queue_offset", ">i8"), ("physical_offset", ">i8")])
_STORED: Final = np.dtype([("store_timestamp", ">i8"), ("store_host", "V8")])


class EncodedRecords(NamedTuple):
    """Records back to back; `sizes[i]` (int32) bytes are the i-th one's."""

    buffer: Bytes
    sizes: NDArray[np.int32]


def encode_records(
    topic: str,
    queue_ids: Integers,
    bodies: Column | Pieces,
    properties: Column | Pieces,
    *,
    born_timestamp_ms: Integers,
    born_host: bytes | NDArray[np.void],
    flags: Integers = 0,
    sys_flags: Integers = 0,
    crcs: NDArray[np.uint32] | None = None,
    out: Bytes | None = None,
) -> EncodedRecords:
    """One record per row. `sys_flags` may hold compression bits only; `crcs` are made here unless given. `born_host` is
    one host field of 8 bytes, or an array of them.

    The result lies at the beginning of `out` if that is given and large enough: fresh memory is dear. Raises
    InvalidMessage where topic or properties are too long for a record.
    """
    body, tail = _Source(bodies.values, bodies.spans()), _Source(properties.values, properties.spans())
    body_lengths, tail_lengths = body.spans.lengths, tail.spans.lengths
    _check_lengths(tail_lengths)
    # An empty record of this topic: its head is the pattern of all heads, the rest stands between body and properties.
    pattern = bytes(encode_record(topic=topic, body=b""))
    sizes = body_lengths + tail_lengths + len(pattern)
    fields = {
        "size": sizes,
        "body_crc": body_crcs(*body) if crcs is None else crcs,
        "queue_id": queue_ids,
        "flag": flags,
        "sys_flag": sys_flags,
        "born_timestamp": born_timestamp_ms,
        "born_host": np.void(born_host) if isinstance(born_host, bytes) else born_host,
        "body_length": body_lengths,
    }
    total = int(sizes.sum())
    buffer = np.empty(total, np.uint8) if out is None or len(out) < total else out[:total]
    lay = _lay_rectangle if _all_equal(body_lengths) and _all_equal(tail_lengths) else _scatter
    lay(buffer, pattern, fields, body, tail)
    return EncodedRecords(buffer, sizes.astype(np.int32))


def patch(
    buffer: Bytes,
    positions: Positions,
    *,
    first_queue_offset: Integers,
    first_physical_offset: int,
    store_timestamp_ms: int,
    store_host: bytes,
) -> None:
    """Writes into each record what it learns when it is appended.

    Byte 0 of the buffer goes to `first_physical_offset` of the log. Queue offsets count up from `first_queue_offset`,
    unless that is an array with one for each record. All hosts must be IPv4: the caller has seen the sys flags.
    """
    count = len(positions)
    queue_offsets = first_queue_offset
    if isinstance(first_queue_offset, int):
        queue_offsets = np.arange(first_queue_offset, first_queue_offset + count)
    if size := spacing(positions):
        heads = np.ndarray((count,), HEAD, buffer, int(positions[0]), (size,))
        heads["queue_offset"] = queue_offsets
        heads["physical_offset"] = positions + first_physical_offset
        heads["store_timestamp"] = store_timestamp_ms
        heads["store_host"] = store_host
        return
    places = np.empty(count, _PLACE)
    places["queue_offset"] = queue_offsets
    places["physical_offset"] = positions + first_physical_offset
    stored = np.array((store_timestamp_ms, store_host), _STORED)
    sliding(buffer, "V16")[positions + layout.QUEUE_OFFSET_AT] = places.view("V16")
    sliding(buffer, "V16")[positions + layout.STORE_TIMESTAMP_AT] = stored.view("V16")


def mark_committed(buffer: Bytes, positions: Positions, half_offset: Integers) -> None:
    """Writes into each record that it is a committed message of a transaction, whose half lies at `half_offset`, one
    for all records or one for each.

    All hosts must be IPv4, and no flag of a transaction set yet.
    """
    if size := spacing(positions):
        heads = np.ndarray((len(positions),), HEAD, buffer, int(positions[0]), (size,))
        heads["sys_flag"] |= SysFlag.COMMITTED
        heads["prepared_offset"] = half_offset
        return
    sliding(buffer, "u1")[positions + (layout.SYS_FLAG_AT + 3)] |= SysFlag.COMMITTED
    sliding(buffer, ">i8")[positions + layout.PREPARED_OFFSET_AT] = half_offset


def _lay_rectangle(buffer: Bytes, pattern: bytes, fields: dict[str, Any], bodies: _Source, properties: _Source) -> None:
    """Records of one size: a table whose blocks of columns are laid one after the other."""
    body, tail = bodies.rectangle(), properties.rectangle()
    head, differing = _common_head(pattern, fields | {"size": len(buffer) // len(body), "body_length": body.shape[1]})
    topic_and_length = pattern[layout.HEAD_BYTES : -2] + tail.shape[1].to_bytes(2, "big")
    middle = np.frombuffer(topic_and_length, np.uint8)[np.newaxis]
    shape, stride, at = (len(body),), len(buffer) // len(body), 0
    for block in (head, body, middle, tail):
        if width := block.shape[1]:
            kind = f"V{width}"  # rows as single items: twice as fast as rows of bytes
            np.ndarray(shape, kind, buffer, at, (stride,))[:] = block.view(kind)[:, 0]
            at += width
    _fill_heads(np.ndarray(shape, HEAD, buffer, 0, (stride,)), differing)


def _common_head(pattern: bytes, fields: dict[str, Any]) -> tuple[Bytes, dict[str, Any]]:
    """A head with what is the same in all records, as a table of one row, and the fields that differ."""
    head = np.frombuffer(bytearray(pattern[: layout.HEAD_BYTES]), np.uint8)[np.newaxis]
    differing = {name: values for name, values in fields.items() if isinstance(values, np.ndarray)}
    _fill_heads(head.view(HEAD)[:, 0], {name: values for name, values in fields.items() if name not in differing})
    return head, differing


def _scatter(buffer: Bytes, pattern: bytes, fields: dict[str, Any], bodies: _Source, properties: _Source) -> None:
    """Records of any sizes: four pieces each, all records' heads first, then all bodies, and so on."""
    rows, head = len(bodies.spans.starts), layout.HEAD_BYTES
    sizes = fields["size"]
    starts = np.cumsum(sizes) - sizes
    heads = np.tile(np.frombuffer(pattern[:head], np.uint8), (rows, 1))
    _fill_heads(heads.view(HEAD)[:, 0], fields)
    scatter_rows(buffer, starts, heads)
    starts += head
    copy_spans(bodies.values, bodies.spans, buffer, starts)
    starts += bodies.spans.lengths
    middles = np.tile(np.frombuffer(pattern[head:], np.uint8), (rows, 1))
    middles[:, -2:].view(">i2")[:, 0] = properties.spans.lengths
    scatter_rows(buffer, starts, middles)
    starts += len(pattern) - head
    copy_spans(properties.values, properties.spans, buffer, starts)


class _Source(NamedTuple):
    """Rows to be copied, and where they come from."""

    values: Bytes
    spans: Spans

    def rectangle(self) -> Bytes:
        """Rows of one length as a table: a view of the values where they are evenly spaced."""
        starts, lengths = self.spans
        width, step = int(lengths[0]), spacing(starts)
        if step or len(starts) == 1:
            return np.ndarray((len(lengths), width), np.uint8, self.values, int(starts[0]), (step, 1))
        return gather_rows(self.values, starts, width)


def _fill_heads(heads: NDArray[Any], fields: dict[str, Any]) -> None:
    for name, values in fields.items():
        heads[name] = values


def _all_equal(lengths: Positions) -> bool:
    return len(lengths) > 0 and bool((lengths == lengths[0]).all())


def _check_lengths(lengths: Positions) -> None:
    if len(lengths) and int(lengths.max()) > MAX_PROPERTIES_BYTES:
        row = int((lengths > MAX_PROPERTIES_BYTES).argmax())
        raise InvalidMessage(
            f"Row {row}: properties of {int(lengths[row])} bytes; a record has room for {MAX_PROPERTIES_BYTES}.",
            hint="Put large values into the body.",
        )
