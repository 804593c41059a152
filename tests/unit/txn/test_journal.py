"""The ledger's topic: what is promised is on disk, and is still there when nobody has looked for weeks."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from functools import partial, wraps
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import (
    DamagedFile,
    FlushSlaveTimeout,
    FlushTimeout,
    InvalidMessage,
    NotWritable,
    SlaveNotAvailable,
)
from rmqspark.protocol.bodies.txn import HeldAttempt, InputRange, OutputRange, TxnDecision
from rmqspark.protocol.names import TXN_LEDGER_TOPIC
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.draft import Draft
from rmqspark.store.files import write_whole
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.coordinator import restate_times
from rmqspark.txn.coordinator.events import (
    BrokerCompleted,
    Decided,
    EpochClosed,
    Event,
    InputReported,
    RunOpened,
    VersionBegun,
)
from rmqspark.txn.coordinator.journal import Journal
from rmqspark.txn.coordinator.ledger import Ledger
from rmqspark.txn.coordinator.report import Reports
from rmqspark.txn.coordinator.rollout import Rollout
from rmqspark.txn.coordinator.uptime import Uptime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

CONFIG = StoreConfig(
    mapped_file_size_commit_log=16 << 10,
    message_index_enable=False,
    file_reserved_time=1,
    delete_when=";".join(map(str, range(24))),
)
T = "spark-1"


def awaited(test: Callable[[Desk], Awaitable[None]]) -> Callable[[Desk], None]:
    @wraps(test)
    def run(desk: Desk) -> None:
        asyncio.run(test(desk))  # type: ignore[arg-type]

    return run


class Desk:
    """A store, a ledger and its journal, which can lose power and be set up again."""

    def __init__(self, config: StoreConfig = CONFIG) -> None:
        self.config = config
        self.files = MemoryFileSystem()
        self.clock = ManualClock()
        self.open()

    def open(self) -> None:
        self.store = MessageStore.open(
            "store", self.config, files=self.files, clock=self.clock, entropy=SystemEntropy(1)
        )
        self.ledger = Ledger()
        self.journal = Journal(
            self.store,
            self.files.within("store"),
            self.clock,
            append=self.store.append,
            flush_to=self.flush,
            apply=self.ledger.apply,
            max_decision_bytes=8_000,
            restate_after_bytes=16 << 10,
        )
        self.journal.replay()

    async def flush(self, end_offset: int) -> None:
        try:
            self.store.flush()
        except OSError as error:
            raise NotWritable(str(error)) from error

    def lose_power(self) -> None:
        self.files.crash()
        self.open()

    def fill(self, size_bytes: int) -> None:
        """Other messages, until the log has grown by that much."""
        end = self.store.end_offset + size_bytes
        while self.store.end_offset < end:
            self.store.append([Draft("other", 0, encode_record(topic="other", body=b"x" * 900))])

    def expire(self) -> None:
        self.store.checkpoint()  # what is not on disk would stay in any case
        self.store.expire(self.clock.now_ms(), keep_from=self.journal.start.needed_offset)

    async def restate(self) -> None:
        await self.journal.restate(self.alive)

    def alive(self) -> Iterable[Callable[[], list[Event]]]:
        return [partial(self.ledger.restated, txn.transactional_id) for txn in self.ledger]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def opened(epoch: int = 1, name: str = T) -> RunOpened:
    return RunOpened(name, "q", f"r{epoch}", epoch, 0)


def decided(version: int) -> Decided:
    return Decided(T, 1, version, TxnDecision("q", {"a": [HeldAttempt(0, "x", 1, 1)]}, rows=1), 0, "driver")


@awaited
async def test_what_was_flushed_survives_a_power_loss(desk: Desk) -> None:
    """An epoch that was handed out is never handed out again."""
    desk.journal.record([opened(), VersionBegun(T, 0, 0)])
    await desk.journal.flushed()
    desk.lose_power()
    assert (desk.ledger.require(T).epoch, desk.ledger.require(T).open_version) == (1, 0)


@awaited
async def test_what_no_slave_has_yet_is_no_answer_however_often_it_is_asked_for(desk: Desk) -> None:
    """With SYNC_MASTER: if the master's disk is lost then, its slave knows nothing of it. After a start as well."""
    is_confirmed = False

    async def on_slaves_too(end_offset: int) -> None:
        desk.store.flush()
        if not is_confirmed:
            raise SlaveNotAvailable("Stored, but not on a slave.")

    desk.journal._flush_to = on_slaves_too
    desk.journal.record([opened()])
    for _ in range(2):
        with pytest.raises(SlaveNotAvailable):
            await desk.journal.flushed()
    desk.store.close()
    desk.open()
    desk.journal._flush_to = on_slaves_too
    with pytest.raises(SlaveNotAvailable):
        await desk.journal.flushed()
    is_confirmed = True
    await desk.journal.flushed()


