"""What the models of delayed messages and of messages with a deliver time have in common.

Beside the real thing over files in memory runs a reader of the log that knows only what the log says.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

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

from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.metrics.arrivals import Arrivals
from rmqspark.broker.state.topics import TopicTable
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import NotWritable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.store.draft import Draft
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from .luck import Luck

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.config import StoreConfig

STEPS = 40
AT_ONCE = b"at once"
seeds = st.none() | st.integers(0, 1 << 16)


class ParkedMachine(RuleBasedStateMachine):
    """One broker's messages that wait, in the topic `parked_in`; how far it is with them is saved now and then."""

    config: ClassVar[StoreConfig]
    parked_in: ClassVar[str]
    progress: Any  # has `table` and `load`

    def begin(self, deliveries: Deliveries) -> None:
        """Makes `progress` of `saved`, and what delivers, which recovers."""
        raise NotImplementedError

    async def run_round(self) -> None:
        raise NotImplementedError

    def due_ms(self, parked: Record) -> int:
        """Before which time it is not to be delivered."""
        raise NotImplementedError

    def is_message(self, parked: Record) -> bool:
        """Whether what is parked is to be delivered itself."""
        return True

    def check_order(self, delivered: list[Record]) -> None:
        """`delivered` are the parked messages, in the order in which they were delivered."""

    @initialize()
    def start(self) -> None:
        self.files, self.clock = MemoryFileSystem(), ManualClock()
        self.saved: Any = None
        self.number = 0
        self.open()

    def open(self) -> None:
        entropy = SystemEntropy()
        self.store = MessageStore.open("store", self.config, files=self.files, clock=self.clock, entropy=entropy)
        self.topics = TopicTable(max_topics=10, now_ms=0)
        self.topics.put(TopicConfig(topicName="orders", readQueueNums=4, writeQueueNums=4, perm=6), 0)
        self.deliveries = Deliveries(self.store, self.append, self.find_topic, Arrivals(self.store.queues))
        self.begin(self.deliveries)

    def find_topic(self, topic: str, _queue_id: int, _sent_at: int) -> TopicConfig | None:
        return self.topics.get(topic)

    def append(self, drafts: Any, *, makes_room: bool = False) -> Any:
        return self.store.append(drafts, together=True, makes_room=makes_room)

    @rule()
    def send_something_else(self) -> None:
        self.store.append([Draft("orders", 0, encode_record(topic="orders", body=AT_ONCE, properties=b""))])

    @rule(ms=st.sampled_from([100, 1_000, 5_000]))
    def let_time_go_by(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule()
    def deliver(self) -> None:
        asyncio.run(self.run_round())

    @rule(count=st.integers(1, 3), after_bytes=st.sampled_from([0, 50, 150, 250]), seed=seeds)
    def deliver_and_die(self, count: int, after_bytes: int, seed: int | None) -> None:
        """The process dies in the middle of a delivery, and perhaps the machine with it."""
        self.files.stop_at(count, after_bytes=after_bytes)
        with suppress(ProcessDied, NotWritable):
            self.deliver()
        self.files.heal()
        self.die(seed)

    @rule()
    def save(self) -> None:
        self.saved = self.progress.table()

    @rule(thorough=st.booleans())
    def flush(self, thorough: bool) -> None:
        self.store.checkpoint() if thorough else self.store.flush()

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
        self.save()
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
            assert message.store_timestamp_ms >= self.due_ms(parked)
        self.check_order([waiting[source] for source in sources])

    def look(self) -> tuple[dict[int, Record], list[Record]]:
        """All that waited or waits, by what its delivery says, and what was delivered, in the log's order."""
        waiting: dict[int, Record] = {}
        delivered: list[Record] = []
        self.others: list[Record] = []  # that are parked
        for batch in self.store.records.since(0):
            raw = bytes(batch.buffer.data)
            for at in batch.positions.tolist():
                record = decode_record(raw, at)
                if record.topic != self.parked_in:
                    delivered += [] if record.body == AT_ONCE else [record]
                elif self.is_message(record):
                    waiting[record.physical_offset + 1] = record
                else:
                    self.others.append(record)
        return waiting, delivered

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


def assert_found(machine: type[ParkedMachine]) -> None:
    """The model meets what is wrong."""
    quick = settings(
        max_examples=3000, stateful_step_count=STEPS, phases=[Phase.generate], database=None, derandomize=True
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=quick)
