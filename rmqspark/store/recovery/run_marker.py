"""The file `abort`: there while a store is open, so that the next opening knows how the last one ended.

RocketMQ looks only at whether it exists (it writes its process id). Ours says besides under which boot of the machine
the store was open and what readers could see: from that follows whether something that was read may be gone.
"""

from __future__ import annotations

from contextlib import suppress
from os import getpid
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rmqspark.store.files import FileSystem

PATH: Final = "abort"
_NEW_PATH: Final = "abort.tmp"
_RECOVERING: Final = "RECOVERING"
_MOST_BYTES: Final = 4096


class LastRun(NamedTuple):
    """How the run before this one ended."""

    was_closed: bool
    same_boot: bool  # everything it wrote is still there, synced or not
    read_unsynced: bool  # it let readers see what was not yet on disk

    @property
    def may_have_lost_what_was_read(self) -> bool:
        return self.read_unsynced and not self.same_boot


CLOSED: Final = LastRun(was_closed=True, same_boot=False, read_unsynced=False)
NOT_CLOSED: Final = LastRun(was_closed=False, same_boot=False, read_unsynced=False)
UNKNOWN: Final = LastRun(was_closed=False, same_boot=False, read_unsynced=True)
"""What is assumed of a run that left no word: the worst."""


def read_last_run(files: FileSystem) -> LastRun:
    """What the marker says. One that is not ours may mean anything: then the worst is assumed."""
    if not files.exists(PATH):
        return CLOSED
    file = files.open(PATH, read_only=True)
    try:
        lines = file.pread(_MOST_BYTES, 0).decode("utf-8", "replace").rstrip("\0\n").split("\n")
    finally:
        file.close()
    _, boot_id, mode = (*lines, "", "", "")[:3]
    same_boot = boot_id != "" and boot_id == files.boot_id()
    return LastRun(was_closed=False, same_boot=same_boot, read_unsynced=mode not in ("SYNC_FLUSH", _RECOVERING))


def mark_recovering(files: FileSystem, last_run: LastRun) -> None:
    """Says, where nothing says so yet, that the store is open; so far nobody can read from it. What is `UNKNOWN` of the
    last run, though nothing says so, is unknown in the next start, too, should this one die."""
    if not files.exists(PATH):
        _write(files, *(("", "") if last_run.read_unsynced else (files.boot_id(), _RECOVERING)))


def mark_running(files: FileSystem, flush_disk_type: str) -> None:
    """Says that the store serves from now on."""
    _write(files, files.boot_id(), flush_disk_type)


def mark_closed(files: FileSystem) -> None:
    """Says that all there is, is on disk; as it does already where somebody has deleted the marker."""
    with suppress(FileNotFoundError):
        files.unlink(PATH)
    files.sync_directory("")


def _write(files: FileSystem, boot_id: str, mode: str) -> None:
    """Whole or not at all: an empty marker would be one that is not ours."""
    file = files.open(_NEW_PATH, create=True)
    try:
        file.pwrite(f"{getpid()}\n{boot_id}\n{mode}\n".encode().ljust(512, b"\0"), 0)
        file.fsync()
    finally:
        file.close()
    files.rename(_NEW_PATH, PATH)
    files.sync_directory("")