@awaited
async def test_a_start_noted_in_another_log_is_not_believed(desk: Desk) -> None:
    """A master that was away is a slave next, whose tail is cut off, and the master once more: where its ledger began
    when it was away are other events now."""
    desk.journal.record([opened()])
    cut_at = desk.store.end_offset
    desk.fill(20 << 10)
    await desk.restate()
    assert desk.journal.start.needed_offset >= cut_at
    desk.store.replica.open_for_master()
    desk.store.replica.cut(cut_at)
    desk.store.close()
    desk.open()
    desk.store.lineage.end_following()
    desk.journal.record([VersionBegun(T, number, 0) for number in range(5)])
    desk.store.close()
    desk.open()
    assert desk.ledger.require(T).open_version == 4


@awaited
async def test_what_was_read_under_a_lease_is_a_promise(desk: Desk) -> None:
    """A decision goes by it; what was read otherwise is only told."""
    for lease, is_promise in ((None, False), (7, True)):
        desk.journal.record([InputReported("q", 0, [InputRange("g", "t", "a", 0, 0, 5, lease=lease)])])
        await desk.journal.flushed()
        assert (desk.store.flushed_offset == desk.store.end_offset) is is_promise


DECISION = Decided(T, 1, 0, TxnDecision("q", {"a": [HeldAttempt()]}), 0, "driver")


@pytest.mark.parametrize(
    ("event", "is_promise"),
    [
        (RunOpened(T, "q", "r2", 2, 0), True),  # an epoch is handed out once
        (EpochClosed(T, 1, 0, 0, "driver"), True),  # what a driver was told is closed stays closed
        (DECISION, True),  # what was decided stays
        (VersionBegun(T, 1, 0), False),
        (BrokerCompleted(T, 0, "a", []), False),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bool) else str(value),
)
def test_what_answers_rest_on_is_on_disk_first(desk: Desk, event: Event, is_promise: bool) -> None:
    """In every flush mode; what can be found out again costs no flush."""
    for each in (opened(), event):
        desk.journal.record([each])
        asyncio.run(desk.journal.flushed())
    assert (desk.store.flushed_offset == desk.store.end_offset) is is_promise


@awaited
async def test_a_lost_tail_is_survived(desk: Desk) -> None:
    """What nobody was told may be gone, and what comes after it is taken."""
    desk.journal.record([opened()])
    await desk.journal.flushed()
    desk.journal.record([opened(2)])
    desk.lose_power()
    assert desk.ledger.require(T).epoch in (1, 2)
    desk.journal.record([opened(3)])
    await desk.journal.flushed()
    desk.lose_power()
    assert desk.ledger.require(T).epoch == 3


@awaited
async def test_flushing_is_waited_for_only_where_something_was_promised(desk: Desk) -> None:
    """Events that no answer rests on cost no fsync."""
    await desk.journal.flushed()
    before = desk.store.flushed_offset
    desk.journal.record([VersionBegun(T, 0, 0)])
    await desk.journal.flushed()
    assert desk.store.flushed_offset == before


@awaited
async def test_a_failed_fsync_is_told(desk: Desk) -> None:
    """Nobody is promised what may not be on the disk."""
    desk.journal.record([opened()])
    desk.files.fail_next("fsync")
    with pytest.raises(NotWritable):
        await desk.journal.flushed()


