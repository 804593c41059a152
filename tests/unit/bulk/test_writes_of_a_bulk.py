"""A bulk costs the disk a few calls, however many messages it holds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.disk_faults import CHANGES
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 24, max_hash_slot_num=1 << 10, max_index_num=1 << 14)


@pytest.fixture
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def store(files: MemoryFileSystem) -> Iterator[MessageStore]:
    host = pack_host("10.0.0.7", 10911)
    store = MessageStore.open("s", CONFIG, files=files, clock=ManualClock(), entropy=SystemEntropy(1), store_host=host)
    store.append_bulk("t", 0, *bulk(1))  # makes the files
    store.checkpoint()
    yield store
    store.close()


def bulk(count: int) -> tuple[bytearray, np.ndarray]:
    records = [
        encode_record(topic="t", queue_id=0, body=b"x" * (100 + number % 7), properties=b"UNIQ_KEY\x01%032X" % number)
        for number in range(count)
    ]
    return bytearray().join(records), np.array([len(record) for record in records], np.int32)


@pytest.mark.parametrize(("count", "places"), [(2, {"commitlog"}), (5_000, {"commitlog", "consumequeue", "index"})])
def test_a_bulk_is_written_once(files: MemoryFileSystem, store: MessageStore, count: int, places: set[str]) -> None:
    """One write to the log, one to the queue, one to the index; few entries wait in memory for more."""
    before = len(files.log)
    store.append_bulk("t", 0, *bulk(count))
    assert store.queues.max_offset("t", 0) == 1 + count
    changes = [(call.name, call.path.split("/")[0]) for call in list(files.log)[before:] if call.name in CHANGES]
    assert Counter(changes) == {("pwrite", place): 1 for place in places}


@pytest.mark.parametrize("count", [2, 5_000])
def test_a_range_is_read_in_a_few_pieces(files: MemoryFileSystem, store: MessageStore, count: int) -> None:
    """Its queue entries in one, its records in one, where they lie together."""
    store.append_bulk("t", 0, *bulk(count))
    store.flush()
    before = len(files.log)
    found = store.read_bulk("t", 0, 0, 1 + count, max_count=1 << 30, max_bytes=1 << 30)
    assert len(found.sizes) == 1 + count
    assert len([call for call in list(files.log)[before:] if call.name == "pread"]) <= 3
