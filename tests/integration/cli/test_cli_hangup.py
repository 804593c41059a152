"""What becomes of servers when the terminal that they were started on is closed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer

from .conftest import COMMAND, FREE_PORTS, TIMEOUT_S, environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("told", [signal.SIGHUP, signal.SIGTERM])
def test_a_queue_whose_terminal_is_gone_stops_in_order(tmp_path: Path, told: int) -> None:
    """Also where it is told only later, as one that its shell had disowned: nothing that it writes there matters."""
    own, theirs = pty.openpty()
    words = ["up", "--store", "store", *FREE_PORTS]
    with subprocess.Popen(
        [*COMMAND, *words], cwd=tmp_path, env=environment({}), stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown = b""
        while b"Ctrl-C stops it." not in shown:
            shown += os.read(own, 65536)
        os.close(own)
        process.send_signal(told)
        process.wait(TIMEOUT_S)
    assert os.listdir(tmp_path / "store") == ["broker-a"]
    assert "abort" not in os.listdir(tmp_path / "store" / "broker-a")


def test_with_nohup_it_goes_on(processes: Any) -> None:
    """SIGHUP is not heard where it was to be ignored; the first that is heard after it is not taken for a second."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = processes.up()
    finally:
        signal.signal(signal.SIGHUP, before)
    server.process.send_signal(signal.SIGHUP)
    with Producer(server.namesrv) as producer:
        assert producer.send(Message("kept", b"1")).queue_offset == 0
    assert server.end(signal.SIGTERM) == 0
