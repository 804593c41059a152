"""All that a store on an in-memory file system has written, to compare two ways that must come to the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.store.message_store import MessageStore
    from rmqspark.testing.memory_files import MemoryFileSystem


def content_of(store: MessageStore, files: MemoryFileSystem) -> dict[str, bytes]:
    """Log, queues and index of `store`, which lies in `files`: every file by its path, byte for byte."""
    store.checkpoint()
    found: dict[str, bytes] = {}
    directories = [name for name in ("commitlog", "consumequeue", "index") if files.exists(name)]
    for directory in directories:
        for name in files.listdir(directory):
            path = f"{directory}/{name}"
            if files.is_directory(path):
                directories.append(path)
            else:
                found[path] = files.open(path, read_only=True).pread(1 << 20, 0)
    return found
