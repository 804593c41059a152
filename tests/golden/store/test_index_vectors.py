"""The index file that the specification's test vector gives (spec: storage, TV-6), byte by byte."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rmqspark.store.config import StoreConfig
from rmqspark.store.files import make_directories
from rmqspark.store.index.index import Index
from rmqspark.store.index.index_keys import key_hash
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.golden

VECTOR = json.loads((Path(__file__).parents[1] / "index" / "first_message_of_a_file.json").read_text(encoding="utf-8"))
MEANING = VECTOR["meaning"]
KEYS = [MEANING["unique_key"], *MEANING["keys"]]
FILE = "index/20231114221320005"
PARTS = [{"position": 0, "wire": VECTOR["wire"]}, *MEANING["slots"], *MEANING["entries"]]


@pytest.fixture
def files() -> MemoryFileSystem:
    return MemoryFileSystem()


def loaded(files: MemoryFileSystem) -> Index:
    index = Index(files, StoreConfig(), ManualClock(MEANING["store_timestamp_ms"]))
    index.load(clean=True, log_end_offset=MEANING["physical_offset"] + 1)
    return index


@pytest.mark.parametrize(("key", "expected"), list(zip(KEYS, MEANING["key_hashes"], strict=True)))
def test_key_hash(key: str, expected: int) -> None:
    """A key's hash is the absolute value of Java's."""
    assert key_hash(MEANING["topic"], key) == expected


def test_the_first_message_of_a_new_file_is_written(files: MemoryFileSystem) -> None:
    """Header, slots and entries of one message with two keys, in a file of RocketMQ's sizes named by the time."""
    index = loaded(files)
    keys = [f"{MEANING['topic']}#{key}".encode() for key in KEYS]
    index.append(keys, [MEANING["physical_offset"]] * len(keys), MEANING["store_timestamp_ms"])
    index.close()
    assert files.listdir("index") == [FILE.removeprefix("index/")]
    file = files.open(FILE)
    assert file.size() == MEANING["file_bytes"]
    for part in PARTS:
        assert file.pread(len(part["wire"]) // 2, part["position"]).hex() == part["wire"]
    slots = np.frombuffer(file.pread(20_000_000, 40), ">i4")
    assert np.flatnonzero(slots).tolist() == [slot["slot"] for slot in MEANING["slots"]]
    assert files.disk_usage().total_bytes - files.disk_usage().free_bytes <= 6 * 4096


def test_the_first_message_of_a_file_of_rocketmqs_is_found(files: MemoryFileSystem) -> None:
    """By either of its keys, in its time and in no other."""
    make_directories(files, "index")
    file = files.open(FILE, create=True)
    file.truncate(MEANING["file_bytes"])
    for part in PARTS:
        file.pwrite(bytes.fromhex(part["wire"]), part["position"])
    index, now_ms = loaded(files), MEANING["store_timestamp_ms"]
    for key in KEYS:
        assert index.find(MEANING["topic"], key, 0, now_ms) == [MEANING["physical_offset"]]
        assert index.find(MEANING["topic"], key, now_ms + 1000, now_ms + 2000) == []
    assert index.find(MEANING["topic"], "order-2", 0, now_ms) == []
