"""Delayed messages through kills, power losses and restarts: each is delivered once, in order, and not before its
time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from structlog.testing import capture_logs

from rmqspark.broker.delays.delay_table import DelayTable
from rmqspark.broker.delays.delayed_messages import DelayedMessages
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.delays.parking import Place, park
from rmqspark.protocol.bodies.admin import DelayOffsetTable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft

from .parked_machine import STEPS, ParkedMachine, assert_found

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.records.record import Record

pytestmark = [pytest.mark.property, pytest.mark.faults]

DELAYS_MS = (1_000, 5_000, 10_000)
levels = st.integers(1, len(DELAYS_MS))


class DelayMachine(ParkedMachine):
    """One broker's delayed messages; its table is written now and then."""

    config = StoreConfig(
        mapped_file_size_commit_log=4096, max_hash_slot_num=50, max_index_num=200, message_delay_level="1s 5s 10s"
    )
    parked_in = SCHEDULE_TOPIC
    delays_ms: Sequence[int] = DELAYS_MS

    def begin(self, deliveries: Deliveries) -> None:
        self.progress = DelayTable()
        self.progress.load(self.saved or DelayOffsetTable())
        self.delays = DelayedMessages(self.store, deliveries, self.progress, self.clock, self.delays_ms)
        self.delays.recover()

    async def run_round(self) -> None:
        await self.delays.run_round()

    def due_ms(self, parked: Record) -> int:
        return parked.store_timestamp_ms + DELAYS_MS[parked.queue_id]

    @rule(level=levels, count=st.integers(1, 3))
    def send(self, level: int, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.park(level, b"%d" % self.number)

    def park(self, level: int, body: bytes, topic: str = "orders") -> None:
        parked = park(Place(topic, self.number % 4), b"", level, len(DELAYS_MS))
        record = encode_record(topic=parked.topic, body=body, properties=parked.properties, queue_id=parked.queue_id)
        self.store.append([Draft(parked.topic, parked.queue_id, record)])

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open()

    def check_order(self, delivered: list[Record]) -> None:
        for level in range(len(DELAYS_MS)):
            of_level = [parked.physical_offset for parked in delivered if parked.queue_id == level]
            assert of_level == sorted(of_level)

    @rule()
    def wait_for_all(self) -> None:
        self.clock.advance(ms=max(DELAYS_MS))
        self.deliver()
        waiting, delivered = self.look()
        assert {message.prepared_transaction_offset for message in delivered} == waiting.keys()


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


def test_a_level_that_cannot_be_read_holds_up_no_other() -> None:
    """Its disk has a bad sector there. It is tried again each time, and told of once."""
    machine = DelayMachine()
    machine.start()
    machine.park(1, b"1")
    machine.park(2, b"2")
    machine.clock.advance(ms=max(DELAYS_MS))
    with capture_logs() as logs:
        for _ in range(2):
            machine.files.fail_next("pread")
            machine.deliver()
            assert [message.body for message in machine.look()[1]] == [b"2"]
    assert [entry["log_level"] for entry in logs] == ["error"]
    machine.deliver()
    assert [message.body for message in machine.look()[1]] == [b"2", b"1"]
    machine.teardown()


def test_a_message_that_is_lost_hides_none_behind_it() -> None:
    """What was delivered is found in the log though the first that seems to wait is damaged since: all behind it came
    once more, and nothing kept what waited from expiring."""
    machine = DelayMachine()
    machine.start()
    machine.send_something_else()
    lost = machine.store.end_offset
    machine.send(1, 3)
    machine.wait_for_all()
    machine.send(1, 1)
    queue = machine.store._storeys.queues.get(SCHEDULE_TOPIC, 0)
    assert queue is not None
    assert queue.mark_lost(lost, lost + 1) == 1
    machine.store.close()
    machine.open()
    machine.clock.advance(ms=max(DELAYS_MS))
    assert machine.delays.needed_offset is not None
    machine.deliver()
    assert [message.body for message in machine.look()[1]] == [b"1", b"2", b"3", b"4"]
    machine.teardown()


def test_a_limit_that_was_lowered_since_is_none_for_what_was_accepted() -> None:
    """It is delivered when its time comes, and holds up nobody."""
    machine = DelayMachine()
    roomy = replace(DelayMachine.config, mapped_file_size_commit_log=1 << 20)
    machine.config = roomy  # type: ignore[misc]
    machine.start()
    machine.park(1, bytes(100_000))
    machine.store.close()
    machine.config = replace(roomy, max_message_size=1_000)  # type: ignore[misc]
    machine.open()
    machine.park(1, b"small")
    machine.wait_for_all()
    assert [len(message.body) for message in machine.look()[1]] == [100_000, 5]
    machine.teardown()


def test_a_level_that_was_taken_away_since_delivers_what_waits() -> None:
    """At the time that it was sent with, and says so at each start; it waited on, and expired, without a word."""
    machine = DelayMachine()
    machine.start()
    machine.send(3, 2)
    machine.store.close()
    machine.config = replace(DelayMachine.config, message_delay_level="1s 5s")  # type: ignore[misc]
    machine.delays_ms = DELAYS_MS[:2]
    with capture_logs() as logs:
        machine.open()
    assert [(entry["level"], entry["waiting"]) for entry in logs] == [(3, 2)]
    machine.let_time_go_by(9_999)
    machine.deliver()
    assert machine.look()[1] == []
    assert machine.delays.needed_offset == 0
    machine.let_time_go_by(1)
    machine.deliver()
    machine.each_is_delivered_once_and_not_too_early()
    assert [message.body for message in machine.look()[1]] == [b"1", b"2"]
    machine.die(None)
    machine.deliver()
    assert len(machine.look()[1]) == 2
    machine.teardown()


def test_what_fits_nowhere_is_left_out() -> None:
    """Its topic has a name so long that it is larger than a file of the log when it is delivered; what waits behind it
    comes, and the log says where it lies."""
    machine = DelayMachine()
    machine.start()
    longest = "o" * 127
    machine.topics.put(TopicConfig(topicName=longest, readQueueNums=4, writeQueueNums=4, perm=6), 0)
    for body in (b"first", bytes(3_800), b"last"):
        machine.park(1, body, longest)
    machine.clock.advance(ms=max(DELAYS_MS))
    with capture_logs() as logs:
        machine.deliver()
    assert [message.body for message in machine.look()[1]] == [b"first", b"last"]
    assert [(entry["queue_offset"], "cannot take" in entry["reason"]) for entry in logs] == [(1, True)]
    assert machine.deliveries.left_out == 1
    machine.each_is_delivered_once_and_not_too_early()
    machine.teardown()


DelayMachine.TestCase.settings = settings(stateful_step_count=STEPS)
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
    monkeypatch.setattr(*SWITCHED_OFF[what])
    assert_found(DelayMachine)
