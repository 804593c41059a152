"""What the operating system refuses a store, said so that an operator can do something."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from errno import EACCES, EDQUOT, EIO, EMFILE, ENFILE, ENOSPC, EPERM, EROFS
from typing import TYPE_CHECKING, Final

from rmqspark.errors import StoreError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from rmqspark.store.files import FileSystem

_NOT_ALLOWED: Final = (EACCES, EPERM, EROFS)
_UNREADABLE: Final = (
    "If it happens again, copy the store to another disk by a tool that puts zeros in the place of what cannot be read "
    "(ddrescue): rmq store check says what is wrong with the copy, and docs/operations.md what helps."
)
_NEEDED_MIB: Final = 1  # for what a new store consists of, and for what recovery notes down


def advice(error: OSError) -> str:
    """What to look at where a file could not be opened or written."""
    if error.errno in (EMFILE, ENFILE):
        return "Raise the limit of open files (ulimit -n), or have fewer clients at once."
    return "Is the disk full or failing?"


@contextmanager
def as_store_errors(deed: str, root: str | os.PathLike[str], files: FileSystem, hint: str = "") -> Iterator[None]:
    """An OSError inside becomes a StoreError: which store, what could not be done to it, and what to look at; of a full
    disk how much room there is and how much is needed. `hint` is added to what is said of a full disk."""
    try:
        yield
    except OSError as error:
        refusal = f"The store {root} cannot be {deed}: {error}."
        if error.errno not in (ENOSPC, EDQUOT):
            raise StoreError(refusal, hint=_hint_of(error)) from error
        with suppress(OSError):  # the directory may not even be there
            refusal += f" {files.disk_usage().free_bytes} bytes are free."
        advice = f"At least {_NEEDED_MIB} MiB must be free on that disk: make room, or keep the store elsewhere."
        raise StoreError(refusal, hint=f"{advice} {hint}".strip()) from error


def _hint_of(error: OSError) -> str:
    if error.errno in _NOT_ALLOWED:
        return "See whose files these are, and whether that disk is mounted read-only."
    return _UNREADABLE if error.errno == EIO else ""
