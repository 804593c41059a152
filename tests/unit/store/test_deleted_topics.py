"""Deleted topics stay deleted: over crashes at any step, over recoveries that go through all of the log."""

from __future__ import annotations

from errno import EIO
from itertools import count
from typing import TYPE_CHECKING

import msgspec
import pytest

from rmqspark.errors import DamagedFile
from rmqspark.store.checkpoint import Checkpoint
from rmqspark.store.config import StoreConfig
from rmqspark.store.deletions import PATH, Deletion, Deletions
from rmqspark.store.direct.offline import OfflineStore
from rmqspark.testing.disk_faults import CHANGES, ProcessDied
from rmqspark.testing.memory_files import MemoryFileSystem

from .store_bench import SMALL, StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SYNC = StoreConfig(**{**SMALL.__dict__, "flush_disk_type": "SYNC_FLUSH"})
MODES = pytest.mark.parametrize("config", [SMALL, SYNC], ids=["async", "sync"])
CRASHES: list[Callable[[StoreBench], object]] = [
    StoreBench.kill,
    StoreBench.lose_power,
    *(lambda bench, seed=seed: bench.lose_power(seed) for seed in range(6)),
]
BODIES = [b"%d" % number for number in range(8)]  # more than a file of a queue has room for

pytestmark = pytest.mark.faults


def lose_all_but_the_log(bench: StoreBench) -> None:
    bench.kill()
    bench.store.close()
    for path in [*bench.content("consumequeue"), "checkpoint"]:
        bench.files.unlink(path)
    bench.write_abort()
    bench.open()


@MODES
@pytest.mark.parametrize("thorough", [None, False, True])
@pytest.mark.parametrize("crash", [*CRASHES, lose_all_but_the_log])
def test_a_deletion_outlives_a_crash(
    config: StoreConfig, thorough: bool | None, crash: Callable[[StoreBench], object]
) -> None:
    """Whether a flush was under way or not, and whatever of the store is there still."""
    bench = StoreBench(config)
    bench.send("t", 0, *BODIES)
    bench.send("u", 0, *BODIES)
    bench.store.checkpoint()
    bench.send("t", 1, *BODIES)
    bench.store.flush()
    plan = bench.store.flusher.begin(thorough=thorough) if thorough is not None else None
    bench.store.deletions.delete("t")
    if plan is not None:
        plan.run()
        bench.store.flusher.finish(plan)
    crash(bench)
    assert bench.store.queues.topics() == ["u"]
    assert bench.bodies("u", 0) == BODIES
    bench.send("t", 0, b"new")
    bench.store.flush()
    crash(bench)
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"new")]


def with_one_deleted(config: StoreConfig) -> StoreBench:
    """A store whose topic "t" is deleted, "v" about to be, and "u" there, with a little that no checkpoint covers."""
    bench = StoreBench(config)
    for topic in ("t", "u", "v"):
        bench.send(topic, 0, *BODIES)
        bench.send(topic, 3, *BODIES)
    bench.store.flush()
    bench.store.deletions.delete("t")
    bench.store.checkpoint()
    for topic in ("u", "v"):
        bench.send(topic, 0, b"later")
    bench.store.flush()
    return bench


@MODES
@pytest.mark.parametrize("crash", CRASHES)
def test_a_deletion_that_a_crash_cuts_short_is_done_or_not_begun(
    config: StoreConfig, crash: Callable[[StoreBench], object]
) -> None:
    """Whichever of its steps is the last: all queues of the topic are there with all they had, or none is. What comes
    into them then stays."""
    found = []
    for steps in count(1):
        bench = with_one_deleted(config)
        bench.disk.stop_at(steps)
        try:
            bench.store.deletions.delete("v")
        except ProcessDied:
            has_died = True
        else:
            has_died = False
            bench.disk.heal()
        crash(bench)
        assert (bench.bodies("u", 0), bench.bodies("u", 3)) == ([*BODIES, b"later"], BODIES)
        left = bench.bodies("v", 0), bench.bodies("v", 3)
        assert left in (([*BODIES, b"later"], BODIES), ([], []))
        found.append(left[0] != [])
        bench.send("v", 0, b"new")
        bench.store.checkpoint()
        bench.reopen()
        assert (bench.bodies("v", 0), bench.bodies("v", 3)) == ([*left[0], b"new"], left[1])
        if not has_died:
            break
    assert (found[0], found[-1]) == (True, False)


