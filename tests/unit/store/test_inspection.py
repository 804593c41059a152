"""`rmq store check` without the command: each kind of damage is found and named, and a sound store is silent."""

from __future__ import annotations

from errno import EIO, EROFS
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.records.record import SysFlag
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.checkpoint import Checkpoint
from rmqspark.store.config import StoreConfig
from rmqspark.store.inspection.findings import MOST_PER_KIND, Finding, Findings, Kind
from rmqspark.store.inspection.read_only import ReadOnlyFiles
from rmqspark.store.inspection.store import inspect_store
from rmqspark.store.queues.consume_queue import ENTRY

from .store_bench import SMALL, StoreBench, bulk, draft

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.store.inspection.findings import StoreReport

CONFIG = StoreConfig(**{**SMALL.__dict__, "max_hash_slot_num": 10, "max_index_num": 40})
SYNC = StoreConfig(**{**CONFIG.__dict__, "flush_disk_type": "SYNC_FLUSH"})
FIRST_LOG = "commitlog/00000000000000000000"
QUEUE = "consumequeue/t/0/00000000000000000000"


def filled(rounds: int = 24) -> StoreBench:
    """Messages in three queues, over several files of everything; the store is open."""
    bench = StoreBench(CONFIG)
    for number in range(rounds):
        bench.clock.advance(ms=10)
        bench.send("t", number % 2, b"m%03d" % number, tags="even" if number % 2 else None)
        bench.send_bulk("u", 0, b"u%03d" % number, b"v%03d" % number)
    return bench


def closed(rounds: int = 24) -> StoreBench:
    bench = filled(rounds)
    bench.store.close()
    return bench


def inspect(bench: StoreBench, *, is_open: bool = False) -> StoreReport:
    """Looks, and sees to it that looking changed nothing."""
    before = everything(bench)
    done: list[tuple[int, int]] = []
    report = inspect_store(bench.files, "store", is_open=is_open, on_progress=lambda *step: done.append(step))
    assert everything(bench) == before
    assert [step[0] for step in done] == sorted(step[0] for step in done)
    return report


def write_new(bench: StoreBench, path: str, data: bytes) -> None:
    bench.files.open(path, create=True).close()
    bench.write_file(path, data)


def everything(bench: StoreBench) -> dict[str, bytes]:
    """All files of the store, byte for byte."""
    found: dict[str, bytes] = {}
    for name in bench.files.listdir(""):
        found |= bench.content(name) if bench.files.is_directory(name) else {name: bench.read_file(name)}
    return found


def kinds(report: StoreReport) -> set[Kind]:
    return {finding.kind for finding in report.findings.kept}


def only(report: StoreReport) -> Finding:
    (finding,) = report.findings.kept
    return finding


# --- sound stores ----------------------------------------------------------------------------------------------------


def test_a_sound_store_is_silent_and_described() -> None:
    """What is in it: the log, each queue with its offsets and times, index files, tables, identity."""
    bench = filled()
    store_id, end = bench.store.store_id, bench.store.end_offset
    bench.store.close()
    report = inspect(bench)
    assert report.findings.kept == []
    assert not report.is_broken
    assert (report.written_by, report.was_closed, report.is_open) == ("rmqspark", True, False)
    assert (report.store_id, report.incarnation) == (store_id, 1)
    assert (report.start, report.end, report.watermark, report.records) == (0, end, end, 72)
    queues = [(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset) for queue in report.queues]
    assert queues == [("t", 0, 0, 12), ("t", 1, 0, 12), ("u", 0, 0, 48)]
    first = report.queues[0]
    assert first.last_timestamp_ms - first.first_timestamp_ms == 220
    assert report.last_timestamp_ms - report.first_timestamp_ms == 230
    assert sum(file.entries for file in report.index) == 72
    assert report.segments == len(bench.content("commitlog"))


