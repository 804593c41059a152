"""Servers that may have few files open: more clients and queues than that, and what is refused is refused clearly."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.model import Message, MessageQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.command import encode_request
from rmqspark.remoting.address import parse_address

from .load import ONE_TRY, TOPIC
from .servers import BROKER, UpProcess, broker_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]
_PATIENCE_S = 60
_MANY = 400
_QUESTION = b"".join(encode_request(RequestCode.RMQ_CAPABILITIES, 1))


def with_limits(soft: int, hard: int) -> tuple[str, ...]:
    """The words to put before a command that may have so many files open."""
    return ("sh", "-c", f'ulimit -Sn {soft}; ulimit -Hn {hard}; exec "$0" "$@"')


class Clients:
    """Connections to a broker that stay open, each of which has been answered."""

    def __init__(self, server: UpProcess) -> None:
        self._address = parse_address(server.endpoints["brokers"][0])
        self._stack = ExitStack()

    def __enter__(self) -> Clients:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def is_served(self) -> bool:
        """Opens one more and asks something; whether there was an answer."""
        connection = self._stack.enter_context(socket.create_connection(self._address, _PATIENCE_S))
        try:
            connection.sendall(_QUESTION)
            return bool(connection.recv(1))
        except ConnectionError:
            return False


def send_to_each(server: UpProcess, count: int) -> None:
    """A message to each of so many queues of a new topic, and all of them are there."""
    server.create_topic(TOPIC, count)
    queues = [MessageQueue(TOPIC, BROKER, queue_id) for queue_id in range(count)]
    with Producer(server.namesrv, config=ONE_TRY) as producer:
        futures = [producer.send_async(Message(TOPIC, b"x"), queue=queue) for queue in queues]
        assert {future.result(_PATIENCE_S).queue_offset for future in futures} == {0}
    with ClusterClient(server.namesrv, timeout_ms=1000 * _PATIENCE_S) as cluster:
        broker = broker_of(cluster)
        assert {broker.max_offset(TOPIC, queue_id) for queue_id in range(count)} == {1}


def test_a_low_soft_limit_does_no_harm(tmp_path: Path) -> None:
    """`ulimit -n 256`: 400 clients are served at once beside 400 queues that were just written."""
    with UpProcess(tmp_path, with_limits(256, 4096)) as server:
        server.start("--min-free-bytes", "1")
        with Clients(server) as clients:
            assert all(clients.is_served() for _ in range(_MANY))
            send_to_each(server, _MANY)
        assert server.stop() == 0


def test_a_low_hard_limit_is_told(tmp_path: Path) -> None:
    """One line says how many files there may be, how many clients that allows, and how to have more."""
    with UpProcess(tmp_path, with_limits(300, 300)) as server:
        server.start("--min-free-bytes", "1")
        assert server.stop() == 0
        (line,) = [json.loads(line) for line in server.errors.splitlines() if "few files may be open" in line]
    assert line["limit"] == 300
    assert line["connections_taken"] == 58
    assert "ulimit -Hn" in line["hint"]