def refused_deletions(config: StoreConfig = SMALL) -> Iterator[StoreBench]:
    """Stores whose disk refused the deletion of "v" at its first step, at its second, and so on; it is well again."""
    for steps in count(1):
        bench = with_one_deleted(config)
        bench.send("v", 0, b"last")
        bench.disk.fail_at(steps, OSError(EIO, "refused"), counted=CHANGES)
        try:
            bench.store.deletions.delete("v")
        except OSError:
            bench.disk.heal()
            yield bench
        else:
            return


@pytest.mark.parametrize("restart", [StoreBench.reopen, StoreBench.kill])
def test_after_a_deletion_that_failed_nothing_new_is_lost(restart: Callable[[StoreBench], object]) -> None:
    """Whichever of its steps the disk refused: what is sent to the topic then is there after a start, where it was."""
    benches = list(refused_deletions())
    assert len(benches) > 5
    for bench in benches:
        left = bench.bodies("v", 0)
        bench.send("v", 0, b"n1", b"n2")
        assert bench.bodies("v", 0) == [*left, b"n1", b"n2"]
        sent = bench.numbered_bodies("v", 0, bench.store.queues.max_offset("v", 0) - 2)
        for _ in range(2):
            bench.store.checkpoint()
        restart(bench)
        assert bench.numbered_bodies("v", 0, bench.store.queues.min_offset("v", 0))[-2:] == sent


def checkpointed_and_killed(bench: StoreBench) -> None:
    for _ in range(2):
        bench.store.checkpoint()
    bench.kill()


def of_a_killed_broker(bench: StoreBench, topic: str, queue_id: int) -> int:
    """How many messages of a queue its files have."""
    bench.disk.kill()
    with OfflineStore(bench.files, is_open=False) as store:
        found = store.end((topic, queue_id)) - store.begin((topic, queue_id))
    bench.open()
    return found


@MODES
@pytest.mark.parametrize("restart", [StoreBench.reopen, checkpointed_and_killed, *CRASHES])
def test_what_the_disk_refused_to_delete_is_no_message_of_the_next_topic(
    config: StoreConfig, restart: Callable[[StoreBench], object]
) -> None:
    """Whichever of the steps behind the note it refused: the topic made anew has its own messages only, at once, after
    every start, and for who reads the files."""
    seen = 0
    for bench in refused_deletions(config):
        if not bench.store.deletions.deleted_ms("v"):
            continue
        seen += 1
        assert (bench.bodies("v", 0), bench.bodies("v", 3)) == ([], [])
        bench.send("v", 0, b"n1", b"n2")
        bench.store.flush()
        sent = bench.numbered_bodies("v", 0, bench.store.queues.min_offset("v", 0))
        assert [body for _, body in sent] == [b"n1", b"n2"]
        assert of_a_killed_broker(bench, "v", 0) == 2
        for _ in range(2):
            assert bench.numbered_bodies("v", 0, bench.store.queues.min_offset("v", 0)) == sent
            assert bench.bodies("v", 3) == []
            restart(bench)
    assert seen > 5


def test_what_the_disk_refused_to_delete_stays_hidden_when_rocketmq_has_had_the_store() -> None:
    """From then on the time tells which messages are the deleted topic's."""
    bench = StoreBench()
    bench.send("v", 0, *BODIES)
    bench.disk.fail_next("unlink", OSError(EIO, "refused"))
    with pytest.raises(OSError, match="refused"):
        bench.store.deletions.delete("v")
    bench.clock.advance(ms=10)
    bench.send("v", 0, *BODIES)
    bench.store.close()
    bench.write_file("checkpoint", Checkpoint().encode()[:40].ljust(4096, b"\0"))
    with OfflineStore(bench.files, is_open=False) as store:
        assert (store.begin(("v", 0)), store.end(("v", 0))) == (8, 16)
    bench.open()
    for _ in range(2):
        assert bench.numbered_bodies("v", 0, bench.store.queues.min_offset("v", 0))[0] == (8, BODIES[0])
        assert bench.bodies("v", 0) == BODIES
        bench.reopen()