def test_an_event_too_large_changes_nothing(desk: Desk) -> None:
    """A decision with more attempts than fit is refused as a whole."""
    attempts = [HeldAttempt(number, f"attempt-{number}") for number in range(200)]
    decided = Decided(T, 1, 0, TxnDecision("q", {"a": attempts}), 0, "driver")
    with pytest.raises(InvalidMessage, match="over the limit"):
        desk.journal.record([opened(), decided])
    assert (T in desk.ledger, desk.store.queues.max_offset(TXN_LEDGER_TOPIC, 0)) == (False, 0)


@pytest.mark.parametrize(("output_bytes", "fits"), [(7_000, True), (8_000, False)])
def test_a_decision_leaves_room_for_where_its_rows_go(desk: Desk, output_bytes: int, fits: bool) -> None:
    """One whose output ranges would not fit the event that tells of it is refused before anything is readable."""
    decided = Decided(T, 1, 0, TxnDecision("q", {"a": [HeldAttempt()]}), 0, "driver", output_bytes)
    with contextlib.nullcontext() if fits else pytest.raises(InvalidMessage, match="fewer topics or queues"):
        desk.journal.record([opened(), decided])
    assert (T in desk.ledger) is fits


def test_a_limit_that_was_lowered_holds_up_no_decision() -> None:
    """Where the rows of one that was made before went is told whatever the limit is by now: what cannot be finished
    would keep the coordinator from all that comes behind it in a round."""
    desk = Desk(replace(CONFIG, mapped_file_size_commit_log=1 << 20))
    desk.journal.record([opened(), decided(0)])
    desk.store.close()
    desk.config = replace(desk.config, max_message_size=1_000)
    desk.open()
    outputs = [OutputRange("topic", "a", queue_id, 0, 1) for queue_id in range(3_000)]
    desk.journal.record(desk.ledger.completed(T, 0, {"a": outputs}))
    assert desk.ledger.require(T).pending == []


@awaited
async def test_an_idle_id_survives_the_retention_of_the_log(desk: Desk) -> None:
    """Weeks later the files its events were in are gone, and it is still known."""
    desk.journal.record([opened()])
    await desk.journal.flushed()
    for _ in range(6):
        desk.fill(20 << 10)
        desk.store.flush()
        await desk.restate()
        desk.clock.advance(hours=24)
        desk.expire()
    assert desk.store.queues.min_offset(TXN_LEDGER_TOPIC, 0) > 0
    desk.lose_power()
    assert desk.ledger.require(T).epoch == 1


@awaited
async def test_a_ledger_that_has_expired_is_missed(desk: Desk) -> None:
    """RocketMQ's broker, which has served from the store meanwhile, knows nothing of what has to stay. Where all is as
    it should be, nothing is said."""

    def missed() -> bool:
        desk.store.close()
        with capture_logs() as logs:
            desk.open()
        return any(entry["event"].startswith("the ledger may lack its beginning") for entry in logs)

    desk.journal.record([opened()])
    desk.fill(20 << 10)
    await desk.restate()
    desk.fill(40 << 10)
    desk.clock.advance(hours=24)
    desk.expire()
    assert (missed(), T in desk.ledger) == (False, True)
    desk.store.checkpoint()
    for _ in range(9):
        desk.store.expire(desk.clock.now_ms())
    assert (missed(), T in desk.ledger) == (True, False)


@awaited
async def test_an_audit_goes_back_as_far_as_the_log(desk: Desk) -> None:
    """Batches whose records have expired are told of no more; those that came since are."""
    rollout = Rollout(desk.ledger, pytest.fail, desk.clock, lambda: pytest.fail("nothing is completed"))
    reports = Reports("a", desk.ledger, desk.journal.queue, rollout, Uptime(desk.clock, 0))

    def told() -> list[int]:
        return [batch.version for batch in reports.batches(T, None, 100, None).batches]

    desk.journal.record([opened()])
    for version in range(3):
        desk.journal.record([decided(version)])
        desk.journal.record(desk.ledger.completed(T, version, {"a": []}))
    assert told() == [0, 1, 2]
    desk.fill(20 << 10)
    await desk.restate()
    desk.clock.advance(hours=2)
    desk.expire()
    assert told() == []
    desk.journal.record([decided(3)])
    assert told() == [3]


@awaited
async def test_nothing_needed_expires_before_it_is_restated(desk: Desk) -> None:
    """However old its file is, and however full the disk."""
    desk.journal.record([opened()])
    await desk.journal.flushed()
    desk.fill(60 << 10)
    desk.clock.advance(hours=1_000)
    for _ in range(9):
        desk.expire()
    desk.lose_power()
    assert desk.ledger.require(T).epoch == 1


