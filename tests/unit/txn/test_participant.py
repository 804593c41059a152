"""A participant of transactions: what it takes, what it answers, what becomes readable."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark.broker.transactions.participation import verdict
from rmqspark.errors import (
    Busy,
    DamagedFile,
    Fenced,
    ForgedEpoch,
    RequestTimeout,
    RmqError,
    TransactionError,
    TwoCoordinators,
    Unreachable,
)
from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt, TxnDecision
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.record import SysFlag
from rmqspark.txn.coordinator.coordinator import Ruling
from rmqspark.txn.coordinator.ledger import Answer
from rmqspark.txn.participant import completion_steps
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.hearsay import Verdict
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.participant_events import Completed, CompletionBegun
from rmqspark.txn.ports import Complete, Remembered

from .participant_bench import SMALL, ParticipantBench, Sent, T, make_half, other_message, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.store.flush import FlushPlan

N0, N1 = (Batch(T, 1, version) for version in range(2))


@pytest.fixture
def bench() -> ParticipantBench:
    return ParticipantBench()


# --- the way of a micro-batch


def test_nothing_is_readable_before_it_is_committed(bench: ParticipantBench) -> None:
    """What is sent is readable when it is committed, not before; once, and in the order of partitions and sequences."""
    second = bench.send(N0, Sent("t", 0, [b"21", b"22"]), Sent("u", 1, [b"23"]), partition=1)
    first = bench.send(N0, Sent("t", 0, [b"1", b"222"]), Sent("t", 0, [b"13"]))
    assert bench.vote(N0, first, second) == ""
    assert (bench.bodies("t"), bench.bodies("u", 1)) == ([], [])
    assert bench.commit(N0, second, first) == [("t", 0, 0, 5), ("u", 1, 0, 1)]
    assert bench.bodies("t") == [b"1", b"222", b"13", b"21", b"22"]
    assert bench.bodies("u", 1) == [b"23"]
    assert bench.held() == []
    assert bench.commit(N0, second, first) == [("t", 0, 0, 5), ("u", 1, 0, 1)]
    assert len(bench.bodies("t")) == 5


def test_messages_say_that_they_are_committed(bench: ParticipantBench) -> None:
    """A message carries RocketMQ's mark of a committed one, and where its half batch lies; keys find it."""
    attempt = bench.send(N0, Sent("t", 0, [b"1", b"22"]))
    half = next(bench.participant.held())
    bench.commit(N0, attempt)
    for record in bench.records("t"):
        assert (record.sys_flag, record.prepared_transaction_offset) == (SysFlag.COMMITTED, half.physical_offset)
        assert record.store_host == bench.records("t")[0].store_host != bytes(8)
    assert len(bench.store.query("t", "22", 0, 1 << 60, 8)) == 1


