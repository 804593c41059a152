"""A disk that refuses: nothing half stored, nothing forgotten, and after a failed fsync no more writing."""

from __future__ import annotations

import errno
import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.errors import NotWritable, StoreError
from rmqspark.store.config import StoreConfig
from rmqspark.store.files import DiskUsage
from rmqspark.store.retention import local_hour
from rmqspark.testing.disk_faults import CHANGES
from rmqspark.testing.memory_files import MemoryFileSystem

from .store_bench import QUEUE_FILE_ENTRIES, SMALL, StoreBench, bulk, draft

if TYPE_CHECKING:
    from rmqspark.store.draft import Draft

NO_INDEX = StoreConfig(**{**SMALL.__dict__, "message_index_enable": False})
SYNC = StoreConfig(**{**SMALL.__dict__, "flush_disk_type": "SYNC_FLUSH"})
FIRST = [b"m%d" % number for number in range(QUEUE_FILE_ENTRIES)]  # the entry behind theirs is written at once
ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT]

pytestmark = pytest.mark.faults


def no_space(number: int = errno.ENOSPC) -> OSError:
    return OSError(number, "refused")


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("after_bytes", [0, 1, 50, 110, 150])
@pytest.mark.parametrize("how", ["single", "bulk", "together"])
def test_a_failed_write_stores_nothing(error: int, after_bytes: int, how: str) -> None:
    """After a failed or short write the log ends where it ended, readers see nothing, and the next send is stored."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"first")
    end = bench.store.end_offset
    bench.disk.fail_next("pwrite", no_space(error), after_bytes=after_bytes)
    send = {
        "single": lambda: bench.store.append([draft("t", 0, b"lost1"), draft("u", 3, b"lost2")]),
        "together": lambda: bench.store.append([draft("t", 0, b"lost1"), draft("t", 0, b"lost2")], together=True),
        "bulk": lambda: bench.store.append_bulk("t", 0, *bulk("t", 0, [b"lost1", b"lost2"])),
    }[how]
    with pytest.raises(NotWritable):
        send()
    assert (bench.store.end_offset, bench.bodies("t", 0)) == (end, [b"first"])
    assert not any(bench.content("commitlog")["commitlog/00000000000000000000"][end:])
    bench.send("t", 0, b"next.")
    for reopen in (bench.kill, bench.reopen):
        assert bench.numbered_bodies("t", 0, 0) == [(0, b"first"), (1, b"next.")]
        reopen()


def a_store_and_a_send() -> tuple[StoreBench, list[Draft]]:
    """A log file with a little room left, and messages that need another one."""
    bench = StoreBench()
    bench.send("t", 0, b"a" * 250)
    return bench, [draft("t", 0, b"b%d" % number * 20) for number in range(6)]


def changes_of_the_send() -> int:
    """How many times that send changes something on the disk."""
    bench, drafts = a_store_and_a_send()
    before = len(bench.disk.log)
    bench.store.append(drafts)
    return sum(operation.name in CHANGES for operation in list(bench.disk.log)[before:])


@pytest.mark.parametrize("error", ERRORS)
def test_every_operation_may_fail_once(error: int) -> None:
    """Whichever single operation of a send fails, over a file's end too: all of it is stored, or nothing."""
    changes = changes_of_the_send()
    assert changes > 3
    refused = 0
    for count in range(1, changes + 1):
        bench, drafts = a_store_and_a_send()
        bench.disk.fail_at(count, no_space(error))
        expected = [b"a" * 250]
        try:
            bench.store.append(drafts)
        except NotWritable:
            refused += 1
        else:
            expected += [b"b%d" % number * 20 for number in range(6)]
        expected.append(b"after")
        bench.send("t", 0, b"after")
        assert bench.bodies("t", 0) == expected
        bench.kill()
        assert bench.bodies("t", 0) == expected
    assert 0 < refused < changes


