"""The memory file system and a real directory are given the same calls and must give the same answers."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rmqspark.store.files import File, FileSystem, make_directories, remove_tree
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = st.sampled_from(["a", "b", "d", "d/a", "d/e", "d/e/a", "a/x"])
OFFSETS = st.integers(0, 9000)
pytestmark = pytest.mark.property


def tree(files: FileSystem, directory: str = "") -> dict[str, Any]:
    """Every name with its content."""
    found: dict[str, Any] = {}
    for name in files.listdir(directory):
        path = f"{directory}/{name}" if directory else name
        if files.is_directory(path):
            found[name] = tree(files, path)
        else:
            file = files.open(path, read_only=True)
            found[name] = file.pread(file.size() + 1, 0)
            file.close()
    return found


class SameAnswers(RuleBasedStateMachine):
    """Keeps both in step: what one returns or refuses, with which errno, the other does too."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.both: tuple[FileSystem, FileSystem] = (PosixFileSystem(self.directory), MemoryFileSystem())
        self.handles: dict[str, tuple[File, File]] = {}

    def teardown(self) -> None:
        for pair in self.handles.values():
            for file in pair:
                file.close()
        shutil.rmtree(self.directory)

    def answers(self, call: Callable[[Any], Any], subjects: tuple[Any, Any]) -> list[Any]:
        results = []
        for subject in subjects:
            try:
                results.append(call(subject))
            except OSError as error:
                results.append(error.errno)
        return results

    def same(self, call: Callable[[Any], Any], subjects: tuple[Any, Any] | None = None) -> None:
        real, memory = self.answers(call, subjects or self.both)
        assert real == memory

    @rule(path=NAMES, create=st.booleans(), read_only=st.booleans())
    def open(self, path: str, create: bool, read_only: bool) -> None:
        real, memory = self.answers(lambda files: files.open(path, create=create, read_only=read_only), self.both)
        if isinstance(real, int) or isinstance(memory, int):
            assert real == memory
        else:
            for file in self.handles.pop(path, ()):
                file.close()
            self.handles[path] = (real, memory)

    @rule(data=st.data(), content=st.binary(max_size=5000), offset=OFFSETS, parts=st.integers(1, 3))
    def pwrite(self, data: st.DataObject, content: bytes, offset: int, parts: int) -> None:
        self.with_file(data, lambda file: file.pwrite([content] * parts, offset))

    @rule(data=st.data(), size=OFFSETS)
    def truncate(self, data: st.DataObject, size: int) -> None:
        self.with_file(data, lambda file: file.truncate(size))

    @rule(data=st.data(), size=OFFSETS, offset=OFFSETS)
    def read(self, data: st.DataObject, size: int, offset: int) -> None:
        def both_ways(file: File) -> tuple[int, bytes, bytes]:
            buffer = bytearray(size)
            return file.pread_into(buffer, offset), bytes(buffer), file.pread(size, offset)

        self.with_file(data, both_ways)

    @rule(data=st.data())
    def fsync(self, data: st.DataObject) -> None:
        self.with_file(data, lambda file: file.fsync())

    def with_file(self, data: st.DataObject, call: Callable[[File], Any]) -> None:
        if self.handles:
            self.same(call, self.handles[data.draw(st.sampled_from(sorted(self.handles)))])

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        if not new.startswith(f"{old}/") and not old.startswith(f"{new}/"):
            self.same(lambda files: files.rename(old, new))

    @rule(path=NAMES)
    def unlink(self, path: str) -> None:
        self.same(lambda files: files.unlink(path))

    @rule(path=NAMES)
    def make_directory(self, path: str) -> None:
        self.same(lambda files: files.make_directory(path))

    @rule(path=NAMES)
    def make_directories(self, path: str) -> None:
        self.same(lambda files: make_directories(files, path))

    @rule(path=NAMES)
    def remove_directory(self, path: str) -> None:
        self.same(lambda files: files.remove_directory(path))

    @rule(path=NAMES)
    def remove_tree(self, path: str) -> None:
        self.same(lambda files: remove_tree(files, path))

    @rule(path=NAMES)
    def look(self, path: str) -> None:
        self.same(lambda files: files.listdir(path))
        self.same(lambda files: (files.exists(path), files.is_directory(path)))
        self.same(lambda files: files.sync_directory(path))

    @invariant()
    def trees_are_equal(self) -> None:
        assert tree(self.both[0]) == tree(self.both[1])


TestSameAnswers = SameAnswers.TestCase
TestSameAnswers.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
