"""A participant left to itself: check-backs, missing topics, retention, what a start reads."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rmqspark.errors import Fenced, NotWritable, TopicNotFound, Unreachable
from rmqspark.protocol.bodies.txn import AttemptName, HeldAttempt, OutputRange
from rmqspark.store.config import StoreConfig
from rmqspark.txn.participant import journal as journal_module
from rmqspark.txn.participant import participant as participant_module
from rmqspark.txn.participant import retention as retention_module
from rmqspark.txn.participant.half_batch import Batch
from rmqspark.txn.participant.hearsay import Verdict
from rmqspark.txn.participant.participant_events import Completed

from .participant_bench import SMALL, ParticipantBench, Sent, T, other_message

N0 = Batch(T, 1, 0)


@pytest.fixture
def bench() -> ParticipantBench:
    return ParticipantBench()


# --- when nobody speaks of it


def test_asked_in_the_order_in_which_they_came(bench: ParticipantBench) -> None:
    """After a start, whatever the hash of their names: so that a run of the simulator is the same everywhere."""
    batches = [Batch(f"id-{number}", 1, 0) for number in (5, 3, 8, 1, 9, 2, 7)]
    for batch in batches:
        bench.send(batch, Sent("t", 0, [b"1"]))
    bench.reopen()
    bench.check_back(seconds=6)
    assert bench.asked == batches


def test_a_coordinator_that_hangs_keeps_no_other_waiting() -> None:
    """It costs a long timeout each: of dozens that are asked about after a start, all are at once."""

    class Hangs(ParticipantBench):
        async def _ask(self, batch: Batch) -> Verdict:
            self.asked.append(batch)
            await asyncio.Event().wait()
            raise AssertionError

    async def main() -> None:
        bench = Hangs()
        batches = [Batch(f"id-{number}", 1, 0) for number in range(100)]
        for batch in batches:
            bench.send(batch, Sent("t", 0, [b"1"]))
        bench.clock.advance(seconds=6)
        asking = asyncio.create_task(bench.resolver.check_back())
        for _ in range(10):
            await asyncio.sleep(0)
        assert bench.asked == batches
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(main())


def test_check_back(bench: ParticipantBench) -> None:
    """Coordinators are asked 6 s after the last half batch, then less and less often, at least once a minute."""
    bench.send(N0, Sent("t", 0, [b"1"]))
    bench.check_back(seconds=5)
    bench.send(N0, Sent("t", 0, [b"2"]), first_sequence=1)
    asked_at = []
    for second in range(6, 200):
        bench.check_back(seconds=1)
        if len(bench.asked) > len(asked_at):
            asked_at.append(second)
    assert asked_at == [11, 23, 47, 95, 155]
    bench.verdicts[N0] = Verdict(is_open=False)
    bench.check_back(seconds=60)
    assert bench.held() == []
    bench.check_back(seconds=600)
    assert len(bench.asked) == 6


def test_check_back_completes(bench: ParticipantBench) -> None:
    """What was committed and never completed is completed with no driver alive; after a restart at once."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.send(N0, Sent("t", 0, [b"2"]), attempt="twin")
    bench.vote(N0, attempt)
    bench.verdicts[N0] = Unreachable("nobody there", address="a:1")
    bench.lose_power()
    bench.check_back()
    assert len(bench.held()) == 2
    bench.verdicts[N0] = Verdict(is_open=False, attempts=[AttemptName(0, "a")])
    bench.check_back(seconds=12)
    assert (bench.bodies("t"), bench.held()) == ([b"1"], [])