def test_a_tail_that_cannot_be_put_right_refuses_until_it_can() -> None:
    """While the remains of a failed write cannot be cleared, sends are refused; then they go on without a restart."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"first")
    end = bench.store.end_offset
    for error in (no_space(), no_space(errno.EIO)):
        bench.disk.fail_next("pwrite", error, after_bytes=60)
    with pytest.raises(NotWritable):
        bench.send("t", 0, b"lost")
    bench.disk.fail_next("pwrite", no_space(errno.EIO))
    with pytest.raises(NotWritable):
        bench.send("t", 0, b"lost")
    bench.send("t", 0, b"next.")
    assert bench.store.end_offset > end
    assert bench.bodies("t", 0) == [b"first", b"next."]


def test_a_disk_that_fills_up_within_a_message_is_put_right_while_it_is_full() -> None:
    """What was written of it is cleared without room for more, so the store can be closed in order then."""
    bench = StoreBench(StoreConfig(**{**NO_INDEX.__dict__, "mapped_file_size_commit_log": 1 << 16}))
    bench.send("t", 0, b"first")
    bench.store.checkpoint()
    bench.disk.set_budget(1)
    with pytest.raises(NotWritable) as refused:
        bench.send("t", 0, b"x" * 5000)
    assert "tail" not in refused.value.message
    bench.send("t", 0, b"small")
    bench.store.close()
    bench.disk.set_budget(None)
    bench.open()
    assert bench.bodies("t", 0) == [b"first", b"small"]


def test_what_was_refused_is_not_there_after_an_orderly_stop() -> None:
    """A disk that would not even clear what a refused send had left: closing tries again, or is no orderly stop."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"first")
    bench.disk.fail_next("pwrite", no_space(errno.EIO), after_bytes=1 << 20)
    bench.disk.fail_next("pwrite", no_space(errno.EIO))
    with pytest.raises(NotWritable, match="tail cannot be put right"):
        bench.send("t", 0, b"refused")
    bench.reopen()
    assert bench.bodies("t", 0) == [b"first"]
    bench.disk.fail_next("pwrite", no_space(errno.EIO), after_bytes=1 << 20)
    bench.disk.fail_next("pwrite", no_space(errno.EIO))
    with pytest.raises(NotWritable, match="tail cannot be put right"):
        bench.send("t", 0, b"refused")
    bench.disk.fail_next("pwrite", no_space(errno.EIO))
    with pytest.raises(StoreError, match="cannot be closed in order"):
        bench.store.close()
    assert bench.files.exists("abort")


def test_messages_whose_queue_entry_was_refused_come_later() -> None:
    """A message in the log whose queue entry the disk refused is stored: it is read as soon as the disk allows."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *FIRST)
    bench.disk.fail_at(2, no_space(), counted=["pwrite"])
    bench.send("t", 0, b"refused at first")
    assert bench.bodies("t", 0) == FIRST
    bench.send("t", 0, b"next")
    assert bench.bodies("t", 0) == [*FIRST, b"refused at first", b"next"]


def test_while_queue_entries_are_refused_so_are_messages() -> None:
    """What cannot become readable is not taken for ever: the backlog stays bounded, and a restart serves all of it."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, *FIRST)
    bench.disk.fail_at(2, no_space(), counted=["pwrite"])
    bench.send("t", 0, b"taken")
    bench.disk.fail_next("pwrite", no_space())
    with pytest.raises(NotWritable):
        bench.send("t", 0, b"refused")
    bench.kill()
    assert bench.bodies("t", 0) == [*FIRST, b"taken"]