@pytest.mark.parametrize("crash", CRASHES)
def test_a_deletion_that_failed_is_done_by_the_next(crash: Callable[[StoreBench], object]) -> None:
    """Whichever of its steps the disk refuses, nothing of the topic is left when it is deleted once more."""
    benches = list(refused_deletions())
    assert len(benches) > 5
    for bench in benches:
        bench.store.deletions.delete("v")
        assert not bench.files.exists("consumequeue/v")
        crash(bench)
        assert bench.store.queues.topics() == ["u"]
        assert bench.bodies("u", 0) == [*BODIES, b"later"]


@pytest.mark.parametrize("step", ["fsync", "rename", "sync_directory"])
def test_a_deletion_that_cannot_be_noted_removes_nothing(step: str) -> None:
    """It is on disk that the topic is deleted before the first of its files goes; or else not even a note that a start
    would act on."""
    bench = with_one_deleted(SMALL)
    bench.disk.fail_next(step, OSError(EIO, "refused"))
    with pytest.raises(OSError, match="refused"):
        bench.store.deletions.delete("v")
    for reopen in (bench.reopen, bench.lose_power):
        assert bench.store.queues.topics() == ["u", "v"]
        assert bench.bodies("v", 3) == BODIES
        reopen()


def test_a_start_after_a_deletion_goes_through_no_more_of_the_log() -> None:
    """The checkpoint does not count the topic's entries: those that are missing would else have all of it read."""
    read = []
    for is_deleted in (False, True):
        bench = with_one_deleted(SMALL)
        bench.store.checkpoint()
        if is_deleted:
            bench.store.deletions.delete("v")
        before = bench.disk.bytes_read
        bench.kill()
        read.append(bench.disk.bytes_read - before)
    assert read[1] < read[0] + bench.store.end_offset // 2


def test_damage_makes_no_new_queue_an_old_one() -> None:
    """Entries of lost messages lead to where the damage begins, which may lie before the deletion."""
    bench = StoreBench()
    bench.send("t", 0, b"old")
    start = bench.store.end_offset
    bench.send("u", 0, b"between")
    bench.store.deletions.delete("t")
    bench.send("t", 0, b"a", b"b", b"c")
    bench.store.checkpoint()
    bench.store.checkpoint()
    end = bench.store.end_offset
    bench.disk.kill()
    bench.write_file("commitlog/00000000000000000000", bytes(end - start), start)
    for _ in range(3):
        bench.open()
        assert bench.store.queues.max_offset("t", 0) == 3
        bench.store.close()


def test_messages_where_the_log_was_cut_are_of_the_next_topic() -> None:
    """A power loss takes the end of the log, and what comes then lies where the deleted topic had its messages."""
    bench = StoreBench()
    bench.send("u", 0, *BODIES)
    bench.store.checkpoint()
    bench.store.checkpoint()
    bench.send("t", 0, *BODIES)
    bench.store.deletions.delete("t")
    bench.lose_power()
    assert bench.store.queues.topics() == ["u"]
    bench.send("t", 0, *BODIES)
    lose_all_but_the_log(bench)
    assert bench.bodies("t", 0) == BODIES


def continued_by_rocketmq() -> StoreBench:
    """A closed store whose log RocketMQ has cut and continued since "t" was deleted. It does not move the end of the
    log in our table, so the message of the topic made anew lies below it. The queues are gone."""
    bench = StoreBench()
    bench.send("t", 0, *BODIES)
    bench.store.deletions.delete("t")
    bench.clock.advance(ms=1)
    bench.send("t", 0, b"new")
    bench.store.close()
    deletion = Deletion(bench.store.end_offset, bench.clock.now_ms() - 1, only_ours_since=True)
    Deletions(bench.files).add("t", deletion)
    bench.write_file("checkpoint", Checkpoint().encode()[:40].ljust(4096, b"\0"))
    lose_the_queues(bench)
    return bench


