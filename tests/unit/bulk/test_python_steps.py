"""Bulk paths work on whole buffers: how many steps Python takes does not depend on how many messages there are.

Steps are counted exactly, as bytecodes of all Python code that runs, NumPy's own included. Blocks (of 1,024 bodies, of
4,096 keys) cost some each; a loop over messages costs ten for every message and more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.model import MessageQueue
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_ranges import TopicRange, decode_found, encode_found
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.rows.rows import Rows
from rmqspark.source.values.arrow import ArrowColumns
from rmqspark.source.values.schema import default_schema
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.manual_clock import ManualClock
from tests.bytecodes import bytecodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FEW, MANY = 1024, 5120
STEPS_OF_BLOCKS = 2  # a message, for what is done block by block
STEPS_OF_A_SLICE = 15  # a message
QUEUE = MessageQueue("t", "broker-a", 0)
HOST = pack_host("10.0.0.7", 10911)
CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 24, max_hash_slot_num=1 << 12, max_index_num=1 << 16)
EVERYTHING: dict[str, int] = {"max_count": 1 << 40, "max_bytes": 1 << 40}

alike = pytest.mark.parametrize("is_alike", [True, False], ids=["alike", "unequal"])


def steps_a_message(work_of: Callable[[int], Callable[[], object]]) -> float:
    """What one message more costs, in steps, once all that the work needs is imported."""
    work_of(2)()
    few, many = work_of(FEW), work_of(MANY)
    return (bytecodes(many) - bytecodes(few)) / (MANY - FEW)


def bodies_of(count: int, is_alike: bool) -> list[bytes]:
    return [b"x" * (100 if is_alike else 100 + number % 7) for number in range(count)]


def records_of(count: int, is_alike: bool) -> tuple[bytearray, np.ndarray]:
    """Records with tags, keys, an id and a property, and their sizes."""
    records = [
        encode_record(
            topic="t",
            queue_id=0,
            body=body,
            properties=encode_properties(
                {
                    "TAGS": "paid",
                    "KEYS": f"{number:06d}" if is_alike else f"{number}",
                    "UNIQ_KEY": f"{number:032X}",
                    "region": "eu" if is_alike else "e" * (1 + number % 5),
                }
            ),
        )
        for number, body in enumerate(bodies_of(count, is_alike))
    ]
    return bytearray().join(records), np.array([len(record) for record in records], np.int32)


def frame_of(count: int, is_alike: bool, with_properties: bool) -> Any:
    columns = {"body": pa.array(bodies_of(count, is_alike))}
    if with_properties:
        pairs = [[("region", "eu" if is_alike else "e" * (1 + number % 5))] for number in range(count)]
        columns |= {
            "tags": pa.array(["paid"] * count),
            "keys": pa.array([f"{number}" for number in range(count)]),
            "properties": pa.array(pairs, pa.map_(pa.string(), pa.string())),
        }
    return pa.record_batch(columns)


def sent(frame: Any) -> Any:
    """What the sink sends for a frame."""
    rows = Rows(frame, QUEUE.topic, IdRange("7F0000011F9018B4AAC2", 0), "none")
    return rows.bulk(QUEUE, 0, frame.num_rows, born_timestamp_ms=1, born_host=bytes(8), out=None)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], MessageStore]]:
    """Makes stores on the disk, for a memory file system takes steps for every page."""
    stores: list[MessageStore] = []

    def another() -> MessageStore:
        files, clock = PosixFileSystem(tmp_path / f"{len(stores)}"), ManualClock()
        store = MessageStore.open("s", CONFIG, files=files, clock=clock, entropy=SystemEntropy(1), store_host=HOST)
        stores.append(store)
        return store

    yield another
    for store in stores:
        store.close()


def test_a_loop_over_messages_is_noticed() -> None:
    """The measure has teeth: a step for each message shows as such."""
    assert steps_a_message(lambda count: lambda: [number for number in range(count)]) > 2


@alike
@pytest.mark.parametrize("columns", [["body", "queueId", "queueOffset"], None], ids=["some columns", "all columns"])
def test_records_become_columns_for_spark(is_alike: bool, columns: list[str] | None) -> None:
    """A read in Spark: records of the log to Arrow."""
    schema = (
        default_schema() if columns is None else type(default_schema())([default_schema()[name] for name in columns])
    )

    def work_of(count: int) -> Callable[[], object]:
        raw, sizes = records_of(count, is_alike)
        return lambda: list(ArrowColumns(schema, QUEUE).batches(RecordBatch.from_sizes(raw, sizes)))

    assert steps_a_message(work_of) < STEPS_OF_BLOCKS


@alike
@pytest.mark.parametrize("with_properties", [False, True], ids=["bodies", "all columns"])
def test_rows_of_spark_become_what_is_sent(is_alike: bool, with_properties: bool) -> None:
    """A write in Spark: Arrow to bodies, or to records where there is more."""

    def work_of(count: int) -> Callable[[], object]:
        frame = frame_of(count, is_alike, with_properties)
        return lambda: sent(frame)

    assert steps_a_message(work_of) < STEPS_OF_BLOCKS


@alike
@pytest.mark.parametrize("sent_as", ["records", "bodies", "bodies and keys"])
def test_what_is_sent_is_stored(is_alike: bool, sent_as: str, opened: Callable[[], MessageStore]) -> None:
    """The broker appends it, with its queue entries and its keys in the index, and syncs."""

    def work_of(count: int) -> Callable[[], object]:
        store = opened()
        raw, sizes = records_of(count, is_alike)
        names = ["body", "tags", "keys"] if sent_as == "bodies and keys" else ["body"]
        rows = sent(frame_of(count, is_alike, with_properties=True).select(names))
        assert isinstance(rows, BulkRows)

        def work() -> None:
            if sent_as != "records":
                store.writer.append_rows("t", 0, rows)
            else:
                store.append_bulk("t", 0, raw, sizes)
            store.flush()

        return work

    assert steps_a_message(work_of) < STEPS_OF_BLOCKS


@alike
def test_a_range_of_a_queue_is_read(is_alike: bool, opened: Callable[[], MessageStore]) -> None:
    """The broker gathers it out of the log."""

    def work_of(count: int) -> Callable[[], object]:
        store = opened()
        store.append_bulk("t", 0, *records_of(count, is_alike))
        assert store.queues.max_offset("t", 0) == count
        return lambda: store.read_bulk("t", 0, 0, count, **EVERYTHING)

    assert steps_a_message(work_of) < STEPS_OF_BLOCKS


@alike
def test_ranges_are_read_together(is_alike: bool, opened: Callable[[], MessageStore]) -> None:
    """The broker gathers those of several in one go, and a client takes them apart in one."""
    count_of_ranges = 8

    def work_of(count: int) -> Callable[[], object]:
        store = opened()
        raw, sizes = records_of(-(-count // count_of_ranges), is_alike)
        for _ in range(count_of_ranges):
            store.append_bulk("t", 0, bytearray(raw), sizes)
        end = store.queues.max_offset("t", 0)
        wanted = [TopicRange("t", 0, start, start + len(sizes)) for start in range(0, end, len(sizes))]

        def work() -> None:
            found = store.read_ranges(wanted, **EVERYTHING)
            answer = memoryview(b"".join(encode_found(found)))
            assert len(decode_found(answer, count_of_ranges, end).sizes) == end

        return work

    assert steps_a_message(work_of) < STEPS_OF_BLOCKS


@pytest.mark.parametrize(("is_alike", "most"), [(True, STEPS_OF_BLOCKS), (False, STEPS_OF_A_SLICE)])
def test_checksums_of_bodies_are_looked_at(is_alike: bool, most: float) -> None:
    """The one exception: bodies of unequal lengths are cut out one by one, which nothing in C does faster."""

    def work_of(count: int) -> Callable[[], object]:
        raw, sizes = records_of(count, is_alike)
        return lambda: RecordBatch.from_sizes(raw, sizes).check(check_crc=True)

    assert steps_a_message(work_of) < most
