"""The index file that the specification's test vector gives (spec: storage, TV-6), byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from rmqspark.store.config import StoreConfig
from rmqspark.store.index import Index
from rmqspark.store.index_keys import key_hash
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.golden

UNIQUE, KEY = "C0A8010A1F9018B4AAC25E0BE0F50007", "order-1"
STORED_MS = 1_700_000_000_005


@pytest.mark.parametrize(("key", "expected"), [(UNIQUE, 102_470_193), (KEY, 1_829_193_424)])
def test_key_hash(key: str, expected: int) -> None:
    """A key's hash is the absolute value of Java's."""
    assert key_hash("TopicTest", key) == expected


def test_the_first_message_of_a_new_file() -> None:
    """Header, slots and entries of one message with two keys, in a file of RocketMQ's sizes named by the time."""
    files = MemoryFileSystem()
    index = Index(files, StoreConfig(), ManualClock(STORED_MS))
    assert index.load(clean=True, log_end_offset=0) == 0
    index.append([f"TopicTest#{key}".encode() for key in (UNIQUE, KEY)], [0x1234, 0x1234], STORED_MS)
    index.close()
    assert files.listdir("index") == ["20231114221320005"]
    file = files.open("index/20231114221320005")
    assert file.size() == 420_000_040
    header = "0000018bcfe56805 0000018bcfe56805 0000000000001234 0000000000001234 00000002 00000003"
    assert file.pread(40, 0) == bytes.fromhex(header)
    assert file.pread(20, 20_000_060) == bytes.fromhex("061b9231 0000000000001234 00000000 00000000")
    assert file.pread(20, 20_000_080) == bytes.fromhex("6d0746d0 0000000000001234 00000000 00000000")
    slots = np.frombuffer(file.pread(20_000_000, 40), ">i4")
    assert np.flatnonzero(slots).tolist() == [2_470_193, 4_193_424]
    assert file.pread(4, 9_880_812) + file.pread(4, 16_773_736) == bytes.fromhex("00000001 00000002")
    assert files.disk_usage().total_bytes - files.disk_usage().free_bytes <= 6 * 4096