def test_a_lost_message_hides_none_of_a_topic_made_anew() -> None:
    """Where RocketMQ has had the store the time tells which messages went, and what was lost has none."""
    bench = StoreBench()
    bench.send("t", 0, b"old")
    bench.store.deletions.delete("t")
    bench.clock.advance(ms=1)
    for number in range(4):
        bench.send("t", 0, b"%d" % number * 300)  # each in a file of its own
    bench.store.close()
    deletion = Deletion(bench.store.end_offset, bench.clock.now_ms() - 1, only_ours_since=True)
    Deletions(bench.files).add("t", deletion)
    bench.write_file("checkpoint", Checkpoint().encode()[:40].ljust(4096, b"\0"))
    bench.write_abort()
    bench.write_file("commitlog/00000000000000001024", bytes(1024))
    for _ in range(2):
        bench.open()
        assert [body[:1] for body in bench.bodies("t", 0)] == [b"0", b"2", b"3"]
        bench.store.close()


def lose_the_queues(bench: StoreBench) -> None:
    for path in bench.content("consumequeue"):
        bench.files.unlink(path)


def test_messages_that_rocketmq_put_where_the_log_was_cut_are_of_the_next_topic() -> None:
    """They were stored after the deletion, and stay for good, though the first start of ours is cut short anywhere, and
    later ones, which find a checkpoint of ours, have nothing but the log."""
    for steps in count(1):
        bench = continued_by_rocketmq()
        bench.disk.stop_at(steps)
        try:
            bench.open()
        except ProcessDied:
            bench.lose_power(steps)
        else:
            break
        for _ in range(2):
            assert bench.bodies("t", 0) == [b"new"]
            bench.store.close()
            lose_the_queues(bench)
            bench.open()
    assert steps > 6


def test_a_store_without_a_broker_has_what_rocketmq_put_where_the_log_was_cut() -> None:
    """Nothing of ours has opened it since, so no note says yet that time tells."""
    bench = continued_by_rocketmq()
    bench.write_abort()
    with OfflineStore(bench.files, is_open=False) as store:
        assert store.tails["t", 0].end == 1


def test_a_start_acts_on_no_note_that_can_be_lost() -> None:
    """The process is killed before the note's name is durable, and the next one, while it finishes the deletion, loses
    the power. One message has expired: of its queue nothing but the file says how far it had come."""
    for steps in count(1):
        bench = StoreBench()
        bench.send("v", 0, b"expired")
        bench.send("v", 1, bytes(400))
        bench.expire(hours=73)
        bench.store.checkpoint()
        bench.disk.stop_at(6)  # the sync of the directory, the last of the note
        with pytest.raises(ProcessDied):
            bench.store.deletions.delete("v")
        bench.disk.kill()
        bench.disk.stop_at(steps)
        try:
            bench.open()
        except ProcessDied:
            bench.lose_power()
        else:
            break
        assert [bench.store.queues.max_offset("v", queue_id) for queue_id in (0, 1)] in ([1, 1], [0, 0])
    assert steps > 6


def test_a_clock_that_was_put_back_spares_nothing() -> None:
    """What was stored before a deletion goes with it, whatever its time."""
    bench = StoreBench()
    bench.send("t", 0, *BODIES)
    bench.clock.set_now_ms(bench.clock.now_ms() - 60_000)
    bench.store.deletions.delete("t")
    lose_all_but_the_log(bench)
    assert bench.store.queues.topics() == []


def test_a_clock_that_was_ahead_spares_nothing() -> None:
    """Messages were stored in what was the future then; others, and the deletion, came when the clock was put right."""
    bench = StoreBench()
    now_ms = bench.clock.now_ms()
    bench.clock.set_now_ms(now_ms + 60_000)
    bench.send("t", 0, *BODIES)
    bench.clock.set_now_ms(now_ms)
    bench.send("u", 0, *BODIES)
    bench.store.deletions.delete("t")
    with OfflineStore(bench.files, is_open=False) as store:
        assert ("t", 0) not in store.tails
    bench.kill()
    assert bench.store.queues.topics() == ["u"]


