"""The proxy that fails as told strikes as often as it is told to, also where a connection has ended before."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from .proxy import Fault, Kind, Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S = 60
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_PATIENCE_S)
        yield listener


@pytest.fixture
def proxy(broker: socket.socket) -> Iterator[Proxy]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        free = probe.getsockname()
    with Proxy(free, broker.getsockname()) as proxy:
        yield proxy


def connected(proxy: Proxy, broker: socket.socket) -> tuple[socket.socket, socket.socket]:
    """A client's socket, and the broker's at the proxy's other side."""
    client = socket.create_connection(proxy.address, _PATIENCE_S)
    accepted, _ = broker.accept()
    accepted.settimeout(_PATIENCE_S)
    return client, accepted


@pytest.mark.parametrize("kind", Kind)
def test_a_fault_waits_for_a_connection_that_is_there(proxy: Proxy, broker: socket.socket, kind: Kind) -> None:
    """An answer that comes when its client has gone carries no fault away with it."""
    gone, asked = connected(proxy, broker)
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
    gone.close()  # and the proxy's socket knows when this returns
    proxy.arm(Fault(kind, to_broker=False, after=3))
    with asked:
        asked.sendall(b"answer")
    client, asked = connected(proxy, broker)
    with client, asked:
        asked.sendall(b"answer")
        assert proxy.struck.wait(_PATIENCE_S)
        proxy.heal()


def test_a_connection_is_held_again_that_was_held_before(proxy: Proxy, broker: socket.socket) -> None:
    client, asked = connected(proxy, broker)
    with client, asked:
        for _ in range(2):
            proxy.arm(Fault(Kind.HELD, to_broker=True, after=0))
            client.sendall(b"request")
            assert proxy.struck.wait(_PATIENCE_S)
            asked.setblocking(False)
            with pytest.raises(BlockingIOError):
                asked.recv(1)
            asked.settimeout(_PATIENCE_S)
            proxy.heal()
            assert asked.recv(64) == b"request"
