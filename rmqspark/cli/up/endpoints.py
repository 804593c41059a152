"""The directory of an `rmq up`: taken by one at a time, with `endpoints.json` in it while everything answers."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rmqspark.errors import InvalidArgument, StoreError, StoreLocked

ENDPOINTS = "endpoints.json"


@contextmanager
def claimed(store: Path) -> Iterator[None]:
    """One `rmq up` per directory. What one that was killed left in endpoints.json is gone before anybody reads it."""
    if store.exists() and not store.is_dir():
        raise InvalidArgument(f"--store {store} is not a directory.")
    with _as_store_errors(store):
        store.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory = os.open(store, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreLocked(
                f"Another rmq up has its files in {store}.", hint="Stop it, or choose another place with --store DIR."
            ) from None
        with _as_store_errors(store):
            (store / ENDPOINTS).unlink(missing_ok=True)
        yield
    finally:
        os.close(directory)


@contextmanager
def announced(path: Path, endpoints: Mapping[str, Any]) -> Iterator[None]:
    """The file is there while everything answers; whoever waits for it finds all of it."""
    write_endpoints(path, endpoints)
    try:
        yield
    finally:
        with _as_store_errors(path.parent):
            path.unlink(missing_ok=True)


def write_endpoints(path: Path, endpoints: Mapping[str, Any]) -> None:
    """Replaces the file in one step, with one that nobody else may change: scripts call whom it names. StoreError where
    there is no room for it."""
    draft = path.with_suffix(".tmp")
    with _as_store_errors(path.parent):
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps(endpoints) + "\n")
        draft.replace(path)


@contextmanager
def _as_store_errors(store: Path) -> Iterator[None]:
    """Names the directory, which people chose; of the file they need know nothing."""
    try:
        yield
    except OSError as error:
        hint = "Make room on that disk, see that you may write there, or choose another place with --store DIR."
        raise StoreError(f"Nothing can be written in {store}: {error.strerror}.", hint=hint) from error