def test_readers_see_a_transaction_at_once(bench: ParticipantBench) -> None:
    """While it is appended nobody sees a part of it, and what others send meanwhile keeps its place behind."""
    attempt = bench.send(N0, *(Sent("t", 0, [b"%d" % number] * 3) for number in range(5)), Sent("u", 0, [b"u"]))
    bench.vote(N0, attempt)
    seen: list[int] = []

    def look() -> None:
        seen.append(len(bench.bodies("t")) + len(bench.bodies("u")))
        bench.store.writer.append_parts("t", 0, *other_message())

    assert bench.commit(N0, attempt, each_step=look)[0] == ("t", 0, 0, 15 + 4)
    assert seen == [0] * 6
    assert [body for body in bench.bodies("t") if body != b"other"] == [b"%d" % (n // 3) for n in range(15)]
    assert bench.bodies("t").count(b"other") == 6


def test_a_flush_amid_a_transaction_publishes_no_part_of_it() -> None:
    """With SYNC_FLUSH others wait for the disk meanwhile: what is flushed for them has a part of it."""
    bench = ParticipantBench(replace(SMALL, mapped_file_size_commit_log=1 << 20, flush_disk_type="SYNC_FLUSH"))
    attempt = bench.send(N0, *(Sent(topic, 0, [b"%d" % n] * 3) for n in range(4) for topic in ("t", "u")))
    assert bench.vote(N0, attempt) == ""
    flushes: list[FlushPlan] = []
    seen: list[int] = []

    def others_wait() -> None:
        bench.store.writer.append_parts("t", 1, *other_message())
        flushes.extend(plan for plan in [bench.store.flusher.begin()] if plan is not None)

    async def flushed(end_offset: int) -> None:
        for plan in flushes:
            plan.run()
            bench.store.flusher.finish(plan)
            seen.append(len(bench.bodies("t")) + len(bench.bodies("u")))
        bench.store.flush()

    bench.disk.flushed = flushed  # type: ignore[method-assign]
    bench.commit(N0, attempt, durable=True, each_step=others_wait)
    assert seen == [0]
    assert (len(bench.bodies("t")), len(bench.bodies("u"))) == (12, 12)
    assert bench.bodies("t", 1) == [b"other"] * 5


def test_small_half_batches_are_appended_together(bench: ParticipantBench) -> None:
    """Many tasks with few rows each cost one append: every queue gets them in the order of tasks, and each message
    names the half batch that it came in."""
    attempts = []
    for partition in (0, 1):
        rows_for = [
            Sent("t", queue_id, [b"%d%d%d" % (partition, queue_id, row) for row in (0, 1)]) for queue_id in (1, 0)
        ]
        others = [Sent("u", 0, [b"record"]), Sent("u", 0, [b"record"])]
        sent = [others[0], rows_for[0], others[1], rows_for[1]]  # every other one is sent as rows
        attempts.append(bench.send(N0, *sent, partition=partition, attempt=f"a{partition}"))
    ends: list[int] = []
    outputs = bench.commit(N0, *attempts, each_step=lambda: ends.append(bench.store.end_offset))
    assert outputs == [("t", 0, 0, 4), ("t", 1, 0, 4), ("u", 0, 0, 4)]
    assert len(ends) == 1 + 4, "all rows at once, records one half batch after the other"
    for queue_id in (0, 1):
        records = bench.records("t", queue_id)
        assert [record.body for record in records] == [b"%d%d%d" % (p, queue_id, row) for p in (0, 1) for row in (0, 1)]
        places = [record.prepared_transaction_offset for record in records]
        assert places[0] == places[1] < places[2] == places[3]
    assert len({record.prepared_transaction_offset for queue in (0, 1) for record in bench.records("t", queue)}) == 4


def test_no_step_takes_more_half_batches_than_others_can_wait_for(
    bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few rows they have. Their order in the queue stays."""
    monkeypatch.setattr(completion_steps, "MOST_APPENDED_TOGETHER", 4)
    attempts = [
        bench.send(N0, Sent("u", 0, [b"record"]), Sent("t", 0, [b"%d" % number]), partition=number)
        for number in range(10)
    ]
    ends: list[int] = []
    bench.commit(N0, *attempts, each_step=lambda: ends.append(bench.store.end_offset))
    assert len(set(ends)) == 3 + 10, "rows by fours, records one half batch after the other"
    assert bench.bodies("t") == [b"%d" % number for number in range(10)]


def test_large_transaction_is_published_in_steps(bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction too large to keep others waiting for becomes readable in steps, each of whole half batches."""
    monkeypatch.setattr(completion_steps, "PUBLISHED_TOGETHER_BYTES", 1000)
    attempt = bench.send(N0, *(Sent("t", 0, [b"%d" % number] * 3) for number in range(6)))
    seen: list[int] = []
    bench.commit(N0, attempt, each_step=lambda: seen.append(len(bench.bodies("t"))))
    assert seen == [0, 0, 0, 9, 9, 9]
    assert len(bench.bodies("t")) == 18


def test_half_batches_are_read_while_those_before_are_written(
    bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first, whichever become readable together: the disk never waits for what could have been made."""
    monkeypatch.setattr(completion_steps, "PUBLISHED_TOGETHER_BYTES", 1000)
    attempt = bench.send(N0, *(Sent("t", 0, [b"%d" % number] * 3) for number in range(6)))
    read_beside: list[int] = []  # bytes, of each write

    def begin(work: Callable[[], object]) -> Callable[[], object]:
        work()
        before = bench.files.bytes_read
        return lambda: read_beside.append(bench.files.bytes_read - before)

    bench.store.write_beside(begin)
    bench.commit(N0, attempt)
    assert [size > 0 for size in read_beside] == [True] * 5 + [False]
    assert len(bench.bodies("t")) == 18


def test_same_half_batch_again(bench: ParticipantBench) -> None:
    """Sent again, a half batch is held once; something else under its name is refused."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"]))
    end = bench.store.end_offset
    assert bench.send(N0, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"])) == attempt
    assert bench.store.end_offset == end
    with pytest.raises(TransactionError, match="other content"):
        bench.send(N0, Sent("t", 0, [b"3"]))
    bench.kill()
    assert bench.send(N0, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"])) == attempt
    bench.vote(N0, attempt)
    assert bench.send(N0, Sent("t", 0, [b"1"])).halves == 1
    bench.commit(N0, attempt)
    assert bench.bodies("t") == [b"1", b"2"]


@pytest.mark.parametrize("index", [True, False])
def test_tags_and_keys(index: bool) -> None:
    """Messages of half batches are found by their tags and keys, those without tags by their keys."""
    bench = ParticipantBench(replace(SMALL, message_index_enable=index))
    attempt = bench.send(N0, Sent("t", 0, [b"1", b"2"]), Sent("t", 0, [b"3", b"444"], tags="red"))
    bench.kill()
    bench.commit(N0, attempt)
    for _ in range(2):
        found = bench.store.read("t", 0, 0, max_count=9, max_bytes=9999, tag_codes=frozenset({tags_code("red")}))
        assert found.count == 2
        assert len(bench.store.query("t", "444", 0, 1 << 60, 9)) == index
        assert len(bench.store.query("t", "2", 0, 1 << 60, 9)) == index
        bench.kill()


@pytest.mark.parametrize("index", [True, False])
def test_damaged_half_batch(index: bool) -> None:
    """What the disk has spoiled is not appended, and not taken for done."""
    bench = ParticipantBench(replace(SMALL, message_index_enable=index))
    attempt = bench.send(N0, Sent("t", 0, [b"1", b"2", b"3"]))
    bench.vote(N0, attempt)
    half = next(bench.participant.held())
    file = bench.files.within("store").open("commitlog/00000000000000000000")
    file.pwrite(b"\x07", half.body_offset + half.record_size + 3)
    for _ in range(2):
        with pytest.raises(DamagedFile, match="is damaged"):
            bench.commit(N0, attempt)
        assert bench.bodies("t") == []


# --- votes


@pytest.mark.parametrize(
    ("change", "story"),
    [
        ({"halves": 3}, "2 half batches are held instead of 3"),
        ({"rows": 4}, "3 rows"),
        ({"bytes": 1}, "bytes are held instead of 1"),
        ({"digest": 5}, "checksums are held instead of 5"),
        ({"attempt": "b"}, "0 half batches"),
        ({"partition": 7}, "partition 7, 0 half batches"),
    ],
)
def test_vote_against_what_is_not_held(bench: ParticipantBench, change: dict[str, object], story: str) -> None:
    """The answer is no, in words, unless exactly this is held; and then nothing is pinned."""
    attempt = bench.send(N0, Sent("t", 0, [b"1", b"2"]), Sent("t", 0, [b"3"]))
    for name, value in change.items():
        setattr(attempt, name, value)
    assert story in bench.vote(N0, attempt)
    assert not bench.participant.has_voted(N0)


def test_a_vote_for_nothing_pins_nothing(bench: ParticipantBench) -> None:
    """Who names no attempt gets a no: a yes would be remembered for good, and hold up all later versions."""
    assert "no attempt" in bench.vote(N0)
    attempt = bench.send(N1, Sent("t", 0, [b"1"]))
    assert bench.vote(N1, attempt) == ""
    assert bench.commit(N1, attempt) == [("t", 0, 0, 1)]


def test_vote_against_a_gap(bench: ParticipantBench) -> None:
    """Figures that agree do not hide that half batches are numbered with a gap."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), first_sequence=1)
    assert "missing in between" in bench.vote(N0, attempt)


def test_vote_is_on_disk(bench: ParticipantBench) -> None:
    """What was voted for survives a power loss, whatever the flush mode; what was not, need not."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
    assert bench.vote(N0, attempt) == ""
    bench.send(N1, Sent("t", 0, [b"3"]))
    bench.lose_power()
    assert {name.batch for name in bench.held()} == {N0}
    assert bench.participant.has_voted(N0)
    assert bench.vote(N0, attempt) == ""
    bench.commit(N0, attempt, durable=True)
    bench.lose_power()
    assert (bench.bodies("t"), bench.bodies("u")) == ([b"1"], [b"2"])
    assert bench.commit(N0, attempt) == [("t", 0, 0, 1), ("u", 0, 0, 1)]


def test_vote_tells_a_completion_that_was_lost(bench: ParticipantBench) -> None:
    """A completion that is not on disk may be gone after a power loss: the next vote says so, and it is done again."""
    first = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.vote(N0, first)
    bench.commit(N0, first)
    bench.lose_power()
    second = bench.send(N1, Sent("t", 0, [b"2"]))
    assert bench.vote(N1, second, completed=0) == "Version 0 is not complete here."
    bench.commit(N0, first)
    assert bench.vote(N1, second, completed=0) == ""
    bench.commit(N1, second)
    assert bench.bodies("t") == [b"1", b"2"]


def test_what_is_dropped_during_the_flush_gets_no_yes(bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vote waits for the disk; what its coordinator gives up meanwhile is promised no more."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]))

    async def drop_meanwhile(end_offset: int) -> None:
        monkeypatch.undo()
        bench.drop(N0)

    monkeypatch.setattr(bench.disk, "flushed", drop_meanwhile)
    assert "0 half batches are held" in bench.vote(N0, attempt)


def test_voted_for_is_closed(bench: ParticipantBench) -> None:
    """To what was voted for nothing is added."""
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    with pytest.raises(Fenced):
        bench.send(N0, Sent("t", 0, [b"2"]), first_sequence=1)


# --- who may still write


def test_late_half_batches(bench: ParticipantBench) -> None:
    """After a version was completed nothing more is taken of it or of older ones, also after a restart."""
    attempt = bench.send(N1, Sent("t", 0, [b"1"]))
    bench.commit(N1, attempt)
    for _ in range(2):
        for late in (N0, N1):
            with pytest.raises(Fenced, match="Nothing more is taken of version"):
                bench.send(late, Sent("t", 0, [b"1"]))
        bench.kill()
    assert bench.commit(N1, attempt) == [("t", 0, 0, 1)]
    assert bench.bodies("t") == [b"1"]


@pytest.mark.parametrize("version", [0, 1])
def test_what_a_coordinator_was_made_to_forget(bench: ParticipantBench, version: int) -> None:
    """One that was set back, or took the place of one that is gone for good, has a batch written that is committed
    here, each time the query is started: who reads why knows what to do."""
    bench.commit(N1, bench.send(N1, Sent("t", 0, [b"1"])))
    with pytest.raises(TransactionError, match="was committed here before.*under a new transactionalId") as told:
        bench.send(Batch(T, 2, version), Sent("t", 0, [b"1"]))
    assert not isinstance(told.value, Fenced)


def test_what_a_coordinator_is_told_that_knows_less() -> None:
    """A version counts as completed from the beginning on: no crash keeps its rows from becoming readable."""
    participant, told = Participant(max_halves=1, max_bytes=1), list[Remembered]()
    for place, event in enumerate((CompletionBegun(T, 7, 3, []), Completed(T, 7, 3, []), CompletionBegun(T, 7, 4, []))):
        participant.apply(event, place)
        told.append(participant.remembered(T))
    assert told == [Remembered(completed=3), Remembered(7, 3), Remembered(7, 4)]
    assert participant.remembered("another") == Remembered()


def test_older_epoch(bench: ParticipantBench) -> None:
    """A run that was cut off can write nothing once the one that took over has."""
    bench.send(Batch(T, 2, 0), Sent("t", 0, [b"2"]))
    with pytest.raises(Fenced):
        bench.send(N0, Sent("t", 0, [b"1"]))
    bench.send(Batch("another", 1, 0), Sent("t", 0, [b"1"]))


def test_dropped_version(bench: ParticipantBench) -> None:
    """A version that was given up takes nothing more under its epoch, but under the next one it does."""
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    bench.drop(N0)
    for _ in range(2):
        assert bench.held() == []
        with pytest.raises(Fenced):
            bench.send(N0, Sent("t", 0, [b"1"]))
        bench.kill()
    again = Batch(T, 2, 0)
    attempt = bench.send(again, Sent("t", 0, [b"1"]))
    bench.drop(N0)  # comes once more
    assert bench.vote(again, attempt) == ""
    bench.commit(again, attempt)
    assert bench.bodies("t") == [b"1"]


@pytest.mark.parametrize("dropped", [N1, Batch(T, 2, 1)])
def test_a_drop_counts_for_what_is_still_under_way(bench: ParticipantBench, dropped: Batch) -> None:
    """Where nothing is held of it, too, and after a restart; said once more it is nothing new."""
    bench.commit(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    bench.drop(dropped)
    for _ in range(2):
        end_offset = bench.store.end_offset
        for late in (N1, dropped):
            with pytest.raises(Fenced):
                bench.send(late, Sent("t", 0, [b"2"]))
            bench.drop(late)
        bench.drop(N0._replace(epoch=dropped.epoch))
        assert bench.store.end_offset == end_offset
        bench.kill()
    bench.send(dropped._replace(version=2), Sent("t", 0, [b"3"]))


def test_forged_epoch_shuts_nobody_out(bench: ParticipantBench) -> None:
    """While the coordinator cannot be asked, half batches under an invented epoch are taken; they fence nobody, and
    are gone once it was asked."""
    forged = Batch(T, 1 << 60, 0)
    bench.verdicts[forged] = Unreachable("It is away.", address="")
    run(bench.resolver.hearsay.introduce(forged))
    half, body = make_half(forged, 0, "a", 0, Sent("t", 0, [b"x"]))
    bench.resolver.take(half, memoryview(body))
    kept = bench.send(N0, Sent("t", 0, [b"1"]))
    assert bench.vote(N0, kept) == ""
    bench.verdicts[forged] = Verdict(is_open=False)
    bench.check_back(seconds=6)
    assert {name.batch for name in bench.held()} == {N0}
    bench.commit(N0, kept)
    bench.commit(N1, bench.send(N1, Sent("t", 0, [b"2"])))
    assert bench.bodies("t") == [b"1", b"2"]


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Verdict(is_open=True, newest_epoch=2), None),
        (Verdict(is_open=True), None),
        (RequestTimeout("No answer."), None),
        (Verdict(is_open=False, newest_epoch=3), Fenced),
        (Verdict(is_open=False, newest_epoch=2), Fenced),
        (Verdict(is_open=False, newest_epoch=1), ForgedEpoch),
        (Verdict(is_open=False), ForgedEpoch),
    ],
)
def test_a_new_epoch_is_what_its_coordinator_says(
    bench: ParticipantBench, verdict: Verdict | RmqError, error: type[RmqError] | None
) -> None:
    """It is refused if it was never handed out, or is over. Only one that was handed out fences older runs."""
    new = Batch(T, 2, 0)
    bench.verdicts[new] = verdict
    with pytest.raises(error) if error else contextlib.nullcontext():
        run(bench.resolver.hearsay.introduce(new))
    is_handed_out = verdict == Verdict(is_open=True, newest_epoch=2)
    assert bench.resolver.hearsay.is_announced(new) is is_handed_out
    assert bench.participant.is_fenced(N0) is is_handed_out


@pytest.mark.parametrize("bounds", [{"max_halves": 2}, {"max_bytes": 250}])
def test_bounds(bounds: dict[str, int]) -> None:
    """What a broker holds has bounds; beyond them senders are told to try later, when there may be room again."""
    bench = ParticipantBench(**bounds)
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"]))
    with pytest.raises(Busy, match="2 half batches"):
        bench.send(N1, Sent("t", 0, [b"3"]))
    bench.commit(N0, attempt)
    bench.send(N1, Sent("t", 0, [b"3"]))


# --- order


def test_older_version_comes_first(bench: ParticipantBench) -> None:
    """A version is not completed before an older one that was voted for; it is asked about at once instead."""
    first = bench.send(N0, Sent("t", 0, [b"1"]))
    second = bench.send(N1, Sent("t", 0, [b"2"]))
    bench.vote(N0, first)
    bench.vote(N1, second)
    with pytest.raises(Busy, match="version 0 of spark-1"):
        bench.commit(N1, second)
    assert bench.bodies("t") == []
    bench.verdicts[N0] = Verdict(is_open=False, attempts=[AttemptName(0, "a")])
    bench.check_back()
    assert bench.asked == [N0]
    bench.commit(N1, second)
    assert bench.bodies("t") == [b"1", b"2"]


@pytest.mark.parametrize("asked", [False, True])
def test_what_was_given_up_holds_up_no_later_version(bench: ParticipantBench, asked: bool) -> None:
    """Though it was voted for: the coordinator has it dropped, or says so when it is asked."""
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    if asked:
        bench.verdicts[N0] = Verdict(is_open=False)
        bench.check_back(seconds=7)
    else:
        bench.drop(N0)
    later = Batch(T, 2, 1)
    bench.commit(later, bench.send(later, Sent("t", 0, [b"2"])))
    assert bench.bodies("t") == [b"2"]


def test_a_broker_that_was_renamed_keeps_what_it_has_voted_for(bench: ParticipantBench) -> None:
    """The decision names it as it was called then. Under that name it completes it, and under another what it holds is
    all there is of these rows."""
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    decision = TxnDecision(participants={"broker-b": [HeldAttempt(0, "a")]})
    ruling = Ruling(Answer(TxnOutcome.COMMITTED, N0.epoch, N0.version, decision))
    bench.verdicts[N0] = verdict(N0, ruling, "broker-a")
    bench.check_back(seconds=7)
    assert {name.batch for name in bench.held()} == {N0}
    bench.verdicts[N0] = verdict(N0, ruling, "broker-b")
    bench.check_back(seconds=60)
    assert (bench.bodies("t"), bench.held()) == ([b"1"], [])


def test_a_broker_that_was_set_back_behind_its_vote_completes_what_was_complete(bench: ParticipantBench) -> None:
    """As a slave that was made the master, and lacks what the old one had stored last. Its coordinator has forgotten
    which attempts counted when that one had all on its disk."""
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])), bench.send(N0, Sent("u", 0, [b"2"]), partition=1))
    ruling = Ruling(Answer(TxnOutcome.COMMITTED, N0.epoch, N0.version, TxnDecision(participants={"broker-a": []})))
    bench.verdicts[N0] = verdict(N0, ruling, "broker-a")
    bench.check_back(seconds=7)
    assert (bench.bodies("t"), bench.bodies("u"), bench.held()) == ([b"1"], [b"2"], [])


