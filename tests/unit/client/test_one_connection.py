"""What a client says to a broker goes over one connection."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from rmqspark.client.connections import Connections
from rmqspark.errors import AlreadyClosed

THREADS = 8


def test_threads_share_one_connection_to_a_broker() -> None:
    """However many ask at once, the first time and after it was lost."""
    connections = Connections(connect_timeout_ms=10_000)
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(THREADS) as threads:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        found = set(threads.map(connections.to, [address] * 50))
        (first,) = found
        first.close()
        found |= set(threads.map(connections.to, [address] * 50))
        assert len(found) == 2
        connections.close()
    assert all(connection.closed for connection in found)
    with pytest.raises(AlreadyClosed):
        connections.to(address)
