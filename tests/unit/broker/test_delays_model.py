"""Delayed messages through kills, power losses and restarts: each is delivered once, in order, and not before its time.

Beside the real thing over files in memory runs a reader of the log that knows only what the log says.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rmqspark.broker.delays.delay_table import DelayTable
from rmqspark.broker.delays.delayed_messages import DelayedMessages
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.delays.parking import Place, park
from rmqspark.broker.metrics.arrivals import Arrivals
from rmqspark.broker.topics import TopicTable
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import NotWritable
from rmqspark.protocol.bodies.admin import DelayOffsetTable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .luck import Luck

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record

pytestmark = [pytest.mark.property, pytest.mark.faults]

DELAYS_MS = (1_000, 5_000, 10_000)
CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096, max_hash_slot_num=50, max_index_num=200, message_delay_level="1s 5s 10s"
)
levels = st.integers(1, len(DELAYS_MS))
seeds = st.none() | st.integers(0, 1 << 16)


class DelayMachine(RuleBasedStateMachine):
    """One broker's delayed messages; its table is written now and then."""

    @initialize()
    def start(self) -> None:
        self.files, self.clock = MemoryFileSystem(), ManualClock()
        self.saved = DelayOffsetTable()
        self.number = 0
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open("store", CONFIG, files=self.files, clock=self.clock, entropy=SystemEntropy())
        topics, self.table = TopicTable(max_topics=10, now_ms=0), DelayTable()
        topics.put(TopicConfig(topicName="orders", readQueueNums=4, writeQueueNums=4, perm=6), 0)
        self.table.load(self.saved)
        deliveries = Deliveries(self.store, self.append, topics, Arrivals(self.store.queues))
        self.delays = DelayedMessages(self.store, deliveries, self.table, self.clock, DELAYS_MS)
        self.delays.recover()

    def append(self, drafts: Any, *, makes_room: bool = False) -> Any:
        return self.store.append(drafts, together=True, makes_room=makes_room)

    @rule(level=levels, count=st.integers(1, 3))
    def send(self, level: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            parked = park(Place("orders", self.number % 4), b"", level, len(DELAYS_MS))
            body = b"%d" % self.number
            record = encode_record(
                topic=parked.topic, body=body, properties=parked.properties, queue_id=parked.queue_id
            )
            self.store.append([Draft(parked.topic, parked.queue_id, record)])

    @rule()
    def send_something_else(self) -> None:
        self.store.append([Draft("orders", 0, encode_record(topic="orders", body=b"at once", properties=b""))])

    @rule(ms=st.sampled_from([100, 1_000, 5_000]))
    def let_time_go_by(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule()
    def deliver(self) -> None:
        asyncio.run(self.delays.run_round())

    @rule(count=st.integers(1, 3), after_bytes=st.sampled_from([0, 50, 150, 250]), seed=seeds)
    def deliver_and_die(self, count: int, after_bytes: int, seed: int | None) -> None:
        """The process dies in the middle of a delivery, and perhaps the machine with it."""
        self.files.stop_at(count, after_bytes=after_bytes)
        with suppress(ProcessDied, NotWritable):
            self.deliver()
        self.files.heal()
        self.die(seed)

    @rule()
    def save_table(self) -> None:
        self.saved = self.table.table()

    @rule(thorough=st.booleans())
    def flush(self, thorough: bool) -> None:
        self.store.checkpoint() if thorough else self.store.flush()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    @rule(seed=seeds)
    def die(self, seed: int | None) -> None:
        """A kill; with a seed a power loss."""
        if seed is None:
            self.files.kill()
        else:
            self.files.crash(Luck(seed))
        self.open()

    @rule(ms=st.sampled_from([1_000, 5_000]), seed=st.integers(0, 1 << 16))
    def deliver_and_lose_power(self, ms: int, seed: int) -> None:
        """With a note on disk that is newer, perhaps, than what else is."""
        self.clock.advance(ms=ms)
        self.deliver()
        self.save_table()
        self.die(seed)

    # --- what holds

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def each_is_delivered_once_and_not_too_early(self) -> None:
        waiting, delivered = self.look()
        sources = [message.prepared_transaction_offset for message in delivered]
        assert len(set(sources)) == len(sources)
        for message in delivered:
            parked = waiting[message.prepared_transaction_offset]
            assert message.body == parked.body
            assert message.queue_id == int(parked.property_map()["REAL_QID"])
            assert message.store_timestamp_ms >= parked.store_timestamp_ms + DELAYS_MS[parked.queue_id]
        for level in range(len(DELAYS_MS)):
            of_level = [source for source in sources if waiting[source].queue_id == level]
            assert of_level == sorted(of_level)

    @rule()
    def wait_for_all(self) -> None:
        self.clock.advance(ms=max(DELAYS_MS))
        self.deliver()
        waiting, delivered = self.look()
        assert {message.prepared_transaction_offset for message in delivered} == waiting.keys()

    def look(self) -> tuple[dict[int, Record], list[Record]]:
        """All that waited or waits, by what its delivery says, and what was delivered, in the log's order."""
        waiting: dict[int, Record] = {}
        delivered: list[Record] = []
        for batch in self.store.records_from(0):
            raw = bytes(batch.buffer.data)
            for at in batch.positions.tolist():
                record = decode_record(raw, at)
                if record.topic == SCHEDULE_TOPIC:
                    waiting[record.physical_offset + 1] = record
                elif record.body != b"at once":
                    delivered.append(record)
        return waiting, delivered

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


def test_the_first_message_of_a_log_is_delivered_once() -> None:
    """It lies at physical offset 0, which must not pass for "none"."""
    machine = DelayMachine()
    machine.start()
    machine.send(1, 1)
    machine.wait_for_all()
    machine.die(None)
    machine.wait_for_all()
    machine.each_is_delivered_once_and_not_too_early()
    machine.teardown()


DelayMachine.TestCase.settings = settings(stateful_step_count=40)
TestDelays = DelayMachine.TestCase


def saved_at_once(delays: DelayedMessages) -> None:
    """The progress as it is, whatever of it is on disk."""
    delays._table.put(delays._next_offsets, delays._store.end_offset, 0)


SWITCHED_OFF = {
    "the scan for deliveries": (Deliveries, "sources_from", lambda deliveries, offset: []),
    "the wait for the disk": (DelayedMessages, "_save_progress", saved_at_once),
}


@pytest.mark.parametrize("what", SWITCHED_OFF)
def test_the_model_bites(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one of its safeguards switched off the fault is found."""
    owner, name, mutant = SWITCHED_OFF[what]
    monkeypatch.setattr(owner, name, mutant)
    quick = settings(
        max_examples=3000, stateful_step_count=40, phases=[Phase.generate], database=None, derandomize=True
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(DelayMachine, settings=quick)
