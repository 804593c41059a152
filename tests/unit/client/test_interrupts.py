"""Ctrl-C at a bad moment."""

from __future__ import annotations

import pytest

from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.remoting.frame_writer import FrameWriter
from rmqspark.testing.scripted_peer import ScriptedPeer, wait_for_close


def test_ctrl_c_in_the_middle_of_a_command_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a command may be out: nothing may follow it on that connection, and the interrupt is the caller's."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(FrameWriter, "write", interrupted)
    with ScriptedPeer([wait_for_close()]) as peer:
        connection = BlockingConnection(peer.address)
        with pytest.raises(KeyboardInterrupt):
            connection.submit(14, timeout_ms=1000)
        assert connection.closed
        connection.close()
