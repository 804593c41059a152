"""Time on a processor, ours and that of servers on this machine, from /proc; nothing where there is no such thing."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class ServerCpu:
    """The processes that listen at addresses, as far as they are on this machine and may be looked at."""

    def __init__(self, addresses: Iterable[str]) -> None:
        ports = {parse_address(address)[1] for address in addresses if _is_here(address)}
        inodes = {inode for port, inode in _listening() if port in ports}
        self.pids = sorted(pid for pid in _pids() if inodes & _sockets(pid)) if inodes else []

    def seconds(self) -> float | None:
        """What they have used so far, all together; None if there are none."""
        used = [_seconds(pid) for pid in self.pids]
        return sum(used) if used else None


def _is_here(address: str) -> bool:
    host, _ = parse_address(address)
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def _listening() -> list[tuple[int, str]]:
    """Port and inode of every listening TCP socket."""
    found: list[tuple[int, str]] = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS:
                    found.append((int(words[1].rpartition(":")[2], 16), words[9]))
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir(_PROC) if name.isdecimal()] if _PROC.exists() else []


def _sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets; none of one that has gone, or is somebody else's."""
    inodes: set[str] = set()
    with suppress(OSError):
        for name in os.listdir(_PROC / str(pid) / "fd"):
            with suppress(OSError):
                target = os.readlink(_PROC / str(pid) / "fd" / name)
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    return inodes


def _seconds(pid: int) -> float:
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
