"""Reading a queue of the broker's own whose log is not what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import BODY_LENGTH_AT, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.records.record import Record
    from rmqspark.store.files import File

TOPIC = "queue"
CONFIG = StoreConfig(mapped_file_size_commit_log=16 << 20, message_index_enable=False)
DAMAGED = 1
"""The queue offset of the record that is damaged, and its place in the log."""


class Queue:
    """A queue of three records, as long as each other, and the file of the log that they are in."""

    def __init__(self, body_bytes: int) -> None:
        files = MemoryFileSystem()
        self.store = MessageStore.open("store", CONFIG, files=files, clock=ManualClock(), entropy=SystemEntropy())
        properties = encode_properties({"a": "b"})
        records = [encode_record(topic=TOPIC, body=b"%d" % n * body_bytes, properties=properties) for n in range(3)]
        self.store.append([Draft(TOPIC, 0, record) for record in records])
        self.record_bytes = len(records[0])
        self.log: File = files.open(f"store/commitlog/{0:020d}")

    def read(self) -> list[Record]:
        return list(QueueReader(self.store, TOPIC, 0).all())

    def flip(self, bit: int) -> None:
        """Flips a bit of the damaged record."""
        at = DAMAGED * self.record_bytes + bit // 8
        (byte,) = self.log.pread(1, at)
        self.log.pwrite(bytes([byte ^ 1 << bit % 8]), at)


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> Iterator[Queue]:
    made = Queue(getattr(request, "param", 1))
    yield made
    made.log.close()
    made.store.close()


@pytest.mark.faults
def test_one_flipped_bit_costs_one_record_at_most(queue: Queue) -> None:
    """Whichever it is of the record's, lengths and hosts included: it raises nothing, and the others come."""
    sound = queue.read()
    assert [record.body for record in sound] == [b"0", b"1", b"2"]
    for bit in range(8 * queue.record_bytes):
        queue.flip(bit)
        found = queue.read()
        assert [record for record in found if record.body != b"1"] == [sound[0], sound[2]], f"bit {bit}"
        assert [record.queue_offset for record in found] == [int(record.body) for record in found], f"bit {bit}"
        queue.flip(bit)
    assert queue.read() == sound


@pytest.mark.faults
@pytest.mark.parametrize("queue", [1 << 20], indirect=True)
def test_a_damaged_record_that_fills_a_chunk_is_not_the_end(queue: Queue) -> None:
    """What lies behind it is read as well: a half message that a start missed would be opened later, ended or not."""
    queue.flip(8 * BODY_LENGTH_AT + 1)
    assert [record.queue_offset for record in queue.read()] == [0, 2]
