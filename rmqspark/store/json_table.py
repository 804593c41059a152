"""One small file of text that always has a good copy on disk (RocketMQ's ConfigManager: config/topics.json and others).

The order in which a new version is saved, and why:

1. Write `<name>.tmp` and fsync it: the new version is complete before anything refers to it.
2. Rename `<name>` to `<name>.bak`: the last good version keeps a name. Left out where `<name>` could not be read, or
   the good copy under `.bak` would give way to a bad one.
3. Rename `<name>.tmp` to `<name>`. Between 2 and 3 there is only `.bak`, which `load` falls back to.
4. fsync the directory. Before that a power loss may undo 2 and 3 or one of them: with 2 alone `.bak` is the last good
   version, with 3 alone `<name>` is the new one, with neither all is as it was.

So at every moment `<name>` or `.bak` is whole, and as new as what `save` last returned for.

Of a table with secrets `.bak` is the same version once more, not the one before: what was taken out of it, or changed,
is to be read nowhere. It is written beside 1, since a full disk must not refuse what counts already, and takes the
place of `.bak` after step 4; by `load` where a crash came between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rmqspark.errors import DamagedFile, DecodeError
from rmqspark.store.files import make_directories, read_whole, write_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.store.files import FileSystem

T = TypeVar("T")


class JsonTable:
    """The file at `path` and its copy. Knows nothing of what is in it but whether it `has_secrets`; call `load` before
    the first `save`.

    `warning` is empty, or says that `load` had to fall back to the copy and why. `copy_trouble` is empty, or says why
    the copy has still the secrets of before: then the next `save` or `load` makes it good.
    """

    def __init__(self, files: FileSystem, path: str, *, has_secrets: bool = False) -> None:
        self._files = files
        self._has_secrets = has_secrets
        self._directory = path.rpartition("/")[0]
        self.path = path
        self.backup_path = f"{path}.bak"
        self.warning = ""
        self.copy_trouble = ""
        self._is_sound = False  # whether the file at `path` is there and good

    def load(self, parse: Callable[[str], T]) -> T | None:
        """The current version, or the one before it if that cannot be read; None if there never was one.

        `parse` raises ValueError or DecodeError for text it does not understand. Raises DamagedFile if nothing that is
        there can be read, and lets an OSError through.
        """
        current = self._read(self.path, parse)
        self._is_sound = current.value is not None
        if current.value is not None:
            self.warning = ""
            self._trying(self._forget_before)
            return current.value
        backup = self._read(self.backup_path, parse)
        if backup.value is not None:
            self.warning = f"{self.path} {current.fault}; its last good version, {self.backup_path}, is used instead."
            return backup.value
        if current.is_there or backup.is_there:
            raise DamagedFile(
                f"{self.path} {current.fault}, and {self.backup_path} {backup.fault}.",
                hint=f"Put a good copy in the place of {self.path}, or delete both to start without what they held.",
            )
        return None

    def save(self, text: str) -> None:
        """Replaces the file; durable when this returns. After an OSError the version before is still there."""
        if self._directory:
            make_directories(self._files, self._directory)
        temporary_path = f"{self.path}.tmp"
        write_whole(self._files, temporary_path, text.encode())
        if self._has_secrets:
            write_whole(self._files, f"{self.backup_path}.tmp", text.encode())
        if self._is_sound:
            self._files.rename(self.path, self.backup_path)
            self._is_sound = False
        self._files.rename(temporary_path, self.path)
        self._is_sound = True
        self._files.sync_directory(self._directory)
        if self._has_secrets:
            self._trying(self._replace_copy)

    def _forget_before(self) -> None:
        """Puts the current version in the place of one with secrets that count no more."""
        if not self._has_secrets or not self._files.exists(self.backup_path):
            return
        current = read_whole(self._files, self.path)
        if read_whole(self._files, self.backup_path) != current:
            write_whole(self._files, f"{self.backup_path}.tmp", current)
            self._replace_copy()

    def _replace_copy(self) -> None:
        self._files.rename(f"{self.backup_path}.tmp", self.backup_path)
        self._files.sync_directory(self._directory)

    def _trying(self, tidy: Callable[[], None]) -> None:
        """What it is about counts by now: a disk that refuses this refuses nothing else."""
        self.copy_trouble = ""
        try:
            tidy()
        except OSError as error:
            self.copy_trouble = f"{self.backup_path}: {error}"

    def _read(self, path: str, parse: Callable[[str], T]) -> _Version[T]:
        if not self._files.exists(path):
            return _Version(None, "is missing", is_there=False)
        try:
            return _Version(parse(read_whole(self._files, path).decode()), "", is_there=True)
        except (ValueError, DecodeError) as error:
            return _Version(None, f"cannot be read ({error})", is_there=True)


class _Version(NamedTuple, Generic[T]):
    """What came of reading one of the two files."""

    value: T | None
    fault: str
    is_there: bool