@pytest.mark.parametrize("config", [SMALL, SYNC], ids=["async", "sync"])
@pytest.mark.parametrize("thorough", [False, True])
def test_a_failed_fsync_ends_writing(config: StoreConfig, thorough: bool) -> None:
    """RocketMQ #3129, #5235: after a failed fsync nothing counts as flushed, no message is taken, reads go on (G6)."""
    count = 0
    while True:
        count += 1
        bench = StoreBench(config)
        bench.send("t", 0, b"flushed")
        bench.store.flush()
        flushed = bench.store.flushed_offset
        bench.send("t", 0, b"not flushed")
        bench.disk.fail_at(count, no_space(errno.EIO), counted=["fsync"])
        try:
            bench.store.checkpoint() if thorough else bench.store.flush()
        except OSError:
            pass
        else:
            break
        assert bench.store.flushed_offset == flushed
        assert not bench.store.is_writable
        assert b"not flushed" not in bench.bodies("t", 0) or config is SMALL
        for _ in range(2):
            with pytest.raises(NotWritable, match="fsync"):
                bench.send("t", 0, b"refused")
            assert bench.store.flusher.begin() is None
            with pytest.raises(OSError, match="refused"):
                bench.store.flush()  # the next fsync would pass: the system takes the pages for clean
            assert bench.store.flushed_offset == flushed
        bench.store.close()
        bench.disk.crash(None)
        bench.open()
        assert bench.bodies("t", 0)[0] == b"flushed"
    assert count > 1


@pytest.mark.parametrize("config", [SMALL, SYNC], ids=["async", "sync"])
def test_a_write_refused_in_a_flush_is_no_failed_fsync(config: StoreConfig) -> None:
    """A disk that is full when index or checkpoint are written ends nothing: messages go on, and none loses its key."""
    for count in itertools.count(1):
        bench = StoreBench(config)
        bench.send("t", 0, b"first")
        bench.store.checkpoint()
        bench.send("t", 0, *(b"%d" % number for number in range(50)))  # more keys than an index file has room for
        bench.disk.fail_at(count, no_space(), counted=["pwrite"])
        before = len(bench.disk.log)
        bench.store.checkpoint()
        if count > sum(operation.name == "pwrite" for operation in list(bench.disk.log)[before:]):
            break
        assert bench.store.flushed_offset == bench.store.end_offset
        bench.send("t", 0, b"last")
        bench.store.flush()
        expected = [b"first", *(b"%d" % number for number in range(50)), b"last"]
        for reopen in (bench.lose_power, bench.kill, bench.reopen):
            reopen()
            assert bench.bodies("t", 0) == expected
            assert all(len(bench.store.query("t", body.decode(), 0, 1 << 60, 9)) == 1 for body in expected)
    assert count > 3


def test_while_a_flush_hangs_no_more_is_taken() -> None:
    """What waits for it is in memory, and nobody who sends waits so long. What was taken is there once the disk
    answers, and all goes on."""
    bench = StoreBench(SYNC)
    bench.send("t", 0, b"first")
    plan = bench.store.flusher.begin()
    assert plan is not None
    for _ in range(2):
        bench.clock.advance(ms=SYNC.sync_flush_timeout)
        bench.send("t", 0, b"while")
    bench.clock.advance(ms=1)
    for send in (bench.send, bench.send_bulk):
        with pytest.raises(NotWritable, match="taken nothing for 5 s"):
            send("t", 0, b"late.")
    plan.run()
    bench.store.flusher.finish(plan)
    bench.send("t", 0, b"after")
    bench.store.flush()
    assert bench.bodies("t", 0) == [b"first", b"while", b"while", b"after"]


def test_what_is_published_together_takes_its_time() -> None:
    """No flush makes any of it readable meanwhile: that says nothing of the disk."""
    bench = StoreBench(SYNC)
    with bench.store.publishing_together():
        for _ in range(3):
            bench.send("t", 0, b"batch")
            bench.store.flush()
            bench.clock.advance(seconds=60)
    assert bench.bodies("t", 0) == [b"batch"] * 3


def test_sync_flush_shows_only_what_is_on_disk() -> None:
    """With SYNC_FLUSH a message is readable when its flush has ended; what was sent meanwhile waits for the next."""
    bench = StoreBench(SYNC)
    heard: list[int] = []
    bench.store.on_readable = lambda readable: heard.extend(end for _, _, end, _ in readable)
    bench.send("t", 0, b"one")
    assert bench.bodies("t", 0) == []
    plan = bench.store.flusher.begin()
    assert plan is not None
    plan.run()
    bench.send("t", 0, b"two")
    assert bench.bodies("t", 0) == []
    bench.store.flusher.finish(plan)
    assert (bench.bodies("t", 0), heard) == ([b"one"], [1])
    bench.lose_power()
    assert bench.bodies("t", 0) == [b"one"]


