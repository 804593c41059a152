"""Reading a queue of the broker's own whose log is not what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.properties import encode_properties
from rmqspark.protocol.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.record import Record
    from rmqspark.store.files import File

TOPIC = "queue"
CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 20, message_index_enable=False)
RECORDS = [
    bytes(encode_record(topic=TOPIC, body=b"%d" % n, properties=encode_properties({"a": "b"}))) for n in range(3)
]
RECORD_BYTES = len(RECORDS[0])
DAMAGED = 1
"""The queue offset of the record that is damaged, and the one in the log."""


class Queue:
    """A queue of three records, and the file of the log that they are in."""

    def __init__(self) -> None:
        files = MemoryFileSystem()
        self.store = MessageStore.open("store", CONFIG, files=files, clock=ManualClock(), entropy=SystemEntropy())
        self.store.append([Draft(TOPIC, 0, bytearray(record)) for record in RECORDS])
        self.store.flush()
        self.log: File = files.open(f"store/commitlog/{0:020d}")

    def read(self) -> list[Record]:
        return list(QueueReader(self.store, TOPIC, 0).all())


@pytest.fixture
def queue() -> Iterator[Queue]:
    made = Queue()
    yield made
    made.log.close()
    made.store.close()


@pytest.mark.faults
def test_one_flipped_bit_costs_one_record_at_most(queue: Queue) -> None:
    """Whichever it is of the record's, lengths and hosts included: it raises nothing, and the others come."""
    sound = queue.read()
    assert [record.body for record in sound] == [b"0", b"1", b"2"]
    for bit in range(8 * RECORD_BYTES):
        at = DAMAGED * RECORD_BYTES + bit // 8
        (byte,) = queue.log.pread(1, at)
        queue.log.pwrite(bytes([byte ^ 1 << bit % 8]), at)
        found = queue.read()
        assert [record for record in found if record.body != b"1"] == [sound[0], sound[2]], f"bit {bit}"
        assert [record.queue_offset for record in found] == [int(record.body) for record in found], f"bit {bit}"
        queue.log.pwrite(bytes([byte]), at)
    assert queue.read() == sound
