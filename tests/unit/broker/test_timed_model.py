"""Messages with a deliver time through kills, power losses and restarts: each is delivered once, and not too early.

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

from rmqspark.broker.delays.deliver_times import park_until
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.delays.parking import Place
from rmqspark.broker.delays.timed_messages import TimedMessages
from rmqspark.broker.delays.timer_table import TimerProgress
from rmqspark.broker.metrics.arrivals import Arrivals
from rmqspark.broker.metrics.timer_counts import TimerCounts
from rmqspark.broker.topics import TopicTable
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import NotWritable
from rmqspark.protocol.bodies.admin import TimerTable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.records.properties import Property, encode_properties
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

CONFIG = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=50, max_index_num=200)
LONGEST_MS = 20_000
seeds = st.none() | st.integers(0, 1 << 16)


class TimerMachine(RuleBasedStateMachine):
    """One broker's messages with a time; its note is written now and then."""

    @initialize()
    def start(self) -> None:
        self.files, self.clock = MemoryFileSystem(), ManualClock()
        self.saved = TimerTable()
        self.number = 0
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open("store", CONFIG, files=self.files, clock=self.clock, entropy=SystemEntropy())
        topics, self.progress = TopicTable(max_topics=10, now_ms=0), TimerProgress(self.files.within("store"))
        topics.put(TopicConfig(topicName="orders", readQueueNums=4, writeQueueNums=4, perm=6), 0)
        self.progress.load(self.saved)
        deliveries = Deliveries(self.store, self.append, topics, Arrivals(self.store.queues))
        self.timed = TimedMessages(self.store, deliveries, self.progress, self.clock, TimerCounts())
        self.timed.recover()

    def append(self, drafts: Any, *, makes_room: bool = False) -> Any:
        return self.store.append(drafts, together=True, makes_room=makes_room)

    @rule(delay_ms=st.integers(1, LONGEST_MS), count=st.integers(1, 3))
    def send(self, delay_ms: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.park(b"%d" % self.number, self.clock.now_ms() + delay_ms, {Property.UNIQ_KEY: f"U{self.number}"})

    def park(self, body: bytes, time_ms: int, properties: dict[str, str]) -> None:
        parked = park_until(Place("orders", self.number % 4), encode_properties(properties), time_ms)
        record = encode_record(topic=parked.topic, body=body, properties=parked.properties)
        self.store.append([Draft(parked.topic, 0, record)])

    @precondition(lambda self: self.number)
    @rule()
    def recall(self) -> None:
        """The message sent last, where it still waits."""
        waiting, delivered = self.look()
        sources = {message.prepared_transaction_offset for message in delivered}
        for newest in list(waiting.values())[-1:]:
            if newest.physical_offset + 1 not in sources:
                found = newest.property_map()
                key = f"orders+{found[Property.UNIQ_KEY]}"
                self.park(b"0", int(found[Property.TIMER_OUT_MS]) + 1000, {Property.TIMER_DEL_UNIQKEY: key})

    @rule()
    def send_something_else(self) -> None:
        self.store.append([Draft("orders", 0, encode_record(topic="orders", body=b"at once", properties=b""))])

    @rule(ms=st.sampled_from([100, 1_000, 5_000]))
    def let_time_go_by(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule()
    def deliver(self) -> None:
        asyncio.run(self.timed.run_round())

    @rule(count=st.integers(1, 3), after_bytes=st.sampled_from([0, 50, 150, 250]), seed=seeds)
    def deliver_and_die(self, count: int, after_bytes: int, seed: int | None) -> None:
        """The process dies in the middle of a delivery, and perhaps the machine with it."""
        self.files.stop_at(count, after_bytes=after_bytes)
        with suppress(ProcessDied, NotWritable):
            self.deliver()
        self.files.heal()
        self.die(seed)

    @rule()
    def save_note(self) -> None:
        self.saved = self.progress.table()

    @rule(thorough=st.booleans())
    def flush(self, thorough: bool) -> None:
        self.store.checkpoint() if thorough else self.store.flush()

    @rule(is_saved=st.booleans())
    def restart(self, is_saved: bool) -> None:
        """As a broker that is stopped, or killed as it stops."""
        self.timed.finish()
        if is_saved:
            self.save_note()
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
        self.save_note()
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
            assert message.queue_id == int(parked.property_map()[Property.REAL_QUEUE_ID])
            assert message.store_timestamp_ms >= int(parked.property_map()[Property.TIMER_OUT_MS]) + 1000

    @rule()
    def wait_for_all(self) -> None:
        self.clock.advance(ms=LONGEST_MS + 1000)
        self.deliver()
        waiting, delivered = self.look()
        recalled = {each.property_map().get(Property.TIMER_DEL_UNIQKEY) for each in self.recalls}
        wanted = {at for at, each in waiting.items() if f"orders+{each.property_map()['UNIQ_KEY']}" not in recalled}
        assert {message.prepared_transaction_offset for message in delivered} == wanted

    def look(self) -> tuple[dict[int, Record], list[Record]]:
        """All that waited or waits, by what its delivery says, and what was delivered, in the log's order."""
        waiting: dict[int, Record] = {}
        delivered: list[Record] = []
        self.recalls: list[Record] = []
        for batch in self.store.records_from(0):
            raw = bytes(batch.buffer.data)
            for at in batch.positions.tolist():
                record = decode_record(raw, at)
                if record.topic != TIMER_TOPIC:
                    delivered += [] if record.body == b"at once" else [record]
                elif Property.TIMER_DEL_UNIQKEY in record.property_map():
                    self.recalls.append(record)
                else:
                    waiting[record.physical_offset + 1] = record
        return waiting, delivered

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


TimerMachine.TestCase.settings = settings(stateful_step_count=40)
TestTimers = TimerMachine.TestCase


def saved_at_once(timed: TimedMessages) -> None:
    """How far it is, whatever of it is on disk."""
    timed._noted.note(timed._now())


SWITCHED_OFF = {
    "the scan for deliveries": (Deliveries, "sources_from", lambda deliveries, offset: []),
    "the wait for the disk": (TimedMessages, "_save_progress", saved_at_once),
    "the note of what was due": (TimedMessages, "_was_delivered", lambda timed, record, due_ms: False),
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
        run_state_machine_as_test(TimerMachine, settings=quick)
