"""The memory file system answers as a real directory does, and loses at a power cut what a disk may lose."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.entropy import SystemEntropy
from rmqspark.errors import InvalidArgument, StoreLocked
from rmqspark.store.files import make_directories
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFile, MemoryFileSystem

SECTOR = 512
pytestmark = pytest.mark.faults


def synced_file(files: MemoryFileSystem, content: bytes = b"", path: str = "f") -> MemoryFile:
    file = files.open(path, create=True)
    file.pwrite(content, 0)
    file.fsync()
    files.sync_directory("")
    return file


def content_of(files: MemoryFileSystem, path: str = "f") -> bytes:
    file = files.open(path)
    return file.pread(file.size(), 0)


def test_power_loss_takes_what_was_not_synced() -> None:
    """Bytes written after the last fsync are gone, those before it are there."""
    files = MemoryFileSystem()
    file = synced_file(files, b"kept")
    file.pwrite(b"lost", 4)
    files.crash()
    assert content_of(files) == b"kept"


def test_kill_takes_nothing() -> None:
    """A killed process loses its handles; its writes are in the page cache."""
    files = MemoryFileSystem()
    file = synced_file(files, b"kept")
    file.pwrite(b" and this", 4)
    files.kill()
    assert content_of(files) == b"kept and this"
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    file.close()


def test_a_name_is_durable_only_after_its_directory_was_synced() -> None:
    """A file that was fsynced but whose directory was not may be gone after a power loss."""
    files = MemoryFileSystem()
    file = files.open("f", create=True)
    file.pwrite(b"x", 0)
    file.fsync()
    files.crash()
    assert not files.exists("f")


@pytest.mark.parametrize("synced", [True, False])
def test_a_move_survives_whole_or_not_at_all(synced: bool) -> None:
    """After a power loss a renamed file is under its new name or its old one, never under none."""
    for seed in range(20):
        files = MemoryFileSystem()
        synced_file(files, b"old", "current")
        synced_file(files, b"new", "temp")
        files.rename("temp", "current")
        if synced:
            files.sync_directory("")
        files.crash(SystemEntropy(seed))
        assert (content_of(files, "current"), files.exists("temp")) in (
            [(b"new", False)] if synced else [(b"new", False), (b"old", True)]
        )


def test_sectors_survive_one_by_one() -> None:
    """Of three unsynced sectors every subset can survive, also the last without the first."""
    seen = set()
    for seed in range(200):
        files = MemoryFileSystem()
        file = synced_file(files, bytes(3 * SECTOR))
        file.pwrite(b"x" * 3 * SECTOR, 0)
        files.crash(SystemEntropy(seed))
        after = content_of(files)
        sectors = [after[at : at + SECTOR] for at in range(0, 3 * SECTOR, SECTOR)]
        assert all(sector in (bytes(SECTOR), b"x" * SECTOR) for sector in sectors)
        seen.add(tuple(sector[0] for sector in sectors))
    assert len(seen) == 8


def test_a_failed_fsync_loses_the_pages_for_good() -> None:
    """After a failed fsync the next one succeeds without having saved anything, as on Linux."""
    files = MemoryFileSystem()
    file = synced_file(files, b"a" * SECTOR * 2)
    file.pwrite(b"b" * SECTOR, 0)
    files.fail_next("fsync")
    with pytest.raises(OSError, match="planned"):
        file.fsync()
    file.pwrite(b"c" * SECTOR, SECTOR)
    file.fsync()
    assert file.pread(SECTOR, 0) == b"b" * SECTOR
    files.crash(SystemEntropy(1))
    assert content_of(files) == b"a" * SECTOR + b"c" * SECTOR


def test_truncating_is_durable_only_after_fsync() -> None:
    """A cut that was not synced can be undone by a power loss: the stale tail comes back."""
    files = MemoryFileSystem()
    file = synced_file(files, b"stale" * 1000)
    file.truncate(10)
    file.truncate(5000)
    assert file.pread(5000, 0) == b"stale" * 2 + bytes(4990)
    files.crash()
    assert content_of(files) == b"stale" * 1000


def test_a_write_can_stop_half_way() -> None:
    """A failing write may have written a part; the caller learns of it by the error alone."""
    files = MemoryFileSystem()
    file = synced_file(files)
    files.fail_next("pwrite", OSError(errno.EIO, "torn"), after_bytes=3)
    with pytest.raises(OSError, match="torn"):
        file.pwrite([b"ab", b"cd"], 0)
    assert content_of(files) == b"abc"


def test_a_full_disk_takes_what_fits() -> None:
    """Beyond the budget a write ends with ENOSPC; sparse length costs nothing, and room that is freed can be used."""
    files = MemoryFileSystem(budget_bytes=8192)
    file = files.open("f", create=True)
    file.truncate(420_000_040)
    assert files.disk_usage() == (8192, 8192)
    with pytest.raises(OSError, match="No space left") as caught:
        file.pwrite(bytes(10_000), 0)
    assert caught.value.errno == errno.ENOSPC
    assert files.disk_usage().free_bytes == 0
    file.pwrite(b"where there is a page already", 100)
    file.truncate(0)
    file.pwrite(bytes(8192), 0)


def test_the_nth_change_fails_and_only_that() -> None:
    """A fault can be put at every operation in turn; reads are not counted unless asked for."""
    files = MemoryFileSystem()
    file = synced_file(files, b"abc")
    files.fail_at(2, OSError(errno.EIO, "second"))
    file.pwrite(b"x", 0)
    assert file.pread(1, 0) == b"x"
    with pytest.raises(OSError, match="second"):
        files.unlink("f")
    files.unlink("f")
    assert [operation.name for operation in files.log][-3:] == ["pread", "unlink", "unlink"]


def test_a_dead_process_changes_nothing_more() -> None:
    """From the operation in which a process dies on, cleanup code that still runs reaches no disk."""
    files = MemoryFileSystem()
    file = synced_file(files, b"abc")
    files.stop_at(1, after_bytes=1)
    with pytest.raises(ProcessDied):
        file.pwrite(b"xyz", 0)
    with pytest.raises(ProcessDied):
        files.unlink("f")
    files.kill()
    assert content_of(files) == b"xbc"


def test_a_lock_is_held_until_closed_or_dead() -> None:
    """A store can be opened by one process at a time."""
    files = MemoryFileSystem()
    first = files.lock("lock")
    with pytest.raises(StoreLocked):
        files.lock("lock")
    first.close()
    files.lock("lock")
    files.kill()
    files.lock("lock")


def test_a_view_shares_the_disk() -> None:
    """A file system within a directory sees the same files, under shorter names, and can be made anywhere."""
    files = MemoryFileSystem(clock=ManualClock(5))
    inner = files.within("/data").within("broker-a")
    inner.make_root()
    make_directories(inner, "config/x")
    synced_file(inner, b"1", "config/f")
    assert content_of(files, "data/broker-a/config/f") == b"1"
    assert files.modified_ms("data/broker-a/config/f") == 5
    files.crash()
    assert inner.listdir("config") == ["x"]


def test_the_machine_starts_anew_after_a_power_loss_only() -> None:
    """The boot id tells whether unsynced writes can be gone."""
    files = MemoryFileSystem()
    first = files.boot_id()
    files.kill()
    assert files.boot_id() == first
    files.crash()
    assert files.boot_id() != first


@given(st.lists(st.tuples(st.integers(0, 20_000), st.binary(min_size=1, max_size=5000)), max_size=8), st.integers())
def test_every_byte_after_a_crash_was_written_there(writes: list[tuple[int, bytes]], seed: int) -> None:
    """Whatever survives, each byte is the durable one or the one last written: nothing is invented."""
    files = MemoryFileSystem()
    file = synced_file(files, b"d" * 10_000)
    for offset, data in writes:
        file.pwrite(data, offset)
    seen = file.pread(file.size(), 0)
    files.crash(SystemEntropy(seed))
    after = content_of(files)
    durable = (b"d" * 10_000).ljust(len(after), b"\0")
    assert 10_000 <= len(after) <= len(seen)
    assert all(byte in (old, new) for byte, old, new in zip(after, durable, seen, strict=False))


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "./a", "a\0b"])
def test_a_path_cannot_leave_the_root(path: str) -> None:
    """Names that would lead out of the store are refused before the disk is touched."""
    files = MemoryFileSystem()
    with pytest.raises(InvalidArgument):
        files.open(path, create=True)
    assert not files.log
