"""The store on the operating system's own files."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from pathlib import Path

import pytest

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import StoreError, StoreLocked
from rmqspark.store.config import StoreConfig
from rmqspark.store.inspection.store import is_in_use
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem

from .store_bench import SMALL, StoreBench, draft


@pytest.fixture
def bench(tmp_path: Path) -> StoreBench:
    return StoreBench(files=PosixFileSystem(tmp_path))


def test_messages_come_back(bench: StoreBench) -> None:
    """What was sent one by one and in bulk is read after the store was closed and opened again."""
    for number in range(20):
        bench.send("t", 0, b"m%02d" % number)
        bench.send_bulk("t", 0, b"b%02d" % number, b"c%02d" % number)
    before = bench.bodies("t", 0)
    assert len(before) == 60
    bench.reopen()
    assert bench.bodies("t", 0) == before
    assert bench.store.query("t", "b07", 0, 1 << 60, 9)
    bench.store.close()


def test_a_store_left_open_is_recovered(bench: StoreBench, tmp_path: Path) -> None:
    """A copy of the files of a running store, as a kill would leave them, opens with everything that was sent."""
    for number in range(20):
        bench.send("t", number % 3, b"m%02d" % number)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    recovered = MessageStore.open(
        "copy", SMALL, files=PosixFileSystem(tmp_path), clock=bench.clock, entropy=SystemEntropy(1)
    )
    assert [recovered.queues.max_offset("t", queue_id) for queue_id in range(3)] == [7, 7, 6]
    assert recovered.store_id == bench.store.store_id
    assert recovered.incarnation == bench.store.incarnation
    recovered.close()
    bench.store.close()


def test_only_its_owner_may_look(bench: StoreBench, tmp_path: Path) -> None:
    """Files are 0600, directories 0700 (security S20)."""
    bench.send("t", 0, b"secret")
    bench.store.checkpoint()
    for directory, _, names in os.walk(tmp_path / "store"):
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        for name in names:
            assert stat.S_IMODE(os.stat(os.path.join(directory, name)).st_mode) == 0o600
    bench.store.close()


def test_a_second_store_in_the_same_directory_is_refused(bench: StoreBench, tmp_path: Path) -> None:
    """Two brokers never write one store, not even in one process."""
    with pytest.raises(StoreLocked):
        MessageStore.open("store", SMALL, files=PosixFileSystem(tmp_path), clock=bench.clock, entropy=SystemEntropy(1))
    bench.store.close()


def test_a_second_store_is_refused_though_the_lock_was_deleted(bench: StoreBench, tmp_path: Path) -> None:
    """Whoever deletes `lock` while a broker runs lets no second one write the same files, and all see who has them."""
    files = PosixFileSystem(tmp_path)
    (tmp_path / "store" / "lock").unlink()
    assert is_in_use(files.within("store")) == (sys.platform == "linux")
    with pytest.raises(StoreLocked):
        MessageStore.open("store", SMALL, files=files, clock=bench.clock, entropy=SystemEntropy(1))
    bench.send("t", 0, b"still its only owner")
    assert bench.bodies("t", 0) == [b"still its only owner"]
    bench.store.close()
    assert not is_in_use(files.within("store"))


def test_more_queues_than_open_files(bench: StoreBench) -> None:
    """A store holds few files open however many queues it has, and reads all of them."""
    for queue_id in range(40):
        bench.send("t", queue_id, b"m%d" % queue_id)
    bench.store.checkpoint()
    for queue_id in range(40):
        assert bench.bodies("t", queue_id) == [b"m%d" % queue_id]
    for queue_id in range(40):
        bench.send("t", queue_id, b"n%d" % queue_id)
    assert all(bench.store.queues.max_offset("t", queue_id) == 2 for queue_id in range(40))
    bench.store.close()


def test_appends_go_on_while_another_thread_syncs(bench: StoreBench) -> None:
    """A flush runs in a thread of its own while messages are taken and read; what it covers was there when it began."""
    for number in range(30):
        bench.send("t", 0, b"m%02d" % number)
        plan = bench.store.flusher.begin(thorough=number % 3 == 0)
        assert plan is not None
        covered = bench.store.end_offset
        runner = threading.Thread(target=plan.run)
        runner.start()
        bench.send("t", 0, b"n%02d" % number)
        runner.join()
        bench.store.flusher.finish(plan)
        assert bench.store.flushed_offset == covered
    assert len(bench.bodies("t", 0)) == 60
    bench.store.close()


def test_a_batch_larger_than_a_file_is_refused(tmp_path: Path) -> None:
    """What can never be stored in one piece is an error that says so, and leaves no trace."""
    bench = StoreBench(StoreConfig(mapped_file_size_commit_log=1024), files=PosixFileSystem(tmp_path))
    with pytest.raises(ValueError, match="1024"):
        bench.store.append([draft("t", 0, b"x" * 200) for _ in range(5)], together=True)
    with pytest.raises(ValueError, match="1024"):
        bench.send("t", 0, b"x" * 600)
    assert (bench.store.end_offset, bench.store.queues.max_offset("t", 0)) == (0, 0)
    bench.send("t", 0, b"fits")
    assert bench.bodies("t", 0) == [b"fits"]
    bench.store.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted as Linux shows them")
@pytest.mark.parametrize("fsync_fails", [False, True])
def test_a_closed_store_has_no_open_files(bench: StoreBench, tmp_path: Path, fsync_fails: bool) -> None:
    """Closing gives every file back, after a failed fsync too."""
    bench.send("t", 0, b"one")
    assert bench.store.query("t", "one", 0, 1 << 60, 9)
    if fsync_fails:
        plan = bench.store.flusher.begin()
        assert plan is not None
        bench.store.flusher.finish(plan, OSError("planned by the test"))
    bench.store.close()
    assert open_files(tmp_path) == []


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are counted as Linux shows them")
def test_a_store_that_cannot_be_opened_has_no_open_files(bench: StoreBench, tmp_path: Path) -> None:
    """Whoever tries again does not run out of them."""
    bench.send("t", 0, b"one")
    bench.store.close()
    (index,) = tmp_path.rglob("index/*")
    os.truncate(index, 1 << 20)
    with pytest.raises(StoreError, match="is longer than this store is configured for"):
        bench.reopen()
    assert open_files(tmp_path) == []


def open_files(directory: Path) -> list[str]:
    opened = [os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return [path for path in opened if path.startswith(str(directory))]
