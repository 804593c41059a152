"""Messages with a deliver time through kills, power losses and restarts: each is delivered once, and not too early."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from structlog.testing import capture_logs

from rmqspark.broker.delays.deliver_times import park_until
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.delays.parking import Place
from rmqspark.broker.delays.timed_messages import TimedMessages
from rmqspark.broker.delays.timer_table import TimerProgress
from rmqspark.broker.metrics.timer_counts import TimerCounts
from rmqspark.protocol.bodies.admin import TimerTable
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft

from .parked_machine import STEPS, ParkedMachine, assert_found

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Record

pytestmark = [pytest.mark.property, pytest.mark.faults]

LONGEST_MS = 20_000


class TimerMachine(ParkedMachine):
    """One broker's messages with a time; its note is written now and then."""

    config = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=50, max_index_num=200)
    parked_in = TIMER_TOPIC

    def begin(self, deliveries: Deliveries) -> None:
        self.progress = TimerProgress(self.files.within("store"))
        self.progress.load(self.saved or TimerTable())
        self.timed = TimedMessages(self.store, deliveries, self.progress, self.clock, TimerCounts())
        self.timed.recover()

    async def run_round(self) -> None:
        await self.timed.run_round()

    def due_ms(self, parked: Record) -> int:
        return int(parked.property_map()[Property.TIMER_OUT_MS]) + 1000

    def is_message(self, parked: Record) -> bool:
        return Property.TIMER_DEL_UNIQKEY not in parked.property_map()

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

    @rule(is_saved=st.booleans())
    def restart(self, is_saved: bool) -> None:
        """As a broker that is stopped, or killed as it stops."""
        self.timed.finish()
        if is_saved:
            self.save()
        self.store.close()
        self.open()

    @rule()
    def wait_for_all(self) -> None:
        self.clock.advance(ms=LONGEST_MS + 1000)
        self.deliver()
        waiting, delivered = self.look()
        recalled = {each.property_map().get(Property.TIMER_DEL_UNIQKEY) for each in self.others}
        wanted = {at for at, each in waiting.items() if f"orders+{each.property_map()['UNIQ_KEY']}" not in recalled}
        assert {message.prepared_transaction_offset for message in delivered} == wanted


TimerMachine.TestCase.settings = settings(stateful_step_count=STEPS)
TestTimers = TimerMachine.TestCase


def test_a_second_is_one_however_exactly_it_is_told() -> None:
    """Whoever sends bulks says himself when they are due: each millisecond on its own would take as much memory as
    fifty messages, and what recalls a message names its second."""
    machine = TimerMachine()
    machine.start()
    second_ms = machine.clock.now_ms() // 1_000 * 1_000 + 1_000
    for number in range(100):
        properties = {"TIMER_OUT_MS": str(second_ms + number * 7), "REAL_TOPIC": "orders", "REAL_QID": "0"}
        encoded = encode_properties(properties | {Property.UNIQ_KEY: f"U{number}"})
        record = encode_record(topic=TIMER_TOPIC, body=b"%d" % number, properties=encoded)
        machine.store.append([Draft(TIMER_TOPIC, 0, record)])
    machine.park(b"0", second_ms + 1_000, {Property.TIMER_DEL_UNIQKEY: "orders+U3"})
    machine.deliver()
    assert len(machine.timed._timetable._times) == 1
    machine.clock.set_now_ms(second_ms + 999)
    machine.deliver()
    assert machine.look()[1] == []
    machine.clock.set_now_ms(second_ms + 1_000)
    machine.deliver()
    assert len({message.body for message in machine.look()[1]} - {b"3"}) == len(machine.look()[1]) == 99
    machine.teardown()


def test_topics_that_nobody_has_are_not_counted() -> None:
    """Each message of a bulk may name another one beside its own, and nothing would let go of those."""
    machine = TimerMachine()
    machine.start()
    due = {"TIMER_OUT_MS": str(machine.clock.now_ms()), "REAL_TOPIC": "orders", "REAL_QID": "0"}
    for number in range(10):
        properties = encode_properties({"REAL_TOPIC": f"invented-{number}"}) + encode_properties(due)
        record = encode_record(topic=TIMER_TOPIC, body=b"x", properties=properties)
        machine.store.append([Draft(TIMER_TOPIC, 0, record)])
    machine.clock.advance(ms=2_000)
    machine.deliver()
    assert len(machine.look()[1]) == 10
    counts = machine.timed.counts
    assert list(counts._topics) == ["orders"]
    counts.forget(lambda topic: False)  # it is deleted, and nothing waits for it
    assert counts._topics == {}
    machine.teardown()