@awaited
async def test_a_power_loss_while_restating_loses_nothing(desk: Desk) -> None:
    """The old events stay needed until the new ones are on disk."""
    for number in range(40):
        desk.journal.record([opened(1, f"t{number}")])
    await desk.journal.flushed()
    desk.fill(20 << 10)
    restating = asyncio.ensure_future(desk.restate())
    await asyncio.sleep(0)
    restating.cancel()
    desk.clock.advance(hours=100)
    desk.expire()
    desk.lose_power()
    assert len(list(desk.ledger)) == 40


@pytest.mark.parametrize(("ids", "enough_events"), [(300, 1_000), (30, 20)], ids=["bytes", "events"])
def test_restating_does_not_make_itself_due(monkeypatch: pytest.MonkeyPatch, ids: int, enough_events: int) -> None:
    """Where what is alive is more than makes it due: it is due when as much again has been written."""
    monkeypatch.setattr(restate_times, "_AFTER_EVENTS", enough_events)
    desk = Desk()
    desk.journal.record([opened(1, f"t{number}") for number in range(ids)])
    asyncio.run(desk.restate())
    start, end = desk.journal.start.needed_offset, desk.store.end_offset
    for _ in range(3):
        asyncio.run(desk.restate())
    assert (desk.journal.start.needed_offset, desk.store.end_offset) == (start, end)
    for epoch in range(2, 6):
        desk.journal.record([opened(epoch, f"t{number}") for number in range(ids)])
    asyncio.run(desk.restate())
    assert desk.journal.start.needed_offset > end


@awaited
async def test_a_restating_that_fails_is_tried_later_and_later(desk: Desk) -> None:
    """Each try may write all there is: a disk that refuses it is not filled up by trying, and the log says so once."""
    desk.journal.record([opened()])
    desk.fill(20 << 10)
    start, ends = desk.journal.start.needed_offset, set[int]()
    flush_to = desk.journal._flush_to

    async def full(end_offset: int) -> None:
        raise NotWritable("the disk is full")

    desk.journal._flush_to = full
    with capture_logs() as logs:
        for _ in range(200):
            await desk.restate()
            ends.add(desk.store.end_offset)
            desk.clock.advance(seconds=1)
    assert (len(ends), desk.journal.start.needed_offset) == (3, start)  # at once, after one minute, and after two more
    assert [line["log_level"] for line in logs] == ["warning"]
    desk.journal._flush_to = flush_to
    desk.clock.advance(hours=1)
    await desk.restate()
    assert desk.journal.start.needed_offset > start


@awaited
async def test_a_rest_ends_when_the_log_has_grown(desk: Desk) -> None:
    """What the ledger pins must not fill the disk while it rests."""
    desk.journal.record([opened()])
    desk.fill(20 << 10)
    start, flush_to = desk.journal.start.needed_offset, desk.journal._flush_to

    async def full(end_offset: int) -> None:
        raise NotWritable("the disk is full")

    desk.journal._flush_to = full
    await desk.restate()
    desk.journal._flush_to = flush_to
    await desk.restate()
    assert desk.journal.start.needed_offset == start
    desk.fill(20 << 10)
    await desk.restate()
    assert desk.journal.start.needed_offset > start


@awaited
async def test_a_disk_that_ran_full_while_the_ledger_could_not_be_restated_is_made_room_on(desk: Desk) -> None:
    """Messages are refused before the disk is quite full: what is left is for this, and then old files may go."""
    desk.journal.record([opened()])
    flush_to = desk.journal._flush_to

    async def slow(end_offset: int) -> None:
        raise FlushTimeout("not on disk in time")

    desk.journal._flush_to = slow
    desk.fill(60 << 10)
    await desk.restate()
    desk.journal._flush_to = flush_to
    desk.files.set_budget(int((desk.files.disk_usage().total_bytes - desk.files.disk_usage().free_bytes) / 0.95))
    desk.expire()
    with pytest.raises(NotWritable, match="The disk is full"):
        desk.fill(1)
    desk.clock.advance(hours=1)
    await desk.restate()
    for _ in range(9):
        desk.expire()
    desk.fill(1)
    desk.lose_power()
    assert desk.ledger.require(T).epoch == 1