def test_what_was_set_back_stays_in_doubt_where_attempts_cannot_be_told_apart(bench: ParticipantBench) -> None:
    """One of the two that sent the same partition counted."""
    bench.send(N0, Sent("t", 0, [b"twin"]), attempt="twin")
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    bench.verdicts[N0] = Verdict(is_open=False, was_here=True)
    bench.check_back(seconds=7)
    assert (bench.bodies("t"), len(bench.held())) == ([], 2)


def test_what_was_not_voted_for_goes_when_others_have_what_was_decided(bench: ParticipantBench) -> None:
    """An attempt that failed has sent rows to a broker that the one which counts has sent none to."""
    bench.send(N0, Sent("t", 0, [b"1"]))
    ruling = Ruling(Answer(TxnOutcome.COMMITTED, N0.epoch, N0.version, TxnDecision(participants={"broker-b": []})))
    bench.verdicts[N0] = verdict(N0, ruling, "broker-a")
    bench.check_back(seconds=7)
    assert bench.held() == []


def test_drop_spares_older_versions_voted_for(bench: ParticipantBench) -> None:
    """Only the coordinator's word for that very version drops what was voted for."""
    first = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.vote(N0, first)
    bench.send(N1, Sent("t", 0, [b"2"]))
    bench.drop(N1)
    assert {name.batch for name in bench.held()} == {N0}
    bench.commit(N0, first)
    assert bench.bodies("t") == [b"1"]