@pytest.mark.parametrize("config", [SMALL, SYNC], ids=["async", "sync"])
def test_keys_of_a_bulk_do_not_depend_on_its_buffer(config: StoreConfig) -> None:
    """A bulk lies in the memory it was received into, which serves the next request long before a flush ends."""
    bench = StoreBench(config)
    bodies = [b"%d" % number for number in range(20)]
    buffer, sizes = bulk("t", 0, bodies)
    bench.store.append_bulk("t", 0, buffer, sizes)
    buffer[:] = bytes(len(buffer))
    bench.store.flush()
    assert bench.bodies("t", 0) == bodies
    assert all(len(bench.store.query("t", body.decode(), 0, 1 << 60, 9)) == 1 for body in bodies)


def test_word_that_could_not_be_given_is_given_later() -> None:
    """Of several appends that are published together one cannot be told of, for want of memory: no reader misses it, or
    those behind it."""
    bench, heard = StoreBench(), []

    def no_memory(_readable: object) -> None:
        raise MemoryError

    bench.store.on_readable = no_memory
    together = bench.store.publishing_together()
    together.__enter__()
    bench.send("t", 0, b"first")
    bench.send("u", 0, b"second")
    with pytest.raises(MemoryError):
        together.__exit__(None, None, None)
    bench.store.on_readable = lambda readable: heard.extend((topic, end) for topic, _, end, _ in readable)
    bench.store.tell_readers()
    assert heard == [("t", 1), ("u", 1)]
    bench.store.tell_readers()
    assert len(heard) == 2


def test_one_flush_at_a_time() -> None:
    """While a flush is under way there is no other, and when all is on disk there is nothing to do."""
    bench = StoreBench()
    assert bench.store.flusher.begin() is None
    bench.send("t", 0, b"one")
    plan = bench.store.flusher.begin()
    assert plan is not None
    assert bench.store.flusher.begin() is None
    assert bench.store.flusher.begin(thorough=True) is None
    for here_and_now in (bench.store.flush, bench.store.checkpoint):
        with pytest.raises(ValueError, match="under way"):
            here_and_now()
    plan.run()
    bench.store.flusher.finish(plan)
    assert bench.store.flushed_offset == bench.store.end_offset
    assert bench.store.flusher.begin() is None
    with pytest.raises(ValueError, match="under way"):
        bench.store.flusher.finish(plan)


@pytest.mark.parametrize("kind", ["commitlog", "consumequeue", "index"])
def test_files_go_on_expiring_where_somebody_has_deleted_one(kind: str) -> None:
    """An operator who made room on a full disk while the broker ran: nothing was deleted any more, and it filled up."""
    bench = StoreBench()
    bench.send("t", 0, *[b"m%03d" % number for number in range(60)])
    bench.store.checkpoint()
    bench.store.checkpoint()
    bench.files.unlink(min(bench.content(kind)))
    bench.clock.advance(hours=100)
    bench.send("t", 0, *[b"n%03d" % number for number in range(60)])
    bench.store.checkpoint()
    bench.store.checkpoint()
    while bench.store.expire(bench.clock.now_ms()).deleted:
        pass
    assert bench.store.min_physical_offset > 5_000
    bench.reopen()
    begin = bench.store.queues.min_offset("t", 0)
    assert (begin > 50, bench.store.damage) == (True, ())
    expected = [*[b"m%03d" % number for number in range(begin, 60)], *[b"n%03d" % number for number in range(60)]]
    assert bench.bodies("t", 0) == expected