def test_an_empty_store_is_sound() -> None:
    """A broker that was started and stopped leaves nothing to complain of."""
    bench = StoreBench(CONFIG)
    bench.store.close()
    assert inspect(bench).findings.kept == []


@pytest.mark.parametrize("moment", ["killed", "recovered", "power lost"])
def test_what_a_crash_leaves_is_not_called_broken(moment: str) -> None:
    """A store that needs its recovery is sound before it and silent after it."""
    bench = filled()
    bench.store.flush()
    bench.send("t", 0, b"late")
    if moment == "power lost":
        bench.disk.crash(bench.chance(7))
    else:
        bench.disk.kill()
    if moment == "recovered":
        bench.open()
        bench.store.close()
        assert inspect(bench).findings.kept == []
    assert not inspect(bench).is_broken


def test_it_can_be_looked_at_while_a_broker_writes() -> None:
    """What is newer than the look is no finding."""
    bench = filled()
    report = inspect(bench, is_open=True)
    assert report.findings.kept == []
    assert report.is_open


def test_topics_that_were_deleted_and_made_again_are_no_damage() -> None:
    """The log still has their old messages; the queues begin anew."""
    bench = filled()
    bench.store.deletions.delete("t")
    bench.send("t", 0, b"new1", b"new2")
    bench.store.deletions.delete("u")
    bench.store.close()
    report = inspect(bench)
    assert report.findings.kept == []
    assert [(queue.topic, queue.max_offset) for queue in report.queues] == [("t", 2)]
    assert report.unqueued == 48 + 24


@pytest.mark.parametrize("config", [CONFIG, SYNC], ids=["async", "sync"])
@pytest.mark.parametrize("files_gone", [0, 1, 2])
def test_what_the_disk_refused_to_delete_is_no_damage(config: StoreConfig, files_gone: int) -> None:
    """The queue goes on behind what is left of it, of which nobody knows how much that is."""
    bench = StoreBench(config)
    bench.send("t", 0, *[b"%d" % number for number in range(12)])
    bench.store.flush()
    bench.send("t", 0, b"not on disk")
    bench.disk.fail_at(1 + files_gone, OSError(EIO, "refused"), counted={"unlink"})
    with pytest.raises(OSError, match="refused"):
        bench.store.deletions.delete("t")
    bench.send("t", 0, b"new1", b"new2")
    for close in (bench.disk.kill, lambda: bench.store.close()):
        close()
        report = inspect(bench)
        assert report.findings.kept == []
        assert [(queue.max_offset - queue.min_offset, queue.records) for queue in report.queues] == [(2, 2)]
        assert report.unqueued == 13
        bench.open()


def test_half_messages_are_in_no_queue() -> None:
    """What producers have prepared or rolled back is in the log alone; what was committed is a message like others."""
    bench = filled(4)
    for flag in (SysFlag.PREPARED, SysFlag.ROLLED_BACK):
        bench.store.append([draft("t", 0, b"half", sys_flag=flag)])
    bench.commit("t", 0, RecordBatch.from_sizes(*bulk("t", 0, [b"whole1", b"whole2"])), 4711)
    bench.store.close()
    report = inspect(bench)
    assert report.findings.kept == []
    assert (report.records, report.unqueued) == (16, 2)
    assert report.queues[0].max_offset == 4


def test_files_that_have_expired_are_no_damage() -> None:
    """After retention log and queues begin later, each where it does."""
    bench = filled(60)
    bench.clock.advance(hours=80)
    bench.store.checkpoint()
    bench.store.expire(bench.clock.now_ms())
    bench.send("t", 0, b"new")
    bench.store.close()
    report = inspect(bench)
    assert report.findings.kept == []
    assert report.start > 0
    assert all(queue.min_offset > 0 for queue in report.queues)