def test_commit_drops_twins(bench: ParticipantBench) -> None:
    """Of attempts that failed or came second nothing becomes readable, and nothing is left."""
    bench.send(N0, Sent("t", 0, [b"old"]))
    bench.send(N1, Sent("t", 0, [b"twin"]), attempt="b")
    zombie = Batch(T, 2, 1)
    kept = bench.send(N1, Sent("t", 0, [b"1"]))
    bench.send(zombie, Sent("t", 0, [b"zombie"]))
    later = bench.send(Batch(T, 2, 2), Sent("t", 0, [b"2"]))
    bench.commit(N1, kept)
    assert {name.batch for name in bench.held()} == {Batch(T, 2, 2)}
    bench.commit(Batch(T, 2, 2), later)
    assert bench.bodies("t") == [b"1", b"2"]


def test_committed_cannot_be_dropped(bench: ParticipantBench) -> None:
    """Two coordinators that contradict each other are refused, whoever comes second."""
    bench.send(N0, Sent("t", 0, [b"1"]))
    bench.completer.begin(N0, [(0, "a")])
    with pytest.raises(TransactionError, match="cannot be dropped"):
        bench.drop(N0)
    with pytest.raises(TransactionError, match="other attempts"):
        bench.commit(N0, HeldAttempt(0, "b"))


