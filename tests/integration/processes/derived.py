"""What a store derives from its log, compared with what it would derive from nothing else."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.store.posix_files import PosixFileSystem

from .servers import SMALL_FILES

if TYPE_CHECKING:
    from pathlib import Path


def assert_derived(store: Path, copy: Path) -> None:
    """Consume queues and index of a closed store equal, byte for byte, those that are made anew in `copy`."""
    shutil.copytree(store, copy)
    for name in ("consumequeue", "index"):
        shutil.rmtree(copy / name, ignore_errors=True)
    config = StoreConfig(**SMALL_FILES)
    MessageStore.open(copy, config, files=PosixFileSystem(), clock=SystemClock(), entropy=SystemEntropy()).close()
    assert _queues(store) == _queues(copy)
    assert _index(store) == _index(copy)


def _queues(store: Path) -> dict[str, bytes]:
    """Its files that have an entry: a queue that has lost all it had keeps its file."""
    root = store / "consumequeue"
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {path: content for path, content in files.items() if any(content)}


def _index(store: Path) -> list[bytes]:
    """Its files in their order; their names are times. A store without messages may have none."""
    index = store / "index"
    return [path.read_bytes() for path in sorted(index.iterdir())] if index.is_dir() else []