def test_a_store_without_a_broker_has_no_deleted_messages() -> None:
    """Reads that go to the files of a killed broker find what its next start would."""
    bench = StoreBench()
    bench.send("t", 0, *BODIES)
    bench.send("u", 0, *BODIES)
    bench.store.deletions.delete("t")
    bench.send("t", 1, b"new")
    bench.disk.kill()
    with OfflineStore(bench.files, is_open=False) as store:
        assert {queue: (tail.start, tail.end) for queue, tail in store.tails.items()} == {
            ("u", 0): (0, len(BODIES)),
            ("t", 1): (0, 1),
        }


def test_deletions_are_told_and_told_apart() -> None:
    """Whoever read a topic that was deleted learns of it, also after a start and when a new one has its name, made and
    deleted in the same millisecond."""
    bench = StoreBench()
    assert bench.store.deletions.deleted_ms("t") == 0
    for _ in range(2):
        bench.send("t", 0, *BODIES)
        bench.store.deletions.delete("t")
    bench.send("t", 0, b"new")
    bench.reopen()
    deletions = bench.store.deletions
    assert (deletions.deleted_ms("t"), deletions.deleted_ms("u")) == (bench.clock.now_ms() + 1, 0)


def test_a_deletion_is_told_when_all_its_messages_have_expired() -> None:
    """A reader may come back after weeks; the topic made anew counts from 0 still."""
    bench = StoreBench()
    bench.send("t", 0, *BODIES)
    bench.store.deletions.delete("t")
    deleted_ms = bench.store.deletions.deleted_ms("t")
    bench.send("u", 0, *[b"%d" % number for number in range(50)])
    end = bench.store.queues.locate("u", 0, 0) or pytest.fail("it is there")
    bench.expire()
    assert bench.store.min_physical_offset >= end[0]
    bench.store.deletions.delete("u")
    bench.reopen()
    assert bench.store.deletions.deleted_ms("t") == deleted_ms > 0


def test_only_so_many_deletions_are_remembered() -> None:
    """Topics that come and go by the thousand do not fill the file: the oldest deletions are forgotten."""
    files = MemoryFileSystem()
    table = {f"t{number}": Deletion(100, number) for number in range(20_000)}
    files.open(PATH, create=True).pwrite(msgspec.json.encode(table), 0)
    Deletions(files).add("new", Deletion(1000, 1))
    told = Deletions(files)
    assert [name for name in ("t0", "t1", "t19999", "new") if told.get(name)] == ["t1", "t19999", "new"]


def test_deletions_follow_a_log_that_was_cut() -> None:
    """What is appended from there on is new."""
    files = MemoryFileSystem()
    table = Deletions(files)
    table.add("t", Deletion(300, 1))
    table.add("u", Deletion(100, 2))
    table.follow_log_end(250)
    assert (Deletions(files).get("t"), Deletions(files).get("u")) == (Deletion(250, 1), Deletion(100, 2))


def test_what_a_later_version_says_of_a_deletion_is_passed_over() -> None:
    """It counts all the same. A start refused the table, or took the one before, in which the topic was not deleted."""
    bench = with_one_deleted(SMALL)
    deletion = bench.store.deletions.all()["t"]
    bench.store.close()
    bench.write_file(PATH, msgspec.json.encode({"t": [*deletion, {"why": "later"}], "gone": [100, 2]}))
    bench.open()
    assert bench.store.deletions.all() == {"t": deletion, "gone": Deletion(100, 2)}


def test_a_table_that_says_nothing_is_told() -> None:
    """A start ends with the file's name and what to do; nothing is taken for deleted or not on a guess."""
    bench = with_one_deleted(SMALL)
    bench.store.close()
    bench.write_file(PATH, b"?")
    with pytest.raises(DamagedFile, match=PATH):
        bench.open()