def test_many_stores_worth_of_chances() -> None:
    """Whatever a power loss keeps of what was not synced: before recovery nothing is called broken, after it all is
    well."""
    for seed in range(20):
        bench = filled(8)
        bench.disk.crash(bench.chance(seed))
        assert not inspect(bench).is_broken, seed
        bench.open()
        bench.store.close()
        assert not inspect(bench).is_broken, seed


# --- damage ----------------------------------------------------------------------------------------------------------


def flip(bench: StoreBench, path: str, at: int) -> None:
    byte = bench.read_file(path)[at]
    bench.write_file(path, bytes([byte ^ 0x40]), at)


def cut_short(bench: StoreBench, path: str, size: int) -> None:
    file = bench.files.open(path)
    file.truncate(size)
    file.close()


def last_file(bench: StoreBench, directory: str) -> str:
    return max(bench.content(directory))


@pytest.mark.parametrize(
    ("harm", "kind", "path", "offset"),
    [
        (lambda b: flip(b, FIRST_LOG, 95), Kind.INVALID_RECORDS, FIRST_LOG, 0),
        (lambda b: b.files.unlink(sorted(b.content("commitlog"))[1]), Kind.MISSING_FILE, None, -1),
        (lambda b: cut_short(b, FIRST_LOG, 900), Kind.WRONG_LENGTH, FIRST_LOG, 900),
        (lambda b: b.write_file(last_file(b, "commitlog"), b"x", 1023), Kind.STALE_TAIL, None, 1023),
        (lambda b: flip(b, QUEUE, 7), Kind.WRONG_ENTRIES, QUEUE, 0),
        (lambda b: flip(b, QUEUE, 20 + 11), Kind.WRONG_ENTRIES, QUEUE, 20),
        (lambda b: flip(b, QUEUE, 40 + 19), Kind.WRONG_ENTRIES, QUEUE, 40),
        (lambda b: b.write_file(QUEUE, bytes(40), 20), Kind.MISSING_ENTRIES, QUEUE, 20),
        (
            lambda b: b.write_file(last_file(b, "consumequeue/t/0"), ENTRY.pack(77, 100, 0), 60),
            Kind.EXTRA_ENTRIES,
            "consumequeue/t/0/00000000000000000200",
            60,
        ),
        (
            lambda b: [b.files.unlink(path) for path in b.content("consumequeue/t/1")],
            Kind.MISSING_QUEUE,
            "consumequeue/t/1",
            -1,
        ),
        (lambda b: b.write_file("config/topics.json", b"["), Kind.BAD_TABLE, "config/topics.json", -1),
        (lambda b: b.write_file("rmqspark.json", b"["), Kind.BAD_TABLE, "rmqspark.json", -1),
        (lambda b: write_new(b, "deletedtopics.json", b"[]"), Kind.BAD_TABLE, "deletedtopics.json", -1),
        (lambda b: cut_short(b, "checkpoint", 30), Kind.BAD_CHECKPOINT, "checkpoint", 30),
        (lambda b: b.files.unlink("checkpoint"), Kind.BAD_CHECKPOINT, "checkpoint", -1),
    ],
)
def test_each_kind_of_damage_is_named_with_its_place(
    harm: Callable[[StoreBench], object], kind: Kind, path: str | None, offset: int
) -> None:
    """File and byte of what is broken are told."""
    bench = closed()
    bench.files.make_directory("config")
    write_new(bench, "config/topics.json", b'{"topicConfigTable":{"t":{"topicName":"t"}}}')
    harm(bench)
    report = inspect(bench)
    assert report.is_broken
    found = [finding for finding in report.findings.kept if finding.kind is kind]
    assert found, report.findings.kept
    if path is not None:
        assert found[0].path == path
    assert found[0].offset == offset
    assert all(finding.detail for finding in report.findings.kept)


