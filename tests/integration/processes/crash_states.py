"""What the disk may hold if the power fails in the middle of a trace: every change of its files, done again in memory.

The calls of a real broker are replayed up to a moment on a `MemoryFileSystem`, whose power then fails: what was synced
survives, and of the rest any sectors, sizes and names (ALICE's legal states, for a file system that orders nothing).
An fsync that had not returned by then has done nothing yet, and one that had covers what was written before it began.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqspark.testing.memory_files import MemoryFileSystem

from .durability import SYNCS, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqspark.entropy import Entropy
    from rmqspark.testing.memory_files import MemoryFile

    from .strace import Call

ROOT: Final = "store"
NAMES: Final = ("openat", "rename", "unlink", "mkdir", "rmdir")
_SIZES: Final = ("ftruncate",)
UNKNOWN: Final = (
    "open", "creat", "truncate", "fallocate", "renameat", "renameat2", "unlinkat", "mkdirat", "link", "linkat",
    "symlink", "symlinkat", "copy_file_range", "sendfile",
)  # fmt: skip
"""What a store does not do, and would have to be replayed if it did."""
REPLAYED: Final = (*NAMES, *_SIZES, *WRITES, *SYNCS)
_SIZE = re.compile(r", (\d+)$")


class Changes:
    """The calls of a trace that changed files in `directory`."""

    def __init__(self, calls: Iterable[Call], directory: Path) -> None:
        self._directory = directory
        self._calls = [call for call in calls if call.result != -1 and self._concerns(call)]
        unknown = {call.name for call in self._calls} - {*REPLAYED}
        assert not unknown, f"a store that calls {unknown} cannot be replayed"

    def __len__(self) -> int:
        return len(self._calls)

    def moments(self) -> list[int]:
        """Of each change, when it was begun."""
        return [call.begun for call in self._calls]

    def without(self, *names: str) -> Changes:
        """The same calls, but none of these."""
        fewer = Changes((), self._directory)
        fewer._calls = [call for call in self._calls if call.name not in names]
        return fewer

    def replay(self, end: float) -> MemoryFileSystem:
        """The files as the process saw them at a moment; nothing but what it synced is durable."""
        disk = MemoryFileSystem()
        disk.within(ROOT).make_root()
        replay = _Replay(disk.within(ROOT), str(self._directory))
        for call in sorted((call for call in self._calls if call.begun < end), key=lambda call: _happened(call, end)):
            if call.name not in SYNCS or call.ended < end:
                replay.carry_out(call)
        return disk

    def crash(self, end: float, entropy: Entropy) -> MemoryFileSystem:
        """What may be on the disk if the power fails at that moment."""
        disk = self.replay(end)
        disk.crash(entropy)
        return disk

    def _concerns(self, call: Call) -> bool:
        if call.name == "openat" and "O_CREAT" not in call.arguments:
            return False
        if call.name in SYNCS and call.target == str(self._directory):
            return True
        places = call.paths if call.name in (*NAMES, *UNKNOWN) else [call.target]
        return any(place.startswith(f"{self._directory}/") for place in places)


def _happened(call: Call, end: float) -> float:
    """A sync covers what had been done when it began; other changes count when they are done, or else at the end."""
    return call.begun if call.name in SYNCS else min(call.ended, end)


class _Replay:
    """Does calls again on other files."""

    def __init__(self, files: MemoryFileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory

    def carry_out(self, call: Call) -> None:
        match call.name:
            case "openat":
                self._files.open(self._name(call.paths[0]), create=True)
            case "mkdir":
                self._files.make_directory(self._name(call.paths[0]))
            case "rmdir":
                self._files.remove_directory(self._name(call.paths[0]))
            case "unlink":
                self._files.unlink(self._name(call.paths[0]))
            case "rename":
                self._files.rename(*map(self._name, call.paths))
            case "ftruncate":
                self._file(call).truncate(_size_of(call))
            case name if name in WRITES:
                self._file(call).pwrite(call.data, call.offset)
            case _ if self._files.is_directory(self._name(call.target)):
                self._files.sync_directory(self._name(call.target))
            case _:
                self._file(call).fsync()

    def _file(self, call: Call) -> MemoryFile:
        return self._files.open(self._name(call.target))

    def _name(self, path: str) -> str:
        return path.removeprefix(self._directory).strip("/")


def _size_of(call: Call) -> int:
    found = _SIZE.search(call.arguments)
    assert found, call.arguments
    return int(found[1])
