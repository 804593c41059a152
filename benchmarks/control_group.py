"""A cap on the processor time of processes, by Linux's control groups, of either version."""

from __future__ import annotations

import itertools
import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 20_000  # short, so that a capped process answers soon
_numbers = itertools.count(1)


@contextmanager
def control_group(share: float, pids: Iterable[int]) -> Iterator[None]:
    """Lets processes, and all that they start from now on, use that share of a core together; they go back at the end.

    SystemExit where no control group may be made.
    """
    parent = _parent()
    group = parent / f"rmq-bench-{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
        _cap(group, share)
        _move(pids, group)
    except OSError as error:
        raise SystemExit(
            f"This part needs control groups that it may make, with the processor's limits: {error}"
        ) from error
    try:
        yield
    finally:
        _remove(group, parent)


def _parent() -> Path:
    """Where this process is in the tree that has the processor's limits."""
    own = dict(line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    if "cpu" in own or "cpu,cpuacct" in own:
        name = "cpu" if "cpu" in own else "cpu,cpuacct"
        return _ROOT / name / own[name].lstrip("/")
    return _ROOT  # version 2: processes are not in the inner groups, so a group of ours has to be beside them


def _cap(group: Path, share: float) -> None:
    quota_us = int(share * _PERIOD_US)
    if (group / "cpu.cfs_quota_us").exists():
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    else:
        (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")


def _move(pids: Iterable[int], group: Path) -> None:
    for pid in pids:
        try:
            (group / "cgroup.procs").write_text(str(pid))
        except ProcessLookupError:  # it has ended
            continue


def _remove(group: Path, parent: Path) -> None:
    """A group can be removed when nobody is in it; those that end just now may stay in it for a moment."""
    for _ in range(100):
        _move(map(int, (group / "cgroup.procs").read_text().split()), parent)
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)
        else:
            return