@pytest.mark.parametrize(
    ("at", "kind"),
    [
        (39, Kind.INDEX_HEADER),  # the count of entries
        (35, Kind.INDEX_HEADER),  # the count of used slots
        (40 + 3, Kind.INDEX_SLOTS),
        (40 + 40 + 20 + 3, Kind.INDEX_CHAIN),  # the hash of the first entry
        (40 + 40 + 20 + 10, Kind.INDEX_CHAIN),  # its place in the log
        (40 + 40 + 40 + 19, Kind.INDEX_CHAIN),  # the entry before
    ],
)
def test_an_index_that_contradicts_itself_is_found(at: int, kind: Kind) -> None:
    """Header, slots and chains follow from the entries; what does not is named."""
    bench = closed()
    path = min(bench.content("index"))
    flip(bench, path, at)
    report = inspect(bench)
    assert report.is_broken
    assert (only(report).kind, only(report).path) == (kind, path)


def test_index_entries_that_lead_to_no_record_are_found() -> None:
    """An entry whose place is off, but still in order, contradicts nothing in its file: the log does."""
    bench = closed()
    path = min(bench.content("index"))
    flip(bench, path, 40 + 40 + 20 + 11)
    report = inspect(bench)
    extra, missing = report.findings.kept
    assert (extra.kind, extra.path, extra.offset, extra.is_broken) == (Kind.INDEX_ENTRIES, path, 100, True)
    assert "1 keys of the records from 0" in missing.detail


@pytest.mark.parametrize("which", [0, -1])
def test_an_index_that_does_not_cover_the_log_is_told(which: int) -> None:
    """It may have been switched off for a while, so it is a note; but messages cannot be found by their keys."""
    bench = closed()
    gone = sorted(bench.content("index"))[which]
    bench.files.unlink(gone)
    report = inspect(bench)
    assert not report.is_broken
    assert only(report).kind is Kind.INDEX_ENTRIES
    assert "keys of the log are in none" in only(report).detail


def test_what_follows_damage_is_still_looked_at() -> None:
    """A flipped bit in the first record hides no second one in the last."""
    bench = closed()
    flip(bench, FIRST_LOG, 95)
    flip(bench, last_file(bench, "commitlog"), 95)
    report = inspect(bench)
    places = [finding.path for finding in report.findings.kept if finding.kind is Kind.INVALID_RECORDS]
    assert places == [FIRST_LOG, last_file(bench, "commitlog")]
    assert report.records == 70


def test_a_torn_tail_is_what_the_next_start_clears() -> None:
    """After a kill in the middle of a write nothing is broken, but it is said."""
    bench = filled()
    bench.store.flush()
    end = bench.store.end_offset
    bench.disk.kill()
    bench.write_file(f"commitlog/{end - end % 1024:020d}", b"\0\0\0\x99half", end % 1024)
    report = inspect(bench)
    assert not report.is_broken
    assert only(report).kind is Kind.TORN_TAIL
    assert only(report).offset == end % 1024 + 3


def test_messages_that_a_recovery_has_marked_as_lost_are_counted() -> None:
    """The damage is still in the log and still told; the places of its messages are kept, and no second finding."""
    bench = filled()
    bench.store.flush()
    bench.disk.kill()
    flip(bench, sorted(bench.content("commitlog"))[2], 95)
    bench.files.unlink("checkpoint")
    bench.open()
    assert bench.store.damage
    bench.store.close()
    report = inspect(bench)
    assert kinds(report) == {Kind.INVALID_RECORDS, Kind.LOST_MESSAGES}
    assert report.findings.counts[Kind.INVALID_RECORDS] == 1


def test_a_copy_that_cannot_be_read_is_told() -> None:
    """The table itself is good, so nothing is broken; but there is no second one."""
    bench = closed()
    bench.files.make_directory("config")
    write_new(bench, "config/topics.json", b"{}")
    write_new(bench, "config/topics.json.bak", b"{")
    report = inspect(bench)
    assert not report.is_broken
    assert (only(report).kind, only(report).path) == (Kind.BAD_COPY, "config/topics.json.bak")


