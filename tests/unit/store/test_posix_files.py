"""What the operating system's files add to the common behaviour: modes, links, locks, real partitions."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import InvalidArgument, StoreLocked
from rmqspark.store.files import make_directories
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rmqspark.store.files import File


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_a_store(tmp_path: Path) -> None:
    """Files are 0600 and directories 0700, whatever is above the root is made too."""
    files = PosixFileSystem().within(tmp_path / "new" / "store")
    files.make_root()
    make_directories(files, "config/deep")
    files.open("config/deep/f", create=True).close()
    root = tmp_path / "new" / "store"
    assert [mode_of(root), mode_of(root / "config"), mode_of(root / "config/deep")] == [0o700] * 3
    assert mode_of(root / "config/deep/f") == 0o600


@pytest.mark.parametrize("offset", [0, 1, 65_535, 100_000])
@pytest.mark.parametrize("sizes", [[1], [65_536], [200_000], [3] * 3_000, [40_000] * 5, [1, 70_000, 0, 65_535, 2]])
def test_long_writes_arrive_whole(tmp_path: Path, sizes: list[int], offset: int) -> None:
    """However many system calls a write takes, its bytes are where they belong and nothing else is touched."""
    parts = [os.urandom(size) for size in sizes]
    file = PosixFileSystem(tmp_path).open("f", create=True)
    file.pwrite(parts if len(parts) > 1 else parts[0], offset)
    assert file.pread(1 << 20, 0) == bytes(offset) + b"".join(parts)
    file.close()


@pytest.mark.skipif(sys.platform != "linux", reason="has a file of which nothing can be read")
@pytest.mark.parametrize("read", [lambda file: file.pread(9, 8), lambda file: file.pread_into(bytearray(9), 8)])
def test_what_cannot_be_read_is_named(read: Callable[[File], object]) -> None:
    """A disk with a bad spot is not searched for it: the error says which file, and where in it."""
    file = PosixFileSystem("/proc/self").open("mem", read_only=True)
    with closing(file), pytest.raises(OSError, match="Input/output error at byte 8: 'mem'"):
        read(file)


@pytest.mark.parametrize("change", [lambda file: file.pwrite(b"x", 0), lambda file: file.truncate(7)])
def test_a_file_that_cannot_be_changed_is_named(tmp_path: Path, change: Callable[[File], object]) -> None:
    """Which of a store's files a disk refuses, its error says."""
    (tmp_path / "f").write_bytes(b"kept")
    file = PosixFileSystem(tmp_path).open("f", read_only=True)
    with closing(file), pytest.raises(OSError, match=": 'f'"):
        change(file)
    assert (tmp_path / "f").read_bytes() == b"kept"


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link planted where the store expects a file leads nowhere."""
    (tmp_path / "victim").write_bytes(b"untouched")
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        PosixFileSystem(tmp_path).open("link", create=True)


@pytest.mark.parametrize("path", ["..", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", "./a", "a\0b"])
def test_a_path_cannot_leave_the_root(tmp_path: Path, path: str) -> None:
    """Names that would lead out of the store are refused before the disk is touched."""
    with pytest.raises(InvalidArgument):
        PosixFileSystem(tmp_path).open(path, create=True)


def test_two_stores_exclude_each_other(tmp_path: Path) -> None:
    """A second opener is refused, in this process and in another; closing lets it in."""
    files = PosixFileSystem(tmp_path)
    held = files.lock("lock")
    with pytest.raises(StoreLocked, match="open in another process"):
        files.lock("lock")
    assert _other_process_locks_as_java_does(tmp_path / "lock") == 1
    held.close()
    held.close()
    assert _other_process_locks_as_java_does(tmp_path / "lock") == 0
    files.lock("lock").close()


def _other_process_locks_as_java_does(path: Path) -> int:
    """FileChannel.tryLock(0, 1, false) of RocketMQ's broker is a POSIX lock on the first byte."""
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
    return subprocess.run([sys.executable, "-c", code, str(path)], stderr=subprocess.DEVNULL, check=False).returncode


def test_many_buffers_go_out_in_one_write(tmp_path: Path) -> None:
    """More buffers than the system takes at once arrive back to back."""
    file = PosixFileSystem(tmp_path).open("f", create=True)
    parts = [bytes([number % 251]) * (number % 7) for number in range(5000)]
    file.pwrite(parts, 3)
    assert file.pread(100_000, 0) == b"\0\0\0" + b"".join(parts)
    file.close()


def test_length_costs_no_room(tmp_path: Path) -> None:
    """A file set to a gigabyte takes no blocks until it is written to."""
    file = PosixFileSystem(tmp_path).open("f", create=True)
    file.truncate(1 << 30)
    file.fsync()
    assert file.size() == 1 << 30
    assert os.stat(tmp_path / "f").st_blocks == 0
    assert file.pread(10, 1 << 29) == bytes(10)
    file.close()


def test_a_writer_that_gets_nowhere_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short writes are continued; one of zero bytes is an error, not an endless loop."""
    file = PosixFileSystem(tmp_path).open("f", create=True)
    whole = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: whole(fd, [buffers[0][:2]], offset))
    file.pwrite([b"abc", b"defgh"], 0)
    assert file.pread(10, 0) == b"abcdefgh"
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, offset: 0)
    with pytest.raises(OSError, match="takes no bytes"):
        file.pwrite([b"x"], 0)
    file.close()


def test_disk_usage_is_of_the_partition(tmp_path: Path) -> None:
    """Free room is some part of the whole, both in bytes."""
    files = PosixFileSystem(tmp_path)
    usage = files.disk_usage()
    assert 0 < usage.free_bytes <= usage.total_bytes
    assert files.disk_usage("commitlog").total_bytes == usage.total_bytes, "which is not there yet"
    (tmp_path / "commitlog").symlink_to("/dev")
    assert files.disk_usage("commitlog").total_bytes == PosixFileSystem("/dev").disk_usage().total_bytes


def test_whether_a_file_is_locked_can_be_asked_without_a_lock(tmp_path: Path) -> None:
    """An inspection learns that a broker runs, and keeps nobody from starting."""
    files = PosixFileSystem(tmp_path)
    lock = files.lock("lock")
    assert files.is_locked("lock") == (sys.platform == "linux")
    lock.close()
    assert not files.is_locked("lock")
    files.lock("lock").close()