def test_files_may_go_while_they_are_synced() -> None:
    """A topic deleted while another thread syncs its queue leaves the flush unharmed."""
    bench = StoreBench()
    bench.send("t", 0, b"one")
    bench.send("u", 0, b"two")
    plan = bench.store.flusher.begin(thorough=True)
    assert plan is not None
    bench.store.deletions.delete("t")
    plan.run()
    bench.store.flusher.finish(plan)
    bench.store.checkpoint()
    bench.kill()
    assert bench.store.queues.topics() == ["u"]


def test_a_closed_store_takes_nothing() -> None:
    """After close no message is taken; closing leaves no mark of a crash."""
    bench = StoreBench()
    bench.send("t", 0, b"one")
    bench.store.close()
    assert not bench.files.exists("abort")
    with pytest.raises(NotWritable):
        bench.send("t", 0, b"two")


def test_a_full_disk_refuses_and_recovers() -> None:
    """While the disk is nearly full no message is taken; when there is room again they are, without a restart."""
    bench = StoreBench(StoreConfig(**{**SMALL.__dict__, "min_free_bytes": 1 << 16}))
    bench.send("t", 0, b"one")
    bench.disk.set_budget(1 << 16)
    assert bench.store.expire(bench.clock.now_ms()).is_disk_full
    with pytest.raises(NotWritable, match="full"):
        bench.send("t", 0, b"refused")
    bench.disk.set_budget(None)
    assert not bench.store.expire(bench.clock.now_ms()).is_disk_full
    bench.send("t", 0, b"two")
    assert bench.bodies("t", 0) == [b"one", b"two"]


@pytest.mark.parametrize("full", ["", "commitlog"])
@pytest.mark.parametrize("limits", [{"min_free_bytes": 1 << 20}, {}])
def test_a_log_on_a_disk_of_its_own_has_both_looked_at(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], full: str
) -> None:
    """Whichever is full: messages are for the one, their queues for the other."""
    bench = StoreBench(StoreConfig(**{**SMALL.__dict__, **limits}))
    for number in range(20):
        bench.send("t", 0, b"%03d" % number + bytes(100))
    bench.store.checkpoint()
    bench.clock.advance(hours=73)
    another_hour = (local_hour(bench.clock.now_ms()) + 12) % 24
    bench.store.adopt(replace(bench.config, delete_when=str(another_hour)))
    usages = {full: DiskUsage(1 << 30, 1 << 10)}
    roomy = DiskUsage(1 << 40, 1 << 39)
    monkeypatch.setattr(MemoryFileSystem, "disk_usage", lambda _, directory="": usages.get(directory, roomy))
    report = bench.store.expire(bench.clock.now_ms())
    assert report.is_disk_full
    assert report.deleted, "what has expired goes at any hour"
    with pytest.raises(NotWritable, match="0 MiB of 1,024 are free"):
        bench.send("t", 0, b"refused")
    usages.clear()
    assert not bench.store.expire(bench.clock.now_ms()).is_disk_full
    assert bench.store.disk_usage() == roomy


def test_a_look_at_the_disk_deletes_nothing() -> None:
    """A broker that starts on a full disk takes no message, and says so before the first round of expiry."""
    bench = StoreBench(StoreConfig(**{**SMALL.__dict__, "min_free_bytes": 1 << 20}))
    bench.send("t", 0, b"one")
    bench.clock.advance(hours=73)
    bench.disk.set_budget(1 << 16)
    with capture_logs() as logged:
        bench.store.look_at_disk(bench.clock.now_ms())
        bench.store.look_at_disk(bench.clock.now_ms())
    assert [entry["event"] for entry in logged] == ["no message is taken"]
    story = r"The disk is full: 0 MiB of \d+ are free, and 1 MiB are to stay so \(min_free_bytes\)"
    assert re.search(story, logged[0]["reason"])
    with pytest.raises(NotWritable, match=story) as refused:
        bench.send("t", 0, b"refused")
    assert "Free some space" in refused.value.hint
    assert bench.bodies("t", 0) == [b"one"]
    bench.disk.set_budget(None)
    bench.store.look_at_disk(bench.clock.now_ms())
    bench.send("t", 0, b"two")


