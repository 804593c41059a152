"""Rows for many queues in one body: which rows are for which queue, then the rows as those of one bulk.

A frame of its own for each queue costs client and broker about as much as a hundred rows. Where a column divides rows
among a thousand topics that is most of it, so they travel together. Layout, big-endian:

    for each queue: rows (4) | queue id (4) | length of topic (1) | topic | then all rows, as in `bulk_rows.py`

The rows of a queue are neighbours, in the order of the queues. Their unique ids count on through all of them.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.buffers.spans import Spans, copy_spans, scatter_rows
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.records.record import HEAD_BYTES, MAGIC_V1, MIN_RECORD_BYTES
from rmqspark.protocol.records.record_builder import EncodedRecords
from rmqspark.protocol.records.record_heads import HEAD
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES, unique_key_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.buffers.spans import Bytes, Positions

MAX_QUEUES: Final = 65_536
"""Queues that one request has rows for at most: each is taken apart by itself."""

_RUN: Final = Struct(">iiB")
_TAIL_BYTES: Final = 2 + UNIQUE_KEY_PAIR_BYTES  # the length of the properties, and the properties


class TopicRun(NamedTuple):
    """So many neighbouring rows are for this queue."""

    topic: str
    queue_id: int
    rows: int


def encode_runs(runs: Sequence[TopicRun]) -> bytes:
    """What stands ahead of the rows."""
    named = [(topic.encode(), queue_id, rows) for topic, queue_id, rows in runs]
    return b"".join(_RUN.pack(rows, queue_id, len(topic)) + topic for topic, queue_id, rows in named)


def decode_topic_rows(body: memoryview, queue_count: int, row_count: int) -> tuple[list[TopicRun], BulkRows]:
    """The runs of `queue_count` queues and their `row_count` rows, in the body's memory. Raises RecordError where it
    does not have this layout, names a queue twice, or more than MAX_QUEUES."""
    _require(0 < queue_count <= MAX_QUEUES, f"{queue_count} queues; 1 to {MAX_QUEUES:,} are allowed")
    _require(queue_count <= len(body) // (_RUN.size + 1), f"{queue_count} queues need more than {len(body)} bytes")
    runs, at = [], 0
    for _ in range(queue_count):
        begin = at + _RUN.size
        _require(begin < len(body), "it ends among its queues")
        rows, queue_id, length = _RUN.unpack_from(body, at)
        at = begin + length
        _require(rows > 0 and queue_id >= 0 < length, f"{rows} rows are for queue {queue_id} of a topic")
        runs.append(TopicRun(_text(body[begin:at]), queue_id, rows))
    _require(sum(run.rows for run in runs) == row_count, f"its queues do not get {row_count} rows")
    _require(len({run[:2] for run in runs}) == queue_count, "a queue is named twice")
    return runs, BulkRows.decode(body[at:], row_count)


def records_bytes(runs: Sequence[TopicRun], rows: BulkRows) -> int:
    """How long the records are, all together."""
    overhead = MIN_RECORD_BYTES + UNIQUE_KEY_PAIR_BYTES
    names = sum(len(run.topic.encode()) * run.rows for run in runs)
    return names + len(rows.crcs) * overhead + int(rows.bodies.offsets[-1] - rows.bodies.offsets[0])


def records_of_topic_rows(runs: Sequence[TopicRun], rows: BulkRows, out: Bytes) -> EncodedRecords:
    """The records of all rows, as `BulkRows.records` makes those of each queue, one after another at the beginning of
    `out`. No topic may have more than 127 bytes, which those that can be sent to have not."""
    counts = [run.rows for run in runs]
    bodies, (topics, named) = rows.bodies.spans(), _topics(runs, counts)
    sizes = bodies.lengths + named.lengths + (HEAD_BYTES + _TAIL_BYTES)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    buffer = out[: int(ends[-1])]
    heads = np.zeros(len(sizes), HEAD)
    heads["size"], heads["magic"], heads["body_crc"] = sizes, MAGIC_V1, rows.crcs
    heads["queue_id"] = np.repeat([run.queue_id for run in runs], counts)
    heads["sys_flag"], heads["born_timestamp"] = rows.sys_flag, rows.born_timestamp_ms
    heads["born_host"], heads["body_length"] = np.void(rows.born_host), bodies.lengths
    scatter_rows(buffer, starts, _as_table(heads))
    copy_spans(rows.bodies.values, bodies, buffer, starts + HEAD_BYTES)
    copy_spans(topics, named, buffer, starts + HEAD_BYTES + bodies.lengths)
    scatter_rows(buffer, ends - _TAIL_BYTES, _tails(rows))
    return EncodedRecords(buffer, sizes.astype(np.int32))


def _topics(runs: Sequence[TopicRun], counts: Sequence[int]) -> tuple[Bytes, Spans]:
    """The topics with their lengths in front, and where that of each row lies."""
    texts = [run.topic.encode() for run in runs]
    fields = [len(text).to_bytes(1, "big") + text for text in texts]
    lengths = np.array([len(field) for field in fields], np.int64)
    starts: Positions = np.cumsum(lengths) - lengths
    return np.frombuffer(b"".join(fields), np.uint8), Spans(np.repeat(starts, counts), np.repeat(lengths, counts))


def _tails(rows: BulkRows) -> Bytes:
    count = len(rows.crcs)
    tails = np.empty((count, _TAIL_BYTES), np.uint8)
    tails[:, :2] = np.frombuffer(UNIQUE_KEY_PAIR_BYTES.to_bytes(2, "big"), np.uint8)
    tails[:, 2:] = unique_key_pairs([rows.ids], [count]).values.reshape(count, -1)
    return tails


def _as_table(heads: np.ndarray[tuple[int], np.dtype[np.void]]) -> Bytes:
    return heads.view(np.uint8).reshape(len(heads), HEAD_BYTES)


def _text(name: memoryview) -> str:
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise RecordError("A bulk for many queues names a topic that is no text.") from error


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RecordError(f"A bulk is not one for many queues: {otherwise}.")
