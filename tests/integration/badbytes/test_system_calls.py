"""What bad bytes make a server ask of the operating system: to run nothing, to call nobody, to write nowhere else."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.clock import SystemClock
from rmqspark.protocol.records.message_id import offset_msg_id, pack_host
from rmqspark.remoting.address import parse_address
from rmqspark.testing.fuzz.attack import converse, served_codes
from rmqspark.testing.fuzz.canary import Canary
from rmqspark.testing.fuzz.requests import Requests
from rmqspark.testing.fuzz.shapes import Names
from rmqspark.testing.fuzz.victim import Victim

from ..processes import strace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHY_NOT: Final = strace.why_not() if sys.platform == "linux" else "strace is Linux's"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
]

REQUESTS: Final = 2_000
REQUESTS_OF_A_SOAK: Final = 40_000
_AT_A_TIME: Final = 50
_RUNS: Final = ("execve", "execveat")
_CHANGES: Final = (
    *("creat", "mkdir", "mkdirat", "mknod", "mknodat", "rename", "renameat", "renameat2", "truncate"),
    *("unlink", "unlinkat", "rmdir", "link", "linkat", "symlink", "symlinkat", "chmod", "fchmodat"),
)
_CALLS: Final = (*_RUNS, "connect", "open", "openat", *_CHANGES)
_PORT: Final = re.compile(r"htons\((\d+)\)")
_FOR_WRITING: Final = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
PATIENCE_MS: Final = 60_000


@pytest.fixture
def lure() -> Iterator[socket.socket]:
    """Whoever is talked into calling it is noticed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


def traced(directory: Path) -> tuple[Victim, Path]:
    """Servers whose calls are written down; strace's `-D` leaves them their own process id."""
    trace = directory / "trace"
    return Victim(directory / "victim", under=strace.command(trace, _CALLS, "-D", "--seccomp-bpf")), trace


def calls_of(trace: Path) -> list[strace.Call]:
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + PATIENCE_MS
    while "+++ exited" not in (text := trace.read_text()).splitlines()[-1]:
        assert clock.monotonic_ms() < deadline_ms
        clock.sleep_ms(10)
    return strace.parse(line for line in text.splitlines(keepends=True) if "+++" not in line and "---" not in line)


def test_nothing_is_run_called_or_written_elsewhere(
    tmp_path: Path,
    lure: socket.socket,
    amount: Callable[[int, int], int],
    seed: int,
    tell: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests of every kind that are wrong at any level, and name somebody's address wherever one may be named, in a
    message id too: no process is started (S5), nobody is connected to but the cluster (S17), no file is opened for
    writing outside the store (S7)."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    port = lure.getsockname()[1]
    called = f"127.0.0.1:{port}"
    forged = offset_msg_id(pack_host("127.0.0.1", port), 0)
    bad = ("../" * 9 + "x", "/x", "$(touch x)", "`touch x`", "a;touch x", "|touch x")
    names = Names(("fuzz-a", *bad), ("fuzz-g", *bad), ("broker-a", called), (forged,), (called,))
    wanted = amount(REQUESTS, REQUESTS_OF_A_SOAK)
    victim, trace = traced(tmp_path)
    with victim, Canary(victim.namesrv) as canary:
        requests = Requests(Random(f"{seed}/calls"), served_codes(victim.broker), names=names)
        for _ in range(wanted // _AT_A_TIME):
            frames = [requests.next() for _ in range(_AT_A_TIME)]
            converse(victim.broker, b"".join(frame.wire for frame in frames if frame.readable))
            canary.sing()
        canary.check()
        assert victim.stop() == 0
    calls = calls_of(trace)
    assert [call.name for call in calls if call.name in _RUNS and call.result == 0] == ["execve"]  # its own beginning
    ports = {int(found[1]) for call in calls if call.name == "connect" and (found := _PORT.search(call.arguments))}
    assert ports
    assert ports <= {parse_address(address)[1] for address in (victim.namesrv, victim.broker)}
    with pytest.raises(BlockingIOError):
        lure.accept()
    writes = [call for call in calls if call.name in _CHANGES or _FOR_WRITING.search(call.arguments)]
    written = {Path.cwd() / path for call in writes for path in call.paths}
    assert len(written) > 10
    own = victim.directory.absolute()
    assert [path for path in written if own not in path.resolve().parents and path != Path("/dev/null")] == []
    tell(f"{wanted} requests, seed {seed}: {len(calls)} calls, {len(written)} paths")
