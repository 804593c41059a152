"""Room on disk is taken for a file that will be filled, and for no other."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from rmqspark.store.disk_room import MOST_OF_FREE
from rmqspark.store.log.segment import SegmentFiles
from rmqspark.store.log.segment_log import SegmentLog
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rmqspark.store.posix_files import PosixFile

MIB = 1 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be asked for room ahead")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[PosixFile]:
    opened = PosixFileSystem(tmp_path).open("f", create=True)
    yield opened
    opened.close()


def taken_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_room_is_taken_and_nothing_changed(tmp_path: Path, file: PosixFile) -> None:
    """The range has its blocks; what was written stays, the rest reads as zeros that were never written."""
    file.truncate(4 * MIB)
    file.pwrite(b"here", MIB)
    file.reserve(0, 2 * MIB)
    assert 2 * MIB <= taken_bytes(tmp_path / "f") < 3 * MIB
    assert file.next_data(MIB + 4096) == 4 * MIB
    assert file.pread(4 * MIB, 0) == bytes(MIB) + b"here" + bytes(3 * MIB - 4)


def test_a_file_does_not_grow(file: PosixFile) -> None:
    """Room behind its end is room for later."""
    file.truncate(MIB)
    file.reserve(0, 2 * MIB)
    assert file.size() == MIB


def test_little_room_is_left_for_what_is_written(tmp_path: Path, file: PosixFile) -> None:
    """Where the disk could not give 16 times as much, nothing is taken."""
    disk = os.statvfs(tmp_path)
    size = disk.f_bavail * disk.f_frsize // MOST_OF_FREE * 2
    file.truncate(size)
    file.reserve(0, size)
    assert taken_bytes(tmp_path / "f") == 0


def test_a_closed_file_is_no_error(file: PosixFile) -> None:
    """It is only an advice, given by another thread."""
    file.close()
    file.reserve(0, MIB)


def test_a_file_that_follows_a_full_one_has_its_room(tmp_path: Path) -> None:
    """The first of a log may stay nearly empty, and is sparse; so is one behind a gap."""
    files = PosixFileSystem(tmp_path)
    log = SegmentLog(files, SegmentFiles(files, 8), "log", MIB)
    for base in (0, 1, 2, 4):
        log.write(b"x", base * MIB)
    taken = [taken_bytes(tmp_path / "log" / f"{base * MIB:020d}") for base in (0, 1, 2, 4)]
    assert [size >= MIB for size in taken] == [False, True, True, False]
