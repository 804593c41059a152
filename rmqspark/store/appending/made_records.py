"""Records that are ready to be given their places, and what the store needs to know of them. Making them is pure."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqspark.protocol.bulk.bulk_rows import properties_of_rows, records_of_rows
from rmqspark.protocol.bulk.topic_rows import records_bytes, records_of_topic_rows
from rmqspark.protocol.java_hash import java_hash_spans
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_builder import mark_committed
from rmqspark.store.appending.vouchers import SECTOR_BYTES
from rmqspark.store.draft import Run
from rmqspark.store.index.index_keys import keys_of_records, keys_of_rows, keys_of_topic_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.bulk.row_properties import RowProperties
    from rmqspark.protocol.bulk.topic_rows import TopicRun
    from rmqspark.store.draft import RowRun
    from rmqspark.store.index.index_keys import KeyBatch


class MadeRecords(NamedTuple):
    """Records that fill a writable buffer, at most one run of them for each queue.

    `keys_of_all` gives what the index enters, once they have got their places and a time. `may_look_torn`: some
    may have properties that want a voucher (`vouchers.py`).
    """

    runs: Sequence[Run]
    records: RecordBatch
    tags_codes: NDArray[np.int64]
    keys_of_all: Callable[[Positions, int], KeyBatch]
    may_look_torn: bool = True


class Room:
    """Memory to make records in; kept, since fresh memory is dear."""

    def __init__(self) -> None:
        self._bytes: Bytes = np.empty(0, np.uint8)

    def of(self, size_bytes: int) -> Bytes:
        """So much of it, with any content. What was handed out before is the same memory."""
        if len(self._bytes) < size_bytes:
            self._bytes = np.empty(size_bytes, np.uint8)
        return self._bytes[:size_bytes]


def made_of_records(runs: Sequence[Run], records: RecordBatch, *, has_tags: bool = True) -> MadeRecords:
    """Records that are finished already."""
    topic, tags_codes = runs[0].topic, records.tags_codes() if has_tags else np.zeros(len(records), np.int64)
    return MadeRecords(
        runs, records, tags_codes, lambda physical_offsets, _: keys_of_records(topic, records, physical_offsets)
    )


def made_of_rows(topic: str, runs: Sequence[RowRun], room: Room) -> MadeRecords:
    """The records of rows. Runs for one queue follow each other, and all are messages of committed half batches, or
    none (see `made_of_committed`)."""
    bulks = [run.rows for run in runs]
    out = room.of(sum(bulk.records_bytes(topic) for bulk in bulks))
    halves = [run.half_offset for run in runs if run.half_offset is not None]
    records = RecordBatch.from_sizes(*records_of_rows(topic, [run.queue_id for run in runs], bulks, out, halves))
    properties = properties_of_rows(bulks)
    of_queues = groupby(runs, attrgetter("queue_id"))
    lengths = [Run(topic, queue_id, sum(len(run.rows.crcs) for run in group)) for queue_id, group in of_queues]
    tags_codes = np.zeros(len(records), np.int64) if properties is None else _tags_codes(properties)
    # Names have no zeros, and a separator comes last.
    may_look_torn = properties is not None and properties.longest_value_bytes() >= SECTOR_BYTES
    return MadeRecords(lengths, records, tags_codes, partial(keys_of_rows, topic, bulks, properties), may_look_torn)


def _tags_codes(properties: RowProperties) -> NDArray[np.int64]:
    return java_hash_spans(properties.tags.values, *properties.tags.rows).astype(np.int64)


def made_of_topic_rows(runs: Sequence[TopicRun], rows: BulkRows, room: Room) -> MadeRecords:
    """The records of rows for many queues."""
    out = room.of(records_bytes(runs, rows))
    records = RecordBatch.from_sizes(*records_of_topic_rows(runs, rows, out))
    keys_of_all = partial(keys_of_topic_rows, runs, rows.ids)
    tags_codes = np.zeros(len(records), np.int64)
    return MadeRecords([Run(*run) for run in runs], records, tags_codes, keys_of_all, may_look_torn=False)


def made_of_committed(run: Run, records: RecordBatch, half_offset: int, *, has_tags: bool = True) -> MadeRecords:
    """Records of a half batch whose transaction is committed, in a writable buffer.

    They were checked when the half batch was stored, and are again only as far as what follows looks into them. Each
    carries from now on the half batch's physical offset, so that a recovery can tell which are there. Raises
    RecordError for records that are none (any more).
    """
    records.check()
    mark_committed(records.buffer, records.positions, half_offset)
    return made_of_records([run], records, has_tags=has_tags)