@awaited
async def test_what_was_restated_counts_once_a_slow_disk_has_it(desk: Desk) -> None:
    """On one that takes longer than a sender would wait the ledger would pin the log for ever, and fill it."""
    desk.journal.record([opened()])
    desk.fill(20 << 10)
    start = desk.journal.start.needed_offset

    async def slow(end_offset: int) -> None:
        raise FlushTimeout("not on disk in time")

    desk.journal._flush_to = slow
    await desk.restate()
    restated_end = desk.store.end_offset
    await desk.restate()
    assert (desk.journal.start.needed_offset, desk.store.end_offset) == (start, restated_end)
    desk.journal._flush_to = desk.flush
    desk.fill(1)
    await desk.restate()
    assert start < desk.journal.start.needed_offset < restated_end
    desk.expire()
    desk.lose_power()
    assert desk.ledger.require(T).epoch == 1


@pytest.mark.parametrize("absence", [SlaveNotAvailable, FlushSlaveTimeout])
def test_no_slave_is_waited_for_before_files_go(desk: Desk, absence: type[FlushTimeout]) -> None:
    """While one is away, for days perhaps, senders go on: a disk on which nothing may go any more runs full. What was
    restated is on the disk all the same."""
    desk.journal.record([opened()])
    desk.fill(20 << 10)
    start = desk.journal.start.needed_offset

    async def without_slave(end_offset: int) -> None:
        await desk.flush(end_offset)
        raise absence("Stored, but not on a slave.")

    desk.journal._flush_to = without_slave
    asyncio.run(desk.restate())
    assert desk.journal.start.needed_offset > start
    desk.expire()
    desk.lose_power()
    assert desk.ledger.require(T).epoch == 1


@awaited
async def test_nothing_is_restated_after_a_failed_fsync(desk: Desk) -> None:
    """Nobody can say what would be on the disk then."""
    desk.journal.record([opened()])
    desk.fill(20 << 10)
    desk.files.fail_next("fsync")
    with pytest.raises(NotWritable):
        await desk.journal.flushed()
    end, start = desk.store.end_offset, desk.journal.start.needed_offset
    desk.clock.advance(hours=1)
    await desk.restate()
    assert (desk.store.end_offset, desk.journal.start.needed_offset) == (end, start)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_lost_note_of_the_start_costs_time_only(desk: Desk, is_there: bool) -> None:
    """Without config/txnLedger.json, or where it is damaged with its copy, the whole topic is read."""
    desk.journal.record([opened()])
    desk.fill(20 << 10)
    asyncio.run(desk.restate())
    desk.store.flush()
    for name in ("txnLedger.json", "txnLedger.json.bak"):
        if desk.files.exists(f"store/config/{name}"):
            desk.files.unlink(f"store/config/{name}")
        if is_there:
            write_whole(desk.files, f"store/config/{name}", b"")
    desk.files.kill()
    desk.open()
    assert desk.ledger.require(T).epoch == 1


def test_a_strange_event_is_not_stepped_over(desk: Desk) -> None:
    """A broker does not start with half a ledger."""
    desk.store.append([Draft(TXN_LEDGER_TOPIC, 0, encode_record(topic=TXN_LEDGER_TOPIC, body=b'{"event":"new"}'))])
    with pytest.raises(DamagedFile, match="later version"):
        desk.journal.replay()


@pytest.mark.parametrize("place", [b'"version":7', b'"event":"decided"'])
def test_a_damaged_event_is_not_believed(desk: Desk, place: bytes) -> None:
    """A bit that rotted on the disk must not change what was decided: the broker says so instead of starting."""
    desk.journal.record([opened(), Decided(T, 1, 7, TxnDecision("q"), 0, "driver")])
    desk.store.close()
    log = desk.files.open("store/commitlog/00000000000000000000")
    log.pwrite(b"0", log.pread(1 << 14, 0).index(place) + len(place) - 1)
    log.close()
    with pytest.raises(DamagedFile, match="Event 1 of RMQ_SYS_TXN_LEDGER_TOPIC"):
        desk.open()
