"""A process that may have only so much memory, its share of the page cache included: a cgroup of its own."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path("/sys/fs/cgroup")
_JOIN = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"')


@contextmanager
def limited(limit_bytes: int) -> Iterator[tuple[str, ...]]:
    """The words to put before a command. Raises OSError where this user may not make such a group."""
    parent, name = (_ROOT / "memory", "memory.limit_in_bytes") if (_ROOT / "memory").is_dir() else (_ROOT, "memory.max")
    group = parent / f"rmqspark-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / name).write_text(str(limit_bytes))
        with suppress(FileNotFoundError):
            (group / "memory.swappiness").write_text("0")
        yield (*_JOIN, str(group))
    finally:
        group.rmdir()  # its processes have ended by now


def why_not() -> str | None:
    """Why memory cannot be limited here; None where it can."""
    try:
        with limited(1 << 30):
            return None
    except OSError as error:
        return f"no memory cgroup can be made: {error}"