def test_large_messages_of_one_second_are_delivered_a_few_at_a_time() -> None:
    """Those of one delivery lie in one file of the log: however large they are, they find room there."""
    machine = TimerMachine()
    machine.config = replace(TimerMachine.config, mapped_file_size_commit_log=16 << 20)  # type: ignore[misc]
    machine.start()
    for number in range(6):
        machine.park(bytes([number]) * (3 << 20), machine.clock.now_ms() + 1_000, {})
    machine.clock.advance(ms=2_000)
    machine.deliver()
    assert [message.body[0] for message in machine.look()[1]] == list(range(6))
    machine.teardown()


def test_a_limit_that_was_lowered_since_is_none_for_what_was_accepted() -> None:
    """It is delivered in its second, with all others of that second and behind it."""
    machine = TimerMachine()
    roomy = replace(TimerMachine.config, mapped_file_size_commit_log=1 << 20)
    machine.config = roomy  # type: ignore[misc]
    machine.start()
    machine.park(bytes(100_000), machine.clock.now_ms() + 1_000, {})
    machine.store.close()
    machine.config = replace(roomy, max_message_size=1_000)  # type: ignore[misc]
    machine.open()
    for after_ms in (1_000, 2_000):
        machine.park(b"small", machine.clock.now_ms() + after_ms, {})
    machine.clock.advance(ms=3_000)
    machine.deliver()
    assert [len(message.body) for message in machine.look()[1]] == [100_000, 5, 5]
    machine.teardown()


def test_what_fits_nowhere_is_left_out() -> None:
    """What is said of its delivery makes it larger than a file of the log; the others of its second come, together or
    not, and those behind it."""
    machine = TimerMachine()
    machine.start()
    due_ms = machine.clock.now_ms() + 1_000
    for body in (b"first", bytes(3_910), *(b"%d" % number for number in range(40))):
        machine.park(body, due_ms, {})
    machine.park(b"last", due_ms + 1_000, {})
    machine.clock.advance(ms=3_000)
    with capture_logs() as logs:
        machine.deliver()
    expected = [b"first", *(b"%d" % number for number in range(40)), b"last"]
    assert [message.body for message in machine.look()[1]] == expected
    assert [(entry["queue_offset"], "cannot take" in entry["reason"]) for entry in logs] == [(1, True)]
    assert (machine.deliveries.left_out, machine.timed.waiting) == (1, 0)
    machine.teardown()


def test_rocketmq_issue_7480() -> None:
    """A note that is ahead of a queue which lost its end: what is sent next is delivered all the same."""
    machine = TimerMachine()
    machine.start()
    now_ms = machine.clock.now_ms()
    machine.saved = TimerTable(now_ms, queueOffset=90, firstOffset=90, logOffset=1 << 30)
    machine.store.close()
    machine.open()
    machine.park(b"x", now_ms + 1_000, {})
    machine.clock.advance(ms=2_000)
    machine.deliver()
    assert [message.body for message in machine.look()[1]] == [b"x"]
    machine.teardown()


def test_a_clock_set_back_between_two_kills() -> None:
    """What was delivered before the first kill is not delivered again after the second."""
    machine = TimerMachine()
    machine.start()
    machine.deliver()
    machine.save()
    machine.park(b"w", machine.clock.now_ms() + 15_000, {})
    machine.park(b"x", machine.clock.now_ms() + 2_000, {})
    machine.clock.advance(ms=10_000)
    machine.deliver()
    machine.clock.set_now_ms(machine.clock.now_ms() - 9_500)
    machine.die(None)
    machine.park(b"y", machine.clock.now_ms() + 1_000, {})
    machine.deliver()
    machine.flush(thorough=False)
    machine.deliver()
    machine.save()
    machine.die(None)
    machine.clock.advance(ms=20_000)
    machine.deliver()
    assert sorted(message.body for message in machine.look()[1]) == [b"w", b"x", b"y"]
    machine.teardown()


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
    monkeypatch.setattr(*SWITCHED_OFF[what])
    assert_found(TimerMachine)
