"""The next file of the log is made ahead of need, and is there only as long as it is going to be needed."""

from __future__ import annotations

import threading
from contextlib import suppress
from errno import EIO
from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import StoreError
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.appending.warming import LEAST_WRITTEN_BYTES
from rmqspark.store.config import StoreConfig
from rmqspark.store.inspection.layout import segment_files
from rmqspark.store.log.next_file import NextFile
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.log.segment_log import SegmentLog
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.disk_faults import CHANGES
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.threads import Once

from .store_bench import StoreBench

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.store.appending.warming import Ahead

MIB = 1 << 20
SEGMENT_BYTES = 16 * MIB
RECORD = bytes(encode_record(topic="t", body=b"x" * MIB))
FIRST, SECOND, THIRD = (f"commitlog/{number * SEGMENT_BYTES:020d}" for number in range(3))


@pytest.fixture
def bench() -> StoreBench:
    return StoreBench(StoreConfig(mapped_file_size_commit_log=SEGMENT_BYTES, message_index_enable=False))


@pytest.fixture
def made(bench: StoreBench) -> StoreBench:
    """A store whose second file is made, and not needed yet."""
    bench.store.work_ahead(_run)
    fill(bench, SEGMENT_BYTES // 2 + 2 * MIB)
    assert files_of(bench) == [FIRST, SECOND]
    return bench


def _run(ahead: Ahead) -> Callable[[], object]:
    ahead.run()
    return _nothing


def _nothing() -> None:
    """It is done already."""


def fill(bench: StoreBench, end_offset: int) -> None:
    while bench.store.end_offset < end_offset:
        bench.store.append_bulk("t", 0, bytearray(RECORD))


class Later:
    """Begins nothing, and can be told to."""

    def __init__(self) -> None:
        self.files: list[Once[None]] = []

    def begin(self, ahead: Ahead) -> Once[None]:
        once = Once(ahead.run)
        if isinstance(ahead, NextFile):
            self.files.append(once)
        return once


def refuse(patch: pytest.MonkeyPatch, name: str, path: str, error: BaseException) -> None:
    """One call of the disk ends in an error for one path."""
    call = getattr(MemoryFileSystem, name)

    def refusing(files: MemoryFileSystem, of: str) -> None:
        if of == path:
            raise error
        call(files, of)

    patch.setattr(MemoryFileSystem, name, refusing)


def files_of(bench: StoreBench) -> list[str]:
    """All files of the log."""
    return [f"commitlog/{name}" for name in bench.files.listdir("commitlog")]


def test_it_is_made_once_the_one_before_is_half_full(bench: StoreBench) -> None:
    """Each file but the first one, and each once."""
    begun: list[tuple[int, str]] = []

    def note(ahead: Ahead) -> Callable[[], object]:
        if isinstance(ahead, NextFile):
            begun.append((bench.store.end_offset, ahead.path))
        return _run(ahead)

    bench.store.work_ahead(note)
    fill(bench, 2 * SEGMENT_BYTES + 2 * MIB)
    assert [path for _, path in begun] == [SECOND, THIRD]
    for number, (end, _) in enumerate(begun):
        half = number * SEGMENT_BYTES + SEGMENT_BYTES // 2
        assert half <= end < half + 2 * MIB
    assert files_of(bench) == [FIRST, SECOND, THIRD]


def test_a_little_traffic_makes_none(bench: StoreBench) -> None:
    """A store that was opened with a file that is nearly full has to see as much as half a file first."""
    fill(bench, SEGMENT_BYTES - 6 * MIB)
    bench.reopen()
    bench.store.work_ahead(_run)
    fill(bench, SEGMENT_BYTES - 3 * MIB // 2)
    assert bench.store.end_offset < SEGMENT_BYTES
    assert files_of(bench) == [FIRST]
    assert LEAST_WRITTEN_BYTES < SEGMENT_BYTES // 2


def test_who_comes_to_it_makes_nothing(made: StoreBench) -> None:
    """The append that needs it only writes."""
    fill(made, SEGMENT_BYTES - 2 * MIB)
    made.store.work_ahead(lambda _: _nothing)
    before = len(made.disk.log)
    fill(made, SEGMENT_BYTES + MIB)
    done = [operation for operation in list(made.disk.log)[before:] if operation.name in CHANGES]
    assert {(operation.name, operation.path.partition("/")[0]) for operation in done if "log" in operation.path} == {
        ("pwrite", "commitlog")
    }
    assert made.store.queues.max_offset("t", 0) * len(RECORD) < made.store.end_offset


def test_what_cannot_be_made_is_made_by_who_comes_to_it(bench: StoreBench) -> None:
    """A disk that refuses any step of it costs nobody a message."""
    count = 0
    while True:
        count += 1
        bench = StoreBench(bench.config)
        later = Later()
        bench.store.work_ahead(later.begin)
        fill(bench, SEGMENT_BYTES - 2 * MIB)
        (make,) = later.files
        bench.disk.fail_at(count, OSError(EIO, "refused"))
        make()
        if bench.disk.failed is None:
            break
        bench.disk.heal()
        fill(bench, SEGMENT_BYTES + 2 * MIB)
        assert files_of(bench) == [FIRST, SECOND], f"change {count} refused"
        bench.lose_power()
        assert bench.store.damage == ()
    assert count > 2


def test_a_thread_without_memory_is_no_error_of_the_store(made: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of who comes to the file, nor of the end."""
    later = Later()
    made.store.work_ahead(later.begin)
    fill(made, SEGMENT_BYTES + SEGMENT_BYTES // 2 + 2 * MIB)
    with monkeypatch.context() as patch:
        refuse(patch, "sync_directory", "commitlog", MemoryError())
        later.files[0]()
    fill(made, 2 * SEGMENT_BYTES + 2 * MIB)
    assert files_of(made) == [FIRST, SECOND, THIRD]
    made.store.close()


def test_one_that_somebody_has_removed_is_made_again(made: StoreBench) -> None:
    """It is empty, and grows old as long as nobody comes to it."""
    made.files.unlink(SECOND)
    fill(made, SEGMENT_BYTES + 2 * MIB)
    assert files_of(made) == [FIRST, SECOND]


def test_what_nobody_has_got_to_is_made_by_who_comes_to_it(bench: StoreBench) -> None:
    """With its room, as if it had been made ahead."""
    later = Later()
    bench.store.work_ahead(later.begin)
    fill(bench, SEGMENT_BYTES + 2 * MIB)
    assert files_of(bench) == [FIRST, SECOND]
    later.files[0]()
    assert files_of(bench) == [FIRST, SECOND]


def test_a_closed_store_has_none(made: StoreBench) -> None:
    """It takes no room that its messages do not need."""
    made.store.close()
    assert files_of(made) == [FIRST]
    made.lose_power()
    assert files_of(made) == [FIRST]


@pytest.mark.parametrize(("name", "path"), [("unlink", SECOND), ("sync_directory", "commitlog")])
def test_one_that_cannot_be_removed_keeps_no_message_from_the_disk(
    made: StoreBench, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    """The store is not closed in order then, and the next start removes it."""
    count = made.store.queues.max_offset("t", 0)
    with monkeypatch.context() as patch:
        refuse(patch, name, path, OSError(EIO, "refused"))
        with pytest.raises(StoreError, match="closed in order"):
            made.store.close()
    made.lose_power()
    assert made.store.queues.max_offset("t", 0) == count
    assert files_of(made) == [FIRST]


def test_after_a_failed_fsync_nothing_is_removed(made: StoreBench) -> None:
    """And the end is as quiet as it was: everybody was told."""
    made.disk.fail_at(1, OSError(EIO, "refused"))
    with suppress(OSError):
        made.store.flush()
    made.disk.heal()
    assert not made.store.is_writable
    made.store.close()
    assert files_of(made) == [FIRST, SECOND]
    made.lose_power()
    assert files_of(made) == [FIRST]


def test_who_reads_the_directory_meanwhile_passes_over_what_goes(
    made: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was listed, and is not there any more when it is looked at."""
    names = made.files.listdir("commitlog")
    made.store.close()
    listdir = made.files.listdir
    monkeypatch.setattr(
        MemoryFileSystem, "listdir", lambda files, path: names if path == "commitlog" else listdir(path)
    )
    assert [file.path for file in segment_files(made.files, "commitlog")] == [FIRST]
    log = SegmentLog(made.files, SegmentFiles(made.files, 1), "commitlog", SEGMENT_BYTES)
    log.load()
    assert [segment.path for segment in log] == [FIRST]


def test_one_that_nobody_has_got_to_making_is_not_made_when_the_store_is_closed(bench: StoreBench) -> None:
    """The directory is another's by then."""
    later = Later()
    bench.store.work_ahead(later.begin)
    fill(bench, SEGMENT_BYTES - 2 * MIB)
    bench.store.close()
    (make,) = later.files
    make()
    assert files_of(bench) == [FIRST]


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_what_a_crash_leaves_is_removed(made: StoreBench, *, power: bool) -> None:
    """It is of no use, and would make the store look longer than it is."""
    count = made.store.queues.max_offset("t", 0)
    made.store.flush()
    (made.lose_power if power else made.kill)()
    assert files_of(made) == [FIRST]
    assert made.store.damage == ()
    assert made.store.queues.max_offset("t", 0) == count


def test_a_log_that_is_cut_has_none(made: StoreBench) -> None:
    """It would not begin where the log ends then."""
    made.store.replica.cut(made.store.replica.record_begin(made.store.end_offset - 1))
    assert files_of(made)[:2] == [FIRST]
    made.store.work_ahead(_run)
    fill(made, SEGMENT_BYTES + 2 * MIB)
    assert files_of(made)[:2] == [FIRST, SECOND]


def test_who_comes_to_it_while_it_is_made_waits(tmp_path: Path) -> None:
    """And has it then: it is not made twice."""
    files = _Slow(tmp_path)
    files.make_directory("commitlog")
    file, later = NextFile(files, FIRST, 4096), Later()
    file.begin(later.begin)
    making = threading.Thread(target=later.files[0])
    making.start()
    assert files.is_syncing.wait(30)
    taken: list[bool] = []
    taking = threading.Thread(target=lambda: taken.append(file.take()))
    taking.start()
    files.may_go_on.set()
    taking.join(30)
    making.join(30)
    assert taken == [True]
    assert files.listdir("commitlog") == [FIRST.partition("/")[2]]
    assert files.syncs == 1


class _Slow(PosixFileSystem):
    """The system's files, whose names become durable when they are told to."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.is_syncing, self.may_go_on = threading.Event(), threading.Event()
        self.syncs = 0

    def sync_directory(self, path: str) -> None:
        self.syncs += 1
        self.is_syncing.set()
        assert self.may_go_on.wait(30)
        super().sync_directory(path)
