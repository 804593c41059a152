"""What a bulk of records must be before a byte of it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.bulk.topic_rows import records_bytes
from rmqspark.protocol.headers.bulk import MAX_KEYS
from rmqspark.protocol.names import MAX_TOPIC_LENGTH, check_topic
from rmqspark.protocol.records.record import SysFlag
from rmqspark.store.index.index_keys import has_more_keys, rows_have_more_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.bulk.topic_rows import TopicRun
    from rmqspark.protocol.records.record_batch import RecordBatch

MAX_RECORDS_BYTES: Final = 32 << 20
"""Of the records that rows are made into: twice what fits into a frame."""

_ALLOWED_SYS_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK


def check_bulk(records: RecordBatch, topic: str, queue_id: int, max_body_bytes: int) -> None:
    """Raises RecordError where the records are none, InvalidMessage where they are not ones that a client may store
    in this queue: V1 with IPv4 hosts, nothing of transactions or delays, one topic, one queue, no body too large, no
    more keys than can be entered in a moment."""
    check_topic(topic)
    _require(len(records) > 0, "It has no messages.")
    _require(_fill_their_buffer(records), "Its records do not fill their buffer.")
    records.check()
    _require((records.queue_ids == queue_id).all(), f"A record is not of queue {queue_id}.")
    _require(not (records.sys_flags & ~_ALLOWED_SYS_FLAGS).any(), "A record has system flags that clients may not set.")
    bodies, topics = records.bodies, records.topics
    _require((topics.starts == bodies.ends + 1).all(), "A record is not of version 1.")
    _require(not records.prepared_transaction_offsets.any(), "A record says that it is the delivery of another one.")
    _require(int(bodies.lengths.max()) <= max_body_bytes, f"A body has more than {max_body_bytes} bytes.")
    _require(records.is_all_of_topic(topic.encode()), f"A record is not of topic {topic}.")
    check_keys(records)


def check_keys(records: RecordBatch) -> None:
    """Raises InvalidMessage where there are more keys than can be entered in a moment."""
    _require(not has_more_keys(records, MAX_KEYS), f"It has more than {MAX_KEYS} keys.")


def check_rows(rows: BulkRows, topic: str, max_body_bytes: int) -> None:
    """Raises InvalidMessage where the rows are none whose records a client may store in a queue of this topic."""
    check_topic(topic)
    _check_rows(rows, rows.records_bytes(topic), max_body_bytes)


def check_topic_rows(runs: Sequence[TopicRun], rows: BulkRows, max_body_bytes: int) -> None:
    """The same of rows for many queues."""
    for run in runs:
        check_topic(run.topic)
        _require(len(run.topic) <= MAX_TOPIC_LENGTH, f"Topic {run.topic} has more than {MAX_TOPIC_LENGTH} characters.")
    _check_rows(rows, records_bytes(runs, rows), max_body_bytes)


def _check_rows(rows: BulkRows, size_bytes: int, max_body_bytes: int) -> None:
    _require(not rows.sys_flag & ~_ALLOWED_SYS_FLAGS, "Its rows have system flags that clients may not set.")
    _require(int(rows.bodies.spans().lengths.max()) <= max_body_bytes, f"A body has more than {max_body_bytes} bytes.")
    _require(not rows_have_more_keys(rows, MAX_KEYS), f"It has more than {MAX_KEYS} keys.")
    _require(size_bytes <= MAX_RECORDS_BYTES, f"Its records have more than {MAX_RECORDS_BYTES} bytes.")


def _fill_their_buffer(records: RecordBatch) -> bool:
    ends = records.positions + records.sizes
    is_whole = records.positions[0] == 0 and ends[-1] == len(records.buffer)
    return bool(is_whole and (records.positions[1:] == ends[:-1]).all())


def _require(holds: np.bool_ | bool, otherwise: str) -> None:
    if not holds:
        raise InvalidMessage(f"Nothing of the bulk was stored. {otherwise}")