def test_a_table_read_from_its_copy_is_broken() -> None:
    """The broker would start, with the version before; that is worth an exit code."""
    bench = closed()
    bench.files.make_directory("config")
    write_new(bench, "config/delayOffset.json", b"{3:")
    write_new(bench, "config/delayOffset.json.bak", b"{3:12,4:0}")
    report = inspect(bench)
    assert report.is_broken
    assert "its last good version" in only(report).detail


def test_a_store_that_rocketmq_wrote_last_is_judged_by_its_rules() -> None:
    """Bytes behind the end are left there by RocketMQ, and no checkpoint of ours says how far the log goes."""
    bench = closed()
    stock = Checkpoint(1, 1, 1).encode()[:40].ljust(4096, b"\0")
    bench.write_file("checkpoint", stock)
    assert inspect(bench).findings.kept == []
    bench.write_file(last_file(bench, "commitlog"), b"stale", 1015)
    report = inspect(bench)
    assert (report.written_by, report.is_broken) == ("rocketmq", False)
    assert only(report).kind is Kind.STALE_TAIL
    flip(bench, FIRST_LOG, 95)
    assert inspect(bench).is_broken


@given(st.data())
def test_no_flipped_bit_goes_unnoticed_or_breaks_the_check(data: st.DataObject) -> None:
    """Any byte of log or queues that means something is missed when it changes; nothing makes the check fall over."""
    bench = closed(4)
    files = {**bench.content("commitlog"), **bench.content("consumequeue")}
    path = data.draw(st.sampled_from(sorted(files)))
    written = len(files[path].rstrip(b"\0"))
    at = data.draw(st.integers(0, max(0, written - 1)))
    flip(bench, path, at)
    report = inspect(bench)
    is_queue = path.startswith("consumequeue")
    if is_queue or report.records < 12:
        assert report.is_broken
    else:
        assert report.records == 12  # a field that no checksum covers: host, flag, born time or a property


@given(st.data())
def test_garbage_is_survived(data: st.DataObject) -> None:
    """Whatever stands in whichever file, the check ends with a report."""
    bench = closed(4)
    files = [path for path in everything(bench) if path != "lock"]
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(files))
        size = len(bench.read_file(path))
        at = data.draw(st.integers(0, max(0, size - 1)))
        bench.write_file(path, data.draw(st.binary(min_size=1, max_size=40)), at)
    inspect(bench)


# --- its parts -------------------------------------------------------------------------------------------------------


def test_nothing_can_be_changed() -> None:
    """The file system of an inspection refuses every change, with the words of a read-only disk."""
    files = ReadOnlyFiles(closed().files, {"commitlog": 2048})
    file = files.open("checkpoint")
    for change in (
        lambda: file.pwrite(b"x", 0),
        file.fsync,
        lambda: file.truncate(0),
        files.make_root,
        lambda: files.rename("checkpoint", "x"),
        lambda: files.unlink("checkpoint"),
        lambda: files.make_directory("x"),
        lambda: files.remove_directory("config"),
        lambda: files.sync_directory(""),
        lambda: files.lock("lock"),
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011 - errno says which
            change()
        assert caught.value.errno == EROFS
    padded = files.open(FIRST_LOG)
    assert (padded.size(), padded.pread(10, 2040), padded.pread(10, 2048)) == (2048, bytes(8), b"")
    assert padded.next_data(1024) == 2048
    buffer = bytearray(b"\xff" * 30)
    assert padded.pread_into(buffer, 1014) == 30
    assert bytes(buffer[10:]) == bytes(20)


def test_findings_are_bounded_and_counted() -> None:
    """A store that is broken all over makes a report of readable length."""
    findings = Findings()
    for number in range(1_000):
        findings.add(Finding(Kind.WRONG_ENTRIES, "x", number, "wrong"))
    assert len(findings.kept) == MOST_PER_KIND
    assert findings.counts == {Kind.WRONG_ENTRIES: 1_000}
