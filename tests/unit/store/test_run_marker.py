"""The marker of a store that is open: what the next opening knows of how the last one ended."""

from __future__ import annotations

from os import getpid

import pytest

from rmqspark.store.recovery.run_marker import (
    CLOSED,
    PATH,
    UNKNOWN,
    LastRun,
    mark_closed,
    mark_recovering,
    mark_running,
    read_last_run,
)
from rmqspark.testing.memory_files import MemoryFileSystem


def killed(files: MemoryFileSystem) -> LastRun:
    files.kill()
    return read_last_run(files)


def powerless(files: MemoryFileSystem) -> LastRun:
    files.crash()
    return read_last_run(files)


@pytest.mark.faults
@pytest.mark.parametrize(("mode", "read_unsynced"), [("ASYNC_FLUSH", True), ("SYNC_FLUSH", False)])
def test_a_store_that_serves_is_marked_before_anything_is_written_to_it(mode: str, read_unsynced: bool) -> None:
    """Whatever ends it: also a power loss that comes at once finds the marker, whole."""
    files = MemoryFileSystem()
    mark_running(files, mode)
    assert files.open(PATH).pread(20, 0).startswith(b"%d\n" % getpid())  # which is all that RocketMQ writes
    assert killed(files) == LastRun(was_closed=False, same_boot=True, read_unsynced=read_unsynced)
    assert not read_last_run(files).may_have_lost_what_was_read
    assert powerless(files) == LastRun(was_closed=False, same_boot=False, read_unsynced=read_unsynced)
    assert read_last_run(files).may_have_lost_what_was_read is read_unsynced


@pytest.mark.faults
def test_a_store_that_is_being_recovered_is_marked_as_one_that_nobody_reads() -> None:
    """A recovery that dies in its first start is known of in the next, and readers have lost nothing by it."""
    files = MemoryFileSystem()
    mark_recovering(files, CLOSED)
    assert powerless(files) == LastRun(was_closed=False, same_boot=False, read_unsynced=False)


@pytest.mark.faults
def test_a_recovery_that_dies_takes_nothing_back_of_what_the_run_before_it_said() -> None:
    """Readers of that run saw what may be gone; the next start still has to find out."""
    files = MemoryFileSystem()
    mark_running(files, "ASYNC_FLUSH")
    files.crash()
    mark_recovering(files, read_last_run(files))
    assert powerless(files).may_have_lost_what_was_read


@pytest.mark.faults
def test_a_recovery_that_dies_leaves_word_of_a_run_that_left_none() -> None:
    """What it found out of that may be gone by the next start, under whichever boot."""
    files = MemoryFileSystem()
    mark_recovering(files, UNKNOWN)
    assert killed(files) == UNKNOWN
    assert powerless(files) == UNKNOWN


@pytest.mark.faults
def test_a_store_that_was_closed_is_known_as_closed() -> None:
    """Also when the power goes right afterwards: the next start has nothing to go through."""
    files = MemoryFileSystem()
    assert read_last_run(files) == CLOSED  # there never was one
    mark_running(files, "ASYNC_FLUSH")
    mark_closed(files)
    assert powerless(files) == CLOSED


class NamelessBoots(MemoryFileSystem):
    """Of a machine that does not say under which boot it runs."""

    def boot_id(self) -> str:
        return ""


def test_where_boots_have_no_names_each_may_be_another() -> None:
    """What was not synced may be gone with the power."""
    files = NamelessBoots()
    mark_running(files, "ASYNC_FLUSH")
    assert killed(files).may_have_lost_what_was_read


@pytest.mark.parametrize("content", [b"", b"4711", b"4711\n", b"\xff\xfe", b"4711\n\nSYNC_FLUSH\n", bytes(9000)])
def test_the_worst_is_assumed_of_a_marker_that_says_less(content: bytes) -> None:
    """RocketMQ's holds its process id alone; a torn one anything."""
    files = MemoryFileSystem()
    files.open(PATH, create=True).pwrite(content, 0)
    said = read_last_run(files)
    assert (said.was_closed, said.same_boot) == (False, False)
    assert said.read_unsynced is (b"SYNC_FLUSH" not in content)
