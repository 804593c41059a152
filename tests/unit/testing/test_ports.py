"""Ports that are kept for servers which come and go."""

from __future__ import annotations

import socket
import sys

import pytest

from rmqspark.testing.ports import reserved_port

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a server listen beside the reservation"
)


def test_a_reserved_port_is_there_for_one_server_after_the_other() -> None:
    """Servers may listen on it as often as they like; while none does, whoever connects is refused."""
    with reserved_port(-2) as port:
        for number in (port, port - 2):
            for _ in range(2):
                with socket.create_server(("127.0.0.1", number)) as server:
                    socket.create_connection(server.getsockname()).close()
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", number))


def test_a_reserved_port_is_nobody_else_s() -> None:
    """No socket without a wish of its own is given it, and none that shares no addresses may take it."""
    with reserved_port() as port:
        found = set()
        for _ in range(1_000):
            with socket.create_server(("127.0.0.1", 0)) as other:
                found.add(other.getsockname()[1])
        assert port not in found
        with socket.socket() as greedy, pytest.raises(OSError, match="in use"):
            greedy.bind(("127.0.0.1", port))
    with socket.socket() as greedy:
        greedy.bind(("127.0.0.1", port))