def test_who_has_begun_to_commit_asks_nobody(bench: ParticipantBench) -> None:
    """The coordinator has spoken, and need not be there any more."""
    bench.vote(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    bench.completer.begin(N0, [(0, "a")])
    bench.verdicts[N0] = Unreachable("it is away", address="h")
    bench.check_back(seconds=7)
    assert (bench.bodies("t"), bench.asked) == ([b"1"], [])


@pytest.mark.parametrize(("mode", "durable"), [("SYNC_FLUSH", False), ("ASYNC_FLUSH", True), ("ASYNC_FLUSH", False)])
def test_what_is_complete_is_readable_and_on_disk_where_that_is_asked_for(mode: str, durable: bool) -> None:
    """With SYNC_FLUSH it is readable only when it is on disk, and so never complete before."""
    bench = ParticipantBench(replace(SMALL, flush_disk_type=mode))
    bench.commit(N0, bench.send(N0, Sent("t", 0, [b"1"])), durable=durable)
    assert bench.bodies("t") == [b"1"]
    is_on_disk = bench.store.flushed_offset == bench.store.end_offset
    assert is_on_disk == (durable or mode == "SYNC_FLUSH")


def test_a_late_word_drops_nothing_that_was_voted_for_since(bench: ParticipantBench) -> None:
    """Whoever asks before an epoch is handed out is told that it never was; by then a decision may rest on it."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.verdicts[N0] = Verdict(is_open=False)
    bench.meanwhile = lambda: bench.vote(N0, attempt)
    bench.check_back(seconds=6)
    bench.commit(N0, attempt)
    assert bench.bodies("t") == [b"1"]


def test_what_was_sent_again_after_a_dismissal_counts_once() -> None:
    """A start finds it in the log as often as it was sent, and there is room for as much as before."""
    bench = ParticipantBench(max_halves=2)
    bench.verdicts[N0] = Verdict(is_open=False)
    for _ in range(3):
        bench.send(N0, Sent("t", 0, [b"1"]))
        bench.check_back(seconds=7)
    bench.send(N0, Sent("t", 0, [b"1"]))
    bench.kill()
    assert (len(bench.held()), bench.participant.half_count) == (1, 1)
    assert bench.participant.half_bytes == sum(half.body_bytes for half in bench.participant.held())
    bench.check_back(seconds=7)
    assert (bench.participant.half_count, bench.participant.half_bytes) == (0, 0)
    bench.send(Batch(T, 2, 0), Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"]))


# --- topics and disks


def test_no_vote_for_a_topic_that_is_gone(bench: ParticipantBench) -> None:
    """Deleted while rows for it were on their way: the batch fails instead of blocking all that follow."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
    bench.targets = {"t"}
    assert "'u'" in bench.vote(N0, attempt)
    bench.targets = {"t", "u"}
    assert bench.vote(N0, attempt) == ""


def test_topic_that_takes_nothing(bench: ParticipantBench) -> None:
    """While a topic that nobody has deleted takes no messages, as without permission, nothing of a transaction is
    readable, and nothing lost; when it does again all of it is."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("u", 0, [b"2"]))
    bench.vote(N0, attempt)
    bench.targets = {"t"}
    for _ in range(2):
        with pytest.raises(TopicNotFound):
            bench.commit(N0, attempt)
        assert bench.bodies("t") == []
        bench.kill()
    bench.targets = {"t", "u"}
    bench.commit(N0, attempt)
    assert (bench.bodies("t"), bench.bodies("u")) == ([b"1"], [b"2"])


def test_write_back_begins_early() -> None:
    """Half batches are on their way to the disk before the vote asks for it: those of a small batch soon, those of a
    large one in ever larger pieces, and those of the next batch soon again."""
    bench = ParticipantBench(replace(SMALL, mapped_file_size_commit_log=1 << 25))
    hurried, attempt = [], HeldAttempt(0, "a")
    for sequence in range(8):
        sent = bench.send(N0, Sent("t", 0, [b"x" * (300 << 10)]), first_sequence=sequence)
        hurried.append(bench.disk.hurried)
        attempt.halves, attempt.rows = attempt.halves + sent.halves, attempt.rows + sent.rows
        attempt.bytes, attempt.digest = attempt.bytes + sent.bytes, attempt.digest + sent.digest
    assert hurried == [0, 1, 1, 1, 1, 2, 2, 2]  # after 512 KiB, then after 1 MiB more
    assert bench.vote(N0, attempt) == ""
    for sequence in (0, 1):
        bench.send(N0._replace(version=1), Sent("t", 0, [b"x" * (300 << 10)]), first_sequence=sequence)
    assert bench.disk.hurried == 3


# --- how long things are kept


def test_retention(bench: ParticipantBench) -> None:
    """What was voted for outlasts its time, the rest does not; a vote for what has expired is a no."""
    open_one = bench.send(N0, Sent("t", 0, [b"1"]))
    other = Batch("other", 1, 0)
    voted = bench.send(other, Sent("t", 0, [b"2"]))
    bench.vote(other, voted)
    for _ in range(2):
        fill_files(bench)
        bench.clock.advance(hours=bench.config.file_reserved_time + 1)
        bench.check_back()
        for _ in range(5):
            bench.store.expire(bench.clock.now_ms(), keep_from=bench.resolver.needed_offset())
        bench.check_back()
    assert [name.batch for name in bench.held()] in ([other], [other, N0])
    bench.commit(other, voted)
    fill_files(bench)
    bench.clock.advance(hours=bench.config.file_reserved_time + 1)
    bench.check_back()
    for _ in range(5):
        bench.store.expire(bench.clock.now_ms(), keep_from=bench.resolver.needed_offset())
    bench.check_back()
    assert bench.held() == []
    assert "0 half batches" in bench.vote(N0, open_one)
    bench.kill()
    assert bench.held() == []
    with pytest.raises(Fenced):  # what was completed is remembered, long as it is gone
        bench.send(other, Sent("t", 0, [b"2"]))


@pytest.mark.parametrize("during_flush", [False, True])
def test_no_vote_for_what_has_just_expired(
    bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch, *, during_flush: bool
) -> None:
    """The vote is a no at once, also where it expired during the vote's own flush; the next run's is whole."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"]))
    fill_files(bench)
    bench.check_back()
    if during_flush:
        flushed = bench.disk.flushed

        async def flushed_late(end_offset: int) -> None:
            await flushed(end_offset)
            expire(bench, keep_from=None)

        monkeypatch.setattr(bench.disk, "flushed", flushed_late)
    else:
        expire(bench, keep_from=bench.resolver.needed_offset())
    assert "0 half batches" in bench.vote(N0, attempt)
    monkeypatch.undo()
    assert (bench.held(), bench.participant.half_count) == ([], 0)
    next_run = N0._replace(epoch=2)
    again = bench.send(next_run, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"]))
    assert bench.vote(next_run, again) == ""
    bench.commit(next_run, again)
    assert bench.bodies("t") == [b"1", b"2"]


def test_the_oldest_that_was_voted_for_keeps_the_log(bench: ParticipantBench) -> None:
    """Of whichever id, and until it is decided."""
    bench.send(N0, Sent("t", 0, [b"not voted for"]))
    batches = [Batch(each, 1, 0) for each in ("first", "second")]
    attempts = [bench.send(batch, Sent("t", 0, [b"1"]), Sent("t", 0, [b"2"])) for batch in batches]
    for batch, attempt in reversed(list(zip(batches, attempts, strict=True))):
        bench.vote(batch, attempt)
    _, first, _, second, _ = sorted(half.physical_offset for half in bench.participant.held())
    needed = [bench.participant.needed_offset()]
    for batch, attempt in zip(batches, attempts, strict=True):
        bench.commit(batch, attempt)
        needed.append(bench.participant.needed_offset())
    assert needed == [first, second, None]


def test_what_was_begun_keeps_the_log(bench: ParticipantBench) -> None:
    """Where it was not voted for, too, as far as this store knows: a slave made the master may lack the vote."""
    bench.send(N0, Sent("t", 0, [b"1"]))
    (half,) = bench.participant.held()
    bench.completer.begin(N0, [(0, "a")])
    assert bench.participant.needed_offset() == half.physical_offset


def test_what_begins_the_log_has_not_expired(bench: ParticipantBench) -> None:
    """As a half batch does that was the first of a file."""
    bench.send(N0, Sent("t", 0, [b"1"]))
    (half,) = bench.participant.held()
    assert bench.participant.forget_before(half.physical_offset) == []
    assert bench.participant.forget_before(half.physical_offset + 1) == [half]


def test_what_was_completed_is_remembered_before_the_first_summary(bench: ParticipantBench) -> None:
    """A coordinator that was away meanwhile gets its answer, long after the batch, from another process too."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.vote(N0, attempt)
    where = bench.commit(N0, attempt)
    fill_files(bench)
    expire(bench, keep_from=bench.resolver.needed_offset())
    bench.reopen()
    assert bench.commit(N0, attempt, durable=True) == where
    fill_files(bench)  # behind the summary that the start has written
    expire(bench, keep_from=bench.resolver.needed_offset())
    assert bench.store.min_physical_offset > 0
    bench.reopen()
    assert bench.commit(N0, attempt, durable=True) == where


def test_a_log_that_grows_fast_may_expire_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files behind a summary wait for the next one: that comes by bytes, too, and not at every round."""
    monkeypatch.setattr(retention_module, "_SUMMARY_INTERVAL_BYTES", 50_000)
    bench = ParticipantBench()
    bench.commit(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    needed = []
    for _ in range(4):
        fill_files(bench)  # 30 KB
        bench.check_back()
        needed.append(bench.resolver.needed_offset() or 0)
    assert needed[0] < needed[1] == needed[2] < needed[3]


def test_however_many_ids_there_were_a_summary_finds_room(bench: ParticipantBench) -> None:
    """Without one no file goes any more. Of those that hold nothing it has the newest, as many as a message can."""
    batches = [Batch(f"id-{number:03}".ljust(255, "x"), 1, 0) for number in range(300)]
    for batch in batches:
        bench.send(batch, Sent("t", 0, [b"1"]))
        bench.drop(batch)
    fill_files(bench)
    bench.check_back(seconds=7 * 3_600)
    expire(bench, keep_from=bench.resolver.needed_offset())
    assert bench.store.min_physical_offset > 0
    bench.reopen()
    known = [bench.participant.concerns(batch) for batch in batches]
    assert known == sorted(known)
    assert 5 < sum(known) < 40


def test_a_disk_that_is_full_for_others_has_room_for_a_summary(bench: ParticipantBench) -> None:
    """Which lets the files behind the last one go."""
    bench.commit(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    fill_disk(bench)
    assert_room_is_made(bench)


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "rolled back"])
def test_a_disk_that_is_full_for_others_has_room_for_what_is_decided(bench: ParticipantBench, commits: bool) -> None:
    """Half batches keep the log from going: were they to wait for room, nothing would ever make any."""
    attempt = bench.send(N0, Sent("t", 0, [b"1"]))
    bench.vote(N0, attempt)
    fill_disk(bench)
    if commits:
        bench.commit(N0, attempt)
        assert bench.bodies("t") == [b"1"]
    else:
        bench.drop(N0)
    assert_room_is_made(bench)


def test_start_reads_only_what_is_new() -> None:
    """A start reads the newest summary and what follows, however many transactions there were."""
    bench = ParticipantBench()
    for version in range(200):
        batch = Batch(T, 1, version)
        bench.commit(batch, bench.send(batch, Sent("t", 0, [b"1"])))
    last = bench.send(Batch(T, 1, 200), Sent("t", 0, [b"2"]))
    bench.vote(Batch(T, 1, 200), last)
    bench.kill()
    assert len(bench.halves.events()) == 1  # a start writes a summary, too
    bench.commit(Batch(T, 1, 200), last)
    assert len(bench.bodies("t")) == 201
    with pytest.raises(Fenced):
        bench.send(Batch(T, 1, 5), Sent("t", 0, [b"1"]))


def test_many_idle_ids_do_not_keep_the_log_from_expiring() -> None:
    """A summary that would be too large says less of those that are done, and is written all the same."""
    bench = ParticipantBench(replace(SMALL, mapped_file_size_commit_log=1 << 20, max_message_size=256))
    ids = [f"id-{number}" for number in range(400)]
    for each in ids:
        batch = Batch(each, 1, 7)
        bench.commit(batch, bench.send(batch, Sent("t", 0, [b"1"])))
    before = bench.store.end_offset
    bench.completer.journal.summarize(at_once=True)
    assert (bench.resolver.needed_offset() or 0) >= before
    bench.reopen()
    assert all(bench.participant.is_completed(Batch(each, 1, 7)) for each in ids)


def test_a_summary_of_many_ids_and_queues_is_a_record_that_slaves_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the files of the log are: it leaves out where the oldest messages went, and no id. And whoever
    completes a version hears where it went, whatever the summary says."""
    bench = ParticipantBench(StoreConfig(message_index_enable=False, mapped_file_size_commit_log=64 << 20))
    ids = [f"nightly-job-{number:06}" for number in range(9_000)]
    outputs = [OutputRange("invoices", "broker-a", queue_id, 1_000_000, 1_000_100) for queue_id in range(20)]
    for each in ids:
        bench.participant.apply(Completed(each, 1_700_000_000_000, 7, outputs), bench.store.end_offset)
    before = bench.store.end_offset
    bench.commit(N0, bench.send(N0, Sent("t", 0, [b"1"])))
    bench.completer.journal.summarize(at_once=True)
    assert (4 << 20) < bench.store.end_offset - before < (16 << 20) + 10_000
    assert len(bench.participant.outputs(Batch(ids[0], 1_700_000_000_000, 7))) == 20
    monkeypatch.setattr(journal_module, "_SUMMARY_EVERY_EVENTS", 1)
    assert bench.commit(N0._replace(version=1), bench.send(N0._replace(version=1), Sent("t", 0, [b"2"])))
    bench.kill()
    assert all(bench.participant.is_completed(Batch(each, 1, 7)) for each in ids)
    told = [len(bench.participant.outputs(Batch(each, 1_700_000_000_000, 7))) for each in ids]
    assert set(told) == {0, 20}
    assert told == sorted(told)


def test_what_is_held_alone_may_be_too_much_for_a_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is as long as it has to be, and no id is forgotten for it."""
    monkeypatch.setattr(journal_module, "_SUMMARY_BYTES", 100)
    bench = ParticipantBench()
    done = [Batch(f"id-{number}", 1, 0) for number in range(3)]
    for each in done:
        bench.commit(each, bench.send(each, Sent("t", 0, [b"1"])))
    bench.vote(N0, bench.send(N0, *(Sent("t", 0, [b"1"]) for _ in range(40))))
    bench.completer.journal.summarize(at_once=True)
    bench.kill()
    assert all(bench.participant.is_completed(each) for each in done)
    assert (len(bench.held()), bench.participant.has_voted(N0)) == (40, True)


def test_of_idle_ids_the_newest_are_remembered(bench: ParticipantBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all that anything is held of, or was voted for."""
    monkeypatch.setattr(participant_module, "_MOST_IDLE", 2)
    open_one, voted, *done = (Batch(each, 1, 0) for each in ("open", "voted", "1", "2", "3"))
    bench.send(open_one, Sent("t", 0, [b"1"]))
    bench.vote(voted, bench.send(voted, Sent("t", 0, [b"1"])))
    for each in done:
        bench.commit(each, bench.send(each, Sent("t", 0, [b"1"])))
    bench.participant.forget_before(bench.store.end_offset)
    bench.send(open_one, Sent("t", 0, [b"1"]))
    bench.completer.journal.summarize(at_once=True)
    assert [bench.participant.is_completed(each) for each in done] == [False, True, True]
    assert (bench.participant.batches(), bench.participant.has_voted(voted)) == ([open_one], True)


def expire(bench: ParticipantBench, *, keep_from: int | None) -> None:
    """All files go that may."""
    bench.clock.advance(hours=bench.config.file_reserved_time + 1)
    for _ in range(5):
        bench.store.expire(bench.clock.now_ms(), keep_from=keep_from)


def fill_disk(bench: ParticipantBench) -> None:
    """Until it takes messages of nobody any more."""
    for _ in range(40):
        fill_files(bench)
    usage = bench.files.disk_usage()
    bench.files.set_budget((usage.total_bytes - usage.free_bytes) * 100 // 95)
    bench.store.expire(bench.clock.now_ms(), keep_from=bench.resolver.needed_offset())
    with pytest.raises(NotWritable):
        fill_files(bench)


def assert_room_is_made(bench: ParticipantBench) -> None:
    """What keeps the log from going has ended, so messages are taken again."""
    bench.check_back(seconds=7 * 3_600)
    for _ in range(200):
        bench.store.expire(bench.clock.now_ms(), keep_from=bench.resolver.needed_offset())
    fill_files(bench)


def fill_files(bench: ParticipantBench) -> None:
    for _ in range(30):
        bench.store.writer.append_parts("u", 0, *other_message(b"x" * 900))
    bench.store.checkpoint()


def test_a_disk_that_cannot_be_read_holds_up_no_other_batch(bench: ParticipantBench) -> None:
    """What was decided of others is carried out, in the same round, whichever is looked at first."""
    bad, good = Batch("bad", 1, 0), Batch("good", 1, 0)
    for batch in (bad, good):
        bench.send(batch, Sent("t", 0, [b"1"]))
        bench.verdicts[batch] = Verdict(is_open=False, attempts=[AttemptName(0, "a")], newest_epoch=1)
    bench.files.fail_next("pread")
    bench.check_back(seconds=6)
    assert [name.batch for name in bench.held()] == [bad]
    bench.check_back(seconds=60)
    assert bench.held() == []
