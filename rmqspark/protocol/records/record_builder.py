"""Writing many records at once, into one buffer, as a bulk send carries them.

Columns come in as values and offsets, and no row is touched by Python. What records consist of is laid piece by piece
(`laying.py`): head, body, topic, properties, which may come in pieces themselves.

The records have IPv4 hosts. Queue offset, physical offset, store timestamp and store host stay zero until the broker
`patch`es them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.buffers.laying import Fixed, lay, piece_of
from rmqspark.protocol.buffers.spans import sliding, spacing
from rmqspark.protocol.records import record as layout
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.record_heads import HEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.columns import Column, Pieces
    from rmqspark.protocol.buffers.laying import Piece
    from rmqspark.protocol.buffers.spans import Bytes, Positions

    Integers = int | NDArray[np.integer[Any]]

_PLACE: Final = np.dtype([("queue_offset", ">i8"), ("physical_offset", ">i8")])
_STORED: Final = np.dtype([("store_timestamp", ">i8"), ("store_host", "V8")])


class Parts(NamedTuple):
    """What is put together where it belongs: of each record these pieces, so many bytes."""

    pieces: Sequence[Piece]
    lengths: Positions

    @classmethod
    def of(cls, columns: Sequence[Column | Pieces]) -> Parts:
        """Bytes that lie together, in columns whose rows follow each other."""
        spread = [column.pieces() for column in columns]
        lengths = [each.rows.lengths for each in spread]
        of_all = lengths[0] if len(lengths) == 1 else np.concatenate(lengths)
        return cls([piece_of(spread, of_all)], of_all)


class EncodedRecords(NamedTuple):
    """Records back to back; `sizes[i]` (int32) bytes are the i-th one's."""

    buffer: Bytes
    sizes: NDArray[np.int32]


def encode_records(
    topic: str,
    queue_ids: Integers,
    bodies: Column | Pieces | list[Column],
    properties: Column | Pieces | Parts,
    *,
    born_timestamp_ms: Integers,
    born_host: bytes | NDArray[np.void],
    flags: Integers = 0,
    sys_flags: Integers = 0,
    prepared_offsets: Integers = 0,
    crcs: NDArray[np.uint32] | None = None,
    out: Bytes | None = None,
) -> EncodedRecords:
    """One record per row. Bodies may be in several columns, whose rows follow each other. `sys_flags` say nothing of
    hosts; `crcs` are made here unless given. `born_host` is one host field of 8 bytes, or an array of them.
    `prepared_offsets` are those of the halves of committed messages.

    The result lies at the beginning of `out` if that is given and large enough: fresh memory is dear. Raises
    InvalidMessage where topic or properties are too long for a record.
    """
    columns: Sequence[Column | Pieces] = bodies if isinstance(bodies, list) else [bodies]
    (body,), body_lengths = Parts.of(columns)
    tail = properties if isinstance(properties, Parts) else Parts.of([properties])
    _check_lengths(tail.lengths)
    # An empty record of this topic: its head is the pattern of all heads, the rest stands between body and properties.
    pattern = bytes(encode_record(topic=topic, body=b""))
    sizes = body_lengths + tail.lengths + len(pattern)
    has_one_tail = all([isinstance(piece, Fixed) for piece in tail.pieces])
    head, differing = _common_head(
        pattern[: layout.HEAD_BYTES],
        {
            "size": int(sizes[0]) if isinstance(body, Fixed) and has_one_tail else sizes,
            "body_crc": _crcs(columns) if crcs is None else crcs,
            "queue_id": queue_ids,
            "flag": flags,
            "sys_flag": sys_flags,
            "born_timestamp": born_timestamp_ms,
            "born_host": np.void(born_host) if isinstance(born_host, bytes) else born_host,
            "prepared_offset": prepared_offsets,
            "body_length": body.width if isinstance(body, Fixed) else body_lengths,
        },
    )
    middle = _middle(pattern[layout.HEAD_BYTES : -2], tail.lengths[:1] if has_one_tail else tail.lengths)
    total = int(sizes.sum())
    buffer = np.empty(total, np.uint8) if out is None or len(out) < total else out[:total]
    lay(buffer, sizes, [head, body, *middle, *tail.pieces], partial(_fill_heads, differing))
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


def _crcs(columns: Sequence[Column | Pieces]) -> NDArray[np.uint32]:
    return np.concatenate([body_crcs(column.values, column.spans()) for column in columns])


def _common_head(pattern: bytes, fields: dict[str, Any]) -> tuple[Fixed, dict[str, Any]]:
    """A head with what is the same in all records, and the fields that differ."""
    head = np.frombuffer(bytearray(pattern), np.uint8)[np.newaxis]
    differing = {name: values for name, values in fields.items() if isinstance(values, np.ndarray)}
    shared = {name: values for name, values in fields.items() if name not in differing}
    _fill_heads(shared, head[0], 1, layout.HEAD_BYTES)
    return Fixed([head]), differing


def _middle(topic: bytes, lengths: Positions) -> list[Fixed]:
    """What stands between body and properties: the topic, and how long these are, in each record or in all."""
    if len(lengths) == 1:
        return [Fixed.constant(topic + int(lengths[0]).to_bytes(2, "big"))]
    return [Fixed.constant(topic), Fixed([lengths.astype(">i2").view(np.uint8).reshape(-1, 2)])]


def _fill_heads(fields: dict[str, Any], buffer: Bytes, rows: int, stride: int) -> None:
    heads = np.ndarray((rows,), HEAD, buffer, 0, (stride,))
    for name, values in fields.items():
        heads[name] = values


def _check_lengths(lengths: Positions) -> None:
    if len(lengths) and int(lengths.max()) > MAX_PROPERTIES_BYTES:
        row = int((lengths > MAX_PROPERTIES_BYTES).argmax())
        raise InvalidMessage(
            f"Row {row}: properties of {int(lengths[row])} bytes; a record has room for {MAX_PROPERTIES_BYTES}.",
            hint="Put large values into the body.",
        )
