"""What a client says to a broker goes over one connection."""

from __future__ import annotations

import socket
import threading
import tracemalloc
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from rmqspark.client.cluster.connections import Connections
from rmqspark.errors import AlreadyClosed, Unreachable
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.remoting.blocking import BlockingConnection

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


def test_a_connection_that_was_lost_keeps_no_memory() -> None:
    """Clients that live long hold the last one to each address where a broker has been; it has read large frames."""
    answer = encode_response(1, ResponseCode.SUCCESS, body=bytes(8 << 20))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        tracemalloc.start()
        try:
            lost = BlockingConnection(f"127.0.0.1:{listener.getsockname()[1]}")
            peer, _ = listener.accept()
            with peer:
                for part in answer:
                    peer.sendall(part)
            lost._thread.join(60)
            assert lost.closed
            assert tracemalloc.get_traced_memory()[0] < 50_000
        finally:
            tracemalloc.stop()


def test_who_comes_later_does_not_make_the_line_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who waited for a connection are served, and then it is there for all: else who sends without a pause would
    be in line for ever, its messages for longer than they have time."""
    connections = Connections(connect_timeout_ms=10_000)
    may_connect = threading.Event()

    def connect(address: str) -> BlockingConnection:
        may_connect.wait(60)
        return BlockingConnection(address)

    def another_asks(_: Any) -> None:
        asked = threads.submit(connections.to, address)
        slot: Any = connections._slots[address]
        while not (slot._waiting or slot._changed._waiters):  # in the line, or waiting for its end
            pass
        lines.append(len(slot._waiting))
        later.append(asked)

    monkeypatch.setattr(connections, "_open", connect)
    later: list[Future[BlockingConnection]] = []
    lines: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        first = connections.soon(address)
        assert isinstance(first, Future)
        first.add_done_callback(another_asks)
        may_connect.set()
        connection = first.result(60)
        while not later:
            pass
        assert later[0].result(60) is connection
        assert lines == [0]
        connections.close()


def test_places_where_nobody_is_any_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers move, and whoever registers some may invent addresses; a connection stays the same all along."""
    monkeypatch.setattr("rmqspark.client.cluster.connections._MANY", 10)
    connections = Connections(connect_timeout_ms=10_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        live = connections.to(address)
        monkeypatch.setattr(connections, "_open", nobody)
        for number in range(100):
            with pytest.raises(Unreachable):
                connections.to(f"10.0.0.{number}:1")
        assert len(connections._slots) <= 40
        assert connections.to(address) is live
        connections.close()
    assert live.closed


def nobody(address: str) -> BlockingConnection:
    raise Unreachable("nobody", address=address)
