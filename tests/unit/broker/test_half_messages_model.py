"""Half messages through kills, power losses and restarts: whatever is said how often, a transaction ends once.

Beside the real thing over files in memory runs a reader of the log that knows only what the log says: a half is open if
no op record names it and no message says it is its commit.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

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

from rmqspark.broker.clients import ClientRegistry
from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.metrics.counted import Counted
from rmqspark.broker.online_groups import Member
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.broker.state.topics import TopicTable
from rmqspark.broker.transactions.check_back import CheckBack
from rmqspark.broker.transactions.half_messages import HalfMessages
from rmqspark.broker.transactions.half_progress import HalfProgress
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import NotWritable, TransactionError
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.headers.produce import EndTransactionRequestHeader
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import Record, SysFlag, decode_record, encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft, index_keys
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.half_messages.half_ledger import CheckRules, HalfLedger, Outcome, SetAside
from rmqspark.txn.half_messages.half_operations import decode_operation

from .luck import Luck

if TYPE_CHECKING:
    from rmqspark.protocol.headers.produce import CheckTransactionStateRequestHeader

pytestmark = [pytest.mark.property, pytest.mark.faults]

RULES = CheckRules(timeout_ms=6_000, interval_ms=60_000, max_checks=2, reserved_ms=72 * 3_600_000)
CONFIG = StoreConfig(mapped_file_size_commit_log=4096, max_hash_slot_num=50, max_index_num=200)
OTHERS = "others"  # nothing is asked of it
OUTCOMES = {Outcome.COMMITTED: SysFlag.COMMITTED, Outcome.ROLLED_BACK: SysFlag.ROLLED_BACK}

places = st.integers(0, 5)  # which of the halves there are, from the newest on
seeds = st.none() | st.integers(0, 1 << 16)


class Seen(NamedTuple):
    """What the log says."""

    halves: list[Record]
    marked: set[int]  # queue offsets
    committed: list[int]  # physical offsets, one for each message
    set_aside: int


class HalfMessageMachine(RuleBasedStateMachine):
    """One broker's half messages, its offsets saved now and then."""

    config = CONFIG

    @initialize()
    def start(self) -> None:
        self.files, self.clock = MemoryFileSystem(), ManualClock()
        self.saved = ConsumerOffsetTable()
        self.number = 0
        self.rolled_back: set[int] = set()  # queue offsets of halves whose rollback was taken
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(
            "store", self.config, files=self.files, clock=self.clock, entropy=SystemEntropy()
        )
        topics, self.offsets = TopicTable(max_topics=10, now_ms=0), ConsumerOffsets()
        topics.put(TopicConfig(topicName="orders", readQueueNums=1, writeQueueNums=1, perm=6), 0)
        self.offsets.load(self.saved)
        self.offsets.clamp(self.store.queues.bounds)
        self.halves = HalfMessages(
            self.store,
            self.append,
            topics,
            lambda topic, _queue_id, _sent_at: topics.get(topic),
            HalfLedger(RULES, max_open=100),
            HalfProgress(self.store, self.offsets),
            self.clock,
            Counted(BrokerConfig(), self.store, self.clock),
        )
        self.halves.recover()

    def append(self, drafts: Any, *, again: bool = False, makes_room: bool = False) -> Any:
        return self.store.append(drafts, together=True, again=again, makes_room=makes_room)

    # --- producers

    @rule()
    def send(self) -> None:
        self.send_one(b"%d" % (self.number + 1))

    def send_one(self, body: bytes) -> None:
        self.number += 1
        named = {"PGROUP": "PG", "UNIQ_KEY": f"U{self.number}", "REAL_TOPIC": "orders", "REAL_QID": "0"}
        record = encode_record(
            topic=HALF_TOPIC,
            body=body,
            properties=encode_properties(named),
            born_timestamp_ms=self.clock.now_ms(),
        )
        self.store.append([Draft(HALF_TOPIC, 0, record, index_keys=index_keys(named))])

    @rule(place=places, outcome=st.sampled_from(list(OUTCOMES)))
    def end(self, place: int, outcome: Outcome) -> None:
        before = self.look()
        if place >= len(before.halves):
            return
        half = before.halves[-1 - place]
        was_open = self.is_open(half, before)
        try:
            self.halves.end(_header(half, outcome), outcome)
        except TransactionError:
            assert not was_open
        else:
            if was_open and outcome is Outcome.ROLLED_BACK:
                self.rolled_back.add(half.queue_offset)
        if not was_open:
            assert self.look() == before

    @rule(place=places, count=st.integers(1, 3), after_bytes=st.sampled_from([0, 50, 150, 250]), seed=seeds)
    def end_and_die(self, place: int, count: int, after_bytes: int, seed: int | None) -> None:
        """The process dies in the middle of a commit, and perhaps the machine with it."""
        before = self.look()
        if place < len(before.halves) and self.is_open(before.halves[-1 - place], before):
            self.files.stop_at(count, after_bytes=after_bytes)
            with suppress(ProcessDied, NotWritable):
                self.halves.end(_header(before.halves[-1 - place], Outcome.COMMITTED), Outcome.COMMITTED)
            self.files.heal()
        self.die(seed)

    # --- the broker

    @rule(seconds=st.sampled_from([1, 6, 60]))
    def let_time_go_by(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @rule(limit=st.integers(1, 5))
    def check_back(self, limit: int) -> None:
        self.halves.follow()
        for action in self.halves.take_due(limit):
            if isinstance(action, SetAside):
                self.halves.set_aside(action.half, action.reason)

    @rule()
    def save_progress(self) -> None:
        self.halves.save_progress()

    @rule()
    def save_offsets(self) -> None:
        self.saved = self.offsets.table(0)

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
        known = {half.queue_offset for half in self.look().halves}
        self.rolled_back &= known if seed is None else self.look().marked

    # --- what holds

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def every_transaction_ended_once(self) -> None:
        seen = self.look()
        assert len(set(seen.committed)) == len(seen.committed)
        by_place = {half.physical_offset: half.queue_offset for half in seen.halves}
        assert not self.rolled_back & {by_place.get(place) for place in seen.committed}
        for half in seen.halves:
            assert self.halves._ledger.is_open(half.queue_offset) == self.is_open(half, seen)

    def is_open(self, half: Record, seen: Seen) -> bool:
        return half.queue_offset not in seen.marked and half.physical_offset not in seen.committed

    def look(self) -> Seen:
        seen = Seen([], set(), [], 0)
        aside = 0
        for batch in self.store.records.since(0):
            raw = bytes(batch.buffer.data)
            for at in batch.positions.tolist():
                record = decode_record(raw, at)
                if record.topic == HALF_TOPIC:
                    seen.halves.append(record)
                elif record.topic == OP_HALF_TOPIC:
                    seen.marked.update(decode_operation(record.body))
                elif record.topic == CHECK_MAX_TIME_TOPIC:
                    aside += 1
                elif record.topic != OTHERS:
                    assert record.topic == "orders"
                    seen.committed.append(record.prepared_transaction_offset)
        return seen._replace(set_aside=aside)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()


def _header(half: Record, outcome: Outcome) -> EndTransactionRequestHeader:
    return EndTransactionRequestHeader("PG", half.queue_offset, half.physical_offset, OUTCOMES[outcome], "U")


HalfMessageMachine.TestCase.settings = settings(stateful_step_count=40)
TestHalfMessages = HalfMessageMachine.TestCase


SWITCHED_OFF = {
    "the idempotence check": ("rmqspark.txn.half_messages.half_ledger.HalfLedger.is_open", lambda ledger, offset: True),
    "the scan for committed messages": (
        "rmqspark.txn.half_messages.half_recovery.prepared_offsets",
        lambda store, offset: set(),
    ),
}


@pytest.mark.parametrize("what", SWITCHED_OFF)
def test_the_model_bites(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one of its safeguards switched off the fault is found."""
    target, mutant = SWITCHED_OFF[what]
    monkeypatch.setattr(target, mutant)
    quick = settings(
        max_examples=3000, stateful_step_count=40, phases=[Phase.generate], database=None, derandomize=True
    )
    with pytest.raises(AssertionError):
        run_state_machine_as_test(HalfMessageMachine, settings=quick)


def test_a_limit_that_was_lowered_since_is_none_for_what_was_accepted() -> None:
    """Its sender was told that it is stored: it can be committed, and set aside."""
    machine = HalfMessageMachine()
    roomy = replace(CONFIG, mapped_file_size_commit_log=1 << 20)
    machine.config = roomy  # type: ignore[misc]
    machine.start()
    for _ in range(2):
        machine.send_one(bytes(100_000))
    machine.store.close()
    machine.config = replace(roomy, max_message_size=1_000)  # type: ignore[misc]
    machine.open()
    machine.end(0, Outcome.COMMITTED)
    for _ in range(RULES.max_checks + 1):
        machine.let_time_go_by(60)
        machine.check_back(5)
    seen = machine.look()
    assert (len(seen.committed), seen.set_aside, len(seen.marked)) == (1, 1, 2)
    machine.teardown()


def test_offsets_wait_for_the_disk() -> None:
    """A committed offset that outlived the end it rests on would pass over a half message that nobody ended."""
    machine = HalfMessageMachine()
    machine.start()
    machine.send()
    machine.flush(thorough=False)
    machine.end(0, Outcome.COMMITTED)
    machine.save_progress()
    machine.save_progress()
    machine.save_offsets()
    assert machine.saved.offsetTable == {}
    machine.files.crash()
    machine.open()
    (half,) = machine.look().halves
    assert machine.halves._ledger.is_open(half.queue_offset)
    machine.end(0, Outcome.COMMITTED)
    machine.flush(thorough=False)
    machine.save_progress()
    machine.flush(thorough=False)
    machine.save_progress()
    machine.save_offsets()
    assert machine.saved.offsetTable == {
        f"{HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: 1},
        f"{OP_HALF_TOPIC}@CID_RMQ_SYS_TRANS": {0: 1},
    }
    machine.teardown()


def test_an_open_half_message_outlasts_a_full_disk_and_is_ended_there() -> None:
    """Its producer was told that it is stored. It went with the files that go before their time, and its commit, which
    nobody answers, was lost; kept, it must be ended though nothing else is taken, for then they go."""
    machine = HalfMessageMachine()
    machine.start()
    machine.send()
    machine.halves.follow()
    for _ in range(400):
        machine.store.append([Draft(OTHERS, 0, encode_record(topic=OTHERS, body=bytes(900)))])
    machine.store.checkpoint()
    usage = machine.files.disk_usage()
    machine.files.set_budget((usage.total_bytes - usage.free_bytes) * 100 // 95)

    def expire() -> int:
        kept = machine.halves.needed_offset
        return len(machine.store.expire(machine.clock.now_ms(), keep_from=kept).deleted)

    assert (expire(), machine.store.is_writable) == (0, False)
    machine.end(0, Outcome.COMMITTED)
    assert len(machine.look().committed) == 1
    machine.store.checkpoint()
    assert expire() > 0
    machine.teardown()


def test_a_half_message_that_cannot_be_read_holds_up_no_other() -> None:
    """Its disk has a bad sector there. Those that are due with it count as asked about, and would be set aside in the
    end without anybody having been asked."""
    asked: list[int] = []

    class Producer(SimpleNamespace):
        def send_request_oneway(self, _: int, header: CheckTransactionStateRequestHeader, __: bytes) -> None:
            asked.append(header.tranStateTableOffset)

    machine = HalfMessageMachine()
    machine.start()
    clients = ClientRegistry(expiry_ms=120_000, max_groups=10)
    producer: Any = Producer(id=1, peer=("127.0.0.1", 1), closed=False)
    clients.register_producer("PG", Member(producer, "client", "JAVA", 0, 0))
    nobody: Any = None
    check_back = CheckBack(machine.halves, clients, nobody, lambda *_: True, broker_name="broker-a")
    for _ in range(3):
        machine.send()
    while machine.halves.follow():
        pass
    machine.clock.advance(ms=RULES.timeout_ms)
    machine.files.fail_next("pread")
    asyncio.run(check_back.run_round())
    assert asked == [1, 2]
    machine.teardown()