def test_version_committed_under_two_epochs(bench: ParticipantBench) -> None:
    """A second coordinator's decision for a version that is completed is refused, not answered as if it were done."""
    bench.commit(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    for _ in range(2):
        with pytest.raises(TwoCoordinators, match="under epoch 1"):
            bench.commit(Batch(T, 2, 0), HeldAttempt(0, "a"))
        bench.kill()
    assert bench.bodies("t") == [b"1"]


@pytest.mark.parametrize("attempt", ["a", "b"])
def test_commit_of_what_is_not_there(bench: ParticipantBench, attempt: str) -> None:
    """A decision for half batches that this broker does not hold is refused, and not answered as if it were done."""
    with pytest.raises(TransactionError, match="does not hold.*new transactionalId"):
        bench.commit(N0, HeldAttempt(0, attempt))
    bench.send(N0, Sent("t", 0, [b"1"]), first_sequence=1)
    with pytest.raises(TransactionError, match="does not hold"):
        bench.commit(N0, HeldAttempt(0, attempt))
    assert bench.bodies("t") == []


def test_commit_without_attempts_here(bench: ParticipantBench) -> None:
    """A broker that only failed attempts wrote to drops what they left; one that knows nothing has nothing to do."""
    assert bench.commit(N0) == []
    assert bench.store.end_offset == 0
    bench.send(N0, Sent("t", 0, [b"1"]))
    assert bench.commit(N0) == []
    assert (bench.held(), bench.bodies("t")) == ([], [])


def test_several_at_once(bench: ParticipantBench) -> None:
    """Transactions that are completed at the same time do not see each other; what is broken off is taken up again."""
    batches = [Batch(f"spark-{number}", 1, 0) for number in range(4)]
    attempts = [
        bench.send(batch, *(Sent("t", 0, [b"%s-%d" % (batch.transactional_id.encode(), n)]) for n in range(5)))
        for batch in batches
    ]
    requests = [
        Complete(*batch, True, [AttemptName(attempt.partition, attempt.attempt)])
        for batch, attempt in zip(batches, attempts, strict=True)
    ]

    async def complete_all() -> None:
        tasks = [asyncio.create_task(bench.resolver.complete(request)) for request in requests * 2]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tasks[0]
        outputs = await asyncio.gather(*tasks[1:])
        assert outputs[3:] == [*outputs[3:4], *outputs[:3]]

    asyncio.run(complete_all())
    found = bench.bodies("t")
    for batch in batches:
        mine = [body for body in found if body.startswith(batch.transactional_id.encode())]
        assert mine == [b"%s-%d" % (batch.transactional_id.encode(), n) for n in range(5)]
    assert len(found) == 20