def test_messages_stay_until_their_queue_entries_are_on_disk() -> None:
    """A queue whose newest entries the disk refused keeps its messages, and so, after a power loss, its offsets."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"first")
    bench.send("t", 0, b"its entry waits in memory")
    for number in range(20):
        bench.send("u", 0, b"%d" % number)
    bench.clock.advance(hours=73)
    bench.store.flush()
    assert bench.store.expire(bench.clock.now_ms()).deleted == ()
    bench.disk.fail_next("pwrite", no_space())
    bench.store.checkpoint()
    assert bench.store.expire(bench.clock.now_ms()).deleted == ()
    bench.store.checkpoint()
    assert bench.store.expire(bench.clock.now_ms()).deleted
    bench.lose_power()
    assert bench.store.queues.max_offset("t", 0) == 2


@pytest.mark.parametrize("operation", ["fsync", "sync_directory"])
def test_a_failed_fsync_of_expiry_ends_writing(operation: str) -> None:
    """That a recovery begins behind what goes has to be on disk before. Then nothing is deleted any more."""
    bench = StoreBench()
    bench.send("t", 0, *[b"m%03d" % number for number in range(60)])
    bench.store.checkpoint()
    bench.clock.advance(hours=100)
    bench.disk.fail_next(operation, no_space(errno.EIO))
    with pytest.raises(OSError, match="refused"):
        bench.store.expire(bench.clock.now_ms())
    assert bench.store.expire(bench.clock.now_ms()).deleted == ()
    with pytest.raises(NotWritable, match="An fsync failed"):
        bench.send("t", 0, b"refused")
    assert len(bench.bodies("t", 0)) == 60


def test_index_files_go_with_their_messages() -> None:
    """They lead to nothing then."""
    bench = StoreBench()
    bench.send("t", 0, *[b"m%03d" % number for number in range(200)])
    bench.store.checkpoint()
    files = len(bench.content("index"))
    bench.expire()
    assert len(bench.content("index")) < files


def test_expiry_syncs_no_queue() -> None:
    """There may be thousands with something new, and requests wait meanwhile: what is in no queue on disk can stay."""
    bench = StoreBench(NO_INDEX)
    for _ in range(2):
        for number in range(20):
            bench.send("t", number, b"%d" % number)
        bench.clock.advance(hours=73)
        bench.store.checkpoint()
    bench.send("t", 7, b"new")
    for number in range(20):
        bench.send("t", number, b"new %d" % number)
    before = len(bench.disk.log)
    assert bench.store.expire(bench.clock.now_ms()).deleted
    done = list(bench.disk.log)[before:]
    assert [each.path for each in done if each.name == "fsync"] == ["checkpoint"]


def test_messages_stay_until_they_are_published() -> None:
    """Those that become readable together are in no queue before: after a kill their offsets were given again."""
    bench = StoreBench(NO_INDEX)
    bench.send("t", 0, b"first")
    bench.store.checkpoint()
    with bench.store.publishing_together():
        bench.send("t", 0, b"second")
        bench.send("u", 0, *[b"%d" % number for number in range(20)])
        bench.store.flush()
        bench.clock.advance(hours=73)
        while bench.store.expire(bench.clock.now_ms()).deleted:
            pass
        bench.disk.kill()
    bench.open()
    assert bench.store.queues.max_offset("t", 0) == 2


@pytest.mark.parametrize(("way", "step"), [("send", "in_one"), ("send_bulk", "entries_of")])
def test_what_fails_before_the_write_leaves_nothing(way: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory runs out while an append is worked out, nothing is in the log, and no offset is given twice."""
    bench = StoreBench()
    bench.send("t", 0, b"before")
    end = bench.store.end_offset

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(f"rmqspark.store.appending.writer.{step}", no_memory)
        with pytest.raises(MemoryError):
            getattr(bench, way)("t", 0, b"lost1", b"lost2")
    assert bench.store.end_offset == end
    bench.send("t", 0, b"after")
    bench.kill()
    assert bench.numbered_bodies("t", 0, 0) == [(0, b"before"), (1, b"after")]
