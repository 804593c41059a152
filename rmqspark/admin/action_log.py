"""What was changed through REST and console: who, when, what, and how it ended. One JSON object a line.

Written before a change begins and again when it is over, so that one that was cut off is there, too. The file is
bounded: what is old goes to `FILE.1`, and what was there before is dropped. One process has it at a time, by a lock on
`FILE.lock`: two would give their changes the same numbers.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from errno import ENOSPC
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from rmqspark.errors import RmqError, StoreError, StoreLocked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.clock import Clock

log = structlog.get_logger("rmqspark.admin")

MOST_BYTES: Final = 16 << 20
_KEPT: Final = 10_000  # in memory, to be listed
_LONGEST: Final = 1_000  # of each text of others

BEGUN, DONE, FAILED = "begun", "done", "failed"


@dataclass(frozen=True, slots=True)
class Action:
    """`number` orders them. `effect` says what came of it in words; empty while it is under way."""

    number: int
    at_ms: int
    who: str
    name: str
    subject: str
    detail: str
    outcome: str = BEGUN
    effect: str = ""


class ActionLog:
    """Owns the file until it is closed. Safe to be used by several threads."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """StoreError where the file cannot be read or written: nothing is changed that cannot be recorded. StoreLocked
        where it is another's."""
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._actions: dict[int, Action] = {}
        self._order: deque[int] = deque()
        with self._as_store_errors():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_descriptor = _locked(path)
            try:
                for each in (path.with_name(path.name + ".1"), path):
                    for action in _read(each):
                        self._keep(action)
                self._append(b"")
            except OSError:
                self.close()
                raise
        self._next = max(self._actions, default=0) + 1

    def close(self) -> None:
        """Lets others have the file."""
        os.close(self._lock_descriptor)

    def newest(self, limit: int, before: int | None = None) -> list[Action]:
        """The newest first; those with smaller numbers than `before`."""
        with self._lock:
            numbers = reversed(self._order)
            chosen = islice((n for n in numbers if before is None or n < before), limit)
            return [self._actions[number] for number in chosen]

    @contextmanager
    def recording(self, who: str, name: str, subject: str, detail: str) -> Iterator[Effect]:
        """Around a change; what it is to be remembered by is said to the `Effect`."""
        with self._lock:
            action = Action(self._next, self._clock.now_ms(), who, name, _cut(subject), _cut(detail))
            self._next += 1
            self._write(action)
        effect = Effect()
        try:
            yield effect
        except BaseException as error:
            story = error.message if isinstance(error, RmqError) else type(error).__name__
            before = f"{effect.story}, then: " if effect.story else ""
            self._end(replace(action, outcome=FAILED, effect=_cut(f"{before}{story}")))
            raise
        self._end(replace(action, outcome=DONE, effect=_cut(effect.story)))

    def _end(self, action: Action) -> None:
        """What is done is done, and what has failed has, whether that can be recorded or not: who asked is not to ask
        again. That it began is on the record."""
        with self._lock:
            try:
                self._write(action)
            except StoreError as error:
                self._keep(action)
                log.error("how a change ended is not recorded", number=action.number, error=str(error))

    def _write(self, action: Action) -> None:
        line = json.dumps(asdict(action), ensure_ascii=True).encode() + b"\n"
        with self._as_store_errors():
            if self._path.exists() and self._path.stat().st_size + len(line) > MOST_BYTES:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._append(line)
        self._keep(action)

    def _append(self, line: bytes) -> None:
        """On disk when this returns: after a power loss the next change would get the number of one that is done."""
        is_new = not self._path.exists()
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            line = line if _is_at_line(descriptor) else b"\n" + line
            if os.write(descriptor, line) < len(line):
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            _sync_directory(self._path.parent)

    def _keep(self, action: Action) -> None:
        if action.number not in self._actions:
            self._order.append(action.number)
        self._actions[action.number] = action
        if len(self._order) > _KEPT:
            del self._actions[self._order.popleft()]

    @contextmanager
    def _as_store_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"What is changed cannot be recorded in {self._path}: {error.strerror}.",
                hint="Name another file with --action-log, or make room.",
            ) from error


class Effect:
    """What a change is to be remembered by; of one that fails, what it did before."""

    def __init__(self) -> None:
        self.story = ""


def _locked(path: Path) -> int:
    """A descriptor that keeps others from the file as long as it is open. OSError, StoreLocked."""
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise StoreLocked(
            f"Another rmq admin records in {path} what is changed.", hint="Name another file with --action-log."
        ) from None
    return descriptor


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cut(text: str) -> str:
    """Half a character is written as its code: no answer could have it, and so none the record."""
    whole = text[: _LONGEST + 1].encode("utf-8", "backslashreplace").decode()
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}…"


def _is_at_line(descriptor: int) -> bool:
    """Whether the file ends with a whole line: one that was cut off must not take the next along."""
    size = os.fstat(descriptor).st_size
    return not size or os.pread(descriptor, 1, size - 1) == b"\n"


def _read(path: Path) -> Iterator[Action]:
    """The lines that are whole; one that was cut off by a kill is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield _action(json.loads(line))
            except (ValueError, TypeError, KeyError):
                continue


def _action(record: dict[str, Any]) -> Action:
    return Action(
        int(record["number"]),
        int(record["at_ms"]),
        *(_cut(str(record[name])) for name in ("who", "name", "subject", "detail", "outcome", "effect")),
    )
