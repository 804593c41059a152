"""What Linux counts of processes: peak memory (VmHWM: resident, mapped files included), time on a processor."""

from __future__ import annotations

import os
from pathlib import Path

from figures import Usage

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_SERVERS = (b"\0rmqspark\0up\0", b"\0rmqspark\0broker\0", b"\0kafka.Kafka\0")


def below(pid: int) -> list[int]:
    """All processes that this one started, and those that they did."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                found += [int(child), *below(int(child))]
        except OSError:  # it has ended
            continue
    return found


def running(pids: list[int], *words: str) -> list[int]:
    """Those whose command line has these words, one after the other."""
    words_of_it = "\0".join(("", *words, "")).encode()
    return [pid for pid in pids if words_of_it in _read(pid, "cmdline")]


def reset_peak(pid: int) -> None:
    """Lets the peak begin again at what is resident now."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except ProcessLookupError:
        return


def peak_bytes(pid: int) -> int:
    """0 if the process has ended."""
    _, _, rest = _read(pid, "status").partition(b"VmHWM:")
    return int(rest.split()[0]) << 10 if rest else 0


def usage() -> Usage:
    """Of this process and all below it so far, those included that have ended and that somebody waited for."""
    jvm = python = servers = 0.0
    for pid in [os.getpid(), *below(os.getpid())]:
        own, ended = cpu_s(pid)
        if any(words in _read(pid, "cmdline") for words in _SERVERS):
            servers += own + ended
        elif _read(pid, "comm").startswith(b"java"):
            jvm, python = jvm + own, python + ended  # what Spark's JVM starts is Python
        else:
            python += own + ended
    return Usage(jvm, python, servers)


def cpu_s(pid: int) -> tuple[float, float]:
    """Seconds on a processor of a process itself, and of those it started that have ended; zeros if it has ended."""
    _, _, rest = _read(pid, "stat").rpartition(b") ")
    if not rest:
        return 0.0, 0.0
    user, system, ended_user, ended_system = map(int, rest.split()[11:15])
    return (user + system) / _TICKS_A_SECOND, (ended_user + ended_system) / _TICKS_A_SECOND


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
