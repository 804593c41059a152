"""Which operation of a memory file system fails, and how: planned by the test, asked before every operation."""

from __future__ import annotations

from collections import deque
from errno import EIO
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

CHANGES = frozenset(
    {
        "create",
        "pwrite",
        "fsync",
        "truncate",
        "rename",
        "unlink",
        "make_directory",
        "remove_directory",
        "sync_directory",
    }
)
"""The operations after which a disk is not what it was. The others are open, pread, listdir and lock."""

_LOG_LENGTH = 100_000


class ProcessDied(BaseException):
    """The process ends here. Not an `Exception`, for nothing that handles errors runs after a kill."""


class Operation(NamedTuple):
    """One call, as the log has it."""

    name: str
    path: str


class Failure(NamedTuple):
    """What happens instead of an operation. A `pwrite` first writes `after_bytes` of what it was given."""

    error: BaseException
    after_bytes: int = 0


class DiskFaults:
    """Counts and logs operations, and says which of them fail."""

    def __init__(self) -> None:
        self.log: deque[Operation] = deque(maxlen=_LOG_LENGTH)
        self.failed: Operation | None = None
        self._next: dict[str, deque[Failure]] = {}
        self._countdown = 0
        self._counted: Collection[str] = ()
        self._at_zero: Failure | None = None
        self.is_dead = False
        """The process has met its end, and does nothing more."""

    def fail_next(self, operation: str, error: OSError | None = None, *, after_bytes: int = 0) -> None:
        failure = Failure(error or OSError(EIO, "planned by the test"), after_bytes)
        self._next.setdefault(operation, deque()).append(failure)

    def fail_at(self, count: int, failure: Failure, counted: Collection[str]) -> None:
        self.failed = None
        self._countdown, self._at_zero, self._counted = count, failure, counted

    def before(self, operation: str, path: str) -> Failure | None:
        """What the operation that is about to happen meets; None if it goes well."""
        if self.is_dead:
            raise ProcessDied
        self.log.append(Operation(operation, path))
        failure = self._due(operation)
        if failure is not None:
            self.failed = self.log[-1]
        if failure is not None and isinstance(failure.error, ProcessDied):
            self.is_dead = True
        return failure

    def cancel(self) -> None:
        """Nothing that was planned happens any more."""
        self._next.clear()
        self._at_zero = None

    def restart(self) -> None:
        """A new process: nothing is planned for it."""
        self.cancel()
        self.is_dead = False

    def _due(self, operation: str) -> Failure | None:
        if self._at_zero is not None and (not self._counted or operation in self._counted):
            self._countdown -= 1
            if self._countdown == 0:
                failure, self._at_zero = self._at_zero, None
                return failure
        waiting = self._next.get(operation)
        return waiting.popleft() if waiting else None
