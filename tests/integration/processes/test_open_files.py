"""Servers that may have few files open: more clients and queues than that, and what is refused is refused clearly."""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.producer import Producer
from rmqspark.client.pulling.received import received_all
from rmqspark.errors import NotWritable
from rmqspark.model import Message, MessageQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.remoting.address import parse_address

from .load import ONE_TRY, TOPIC
from .servers import BROKER, UpProcess, broker_of

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.faults]
_PATIENCE_S = 60
_MANY = 400
_CROWD, _TAKEN = 600, 100
_FEW, _QUEUES = 20, 10
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

    def connect(self) -> socket.socket:
        """One more, of which the server need not have heard yet."""
        return self._stack.enter_context(socket.create_connection(self._address, _PATIENCE_S))

    def is_answered(self, connection: socket.socket) -> bool:
        """Asks something; whether there was an answer."""
        try:
            connection.sendall(_QUESTION)
            return bool(connection.recv(1 << 12))
        except ConnectionError:
            return False


def send_to_each(server: UpProcess, count: int) -> None:
    """A message to each of so many queues of a new topic, and all of them are there."""
    server.create_topic(TOPIC, count)
    queues = [MessageQueue(TOPIC, BROKER, queue_id) for queue_id in range(count)]
    with Producer(server.namesrv, config=ONE_TRY) as producer:
        futures = [producer.send_async(Message(TOPIC, b"x"), queue=queue) for queue in queues]
        assert {future.result(_PATIENCE_S).queue_offset for future in futures} == {0}
    assert all(stored_in_each(server, count).values())


def stored_in_each(server: UpProcess, count: int) -> dict[int, bool]:
    """For each queue, whether there is a message in it."""
    with ClusterClient(server.namesrv, timeout_ms=1000 * _PATIENCE_S) as cluster:
        broker = broker_of(cluster)
        return {queue_id: broker.max_offset(TOPIC, queue_id) > 0 for queue_id in range(count)}


def refused(producer: Producer, queue: MessageQueue) -> str | None:
    """Sends a message; why it was not taken, if it was not."""
    try:
        producer.send(Message(TOPIC, b"x"), queue=queue)
    except NotWritable as refusal:
        return str(refusal)
    return None


def leave_few_files(pid: int) -> None:
    """The process may open this many more, and then none."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    newest = max(map(int, os.listdir(f"/proc/{pid}/fd")))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (newest + 1 + _FEW, hard))


def read_of_each(server: UpProcess, count: int) -> list[bytes]:
    """The body of the first message of each queue."""
    with ClusterClient(server.namesrv, timeout_ms=1000 * _PATIENCE_S) as cluster:
        broker = broker_of(cluster)
        chunks = [broker.bulk_read(TOPIC, number, 0, 1, max_count=1, max_bytes=1 << 10) for number in range(count)]
        return [received_all(got.records, BROKER, got.sizes)[0].body for got in (chunk.result() for chunk in chunks)]


def test_a_low_soft_limit_does_no_harm(tmp_path: Path) -> None:
    """`ulimit -n 256`: 400 clients are served at once beside 400 queues that were just written."""
    with UpProcess(tmp_path, with_limits(256, 4096)) as server:
        server.start("--min-free-bytes", "1")
        with Clients(server) as clients:
            assert all(clients.is_answered(clients.connect()) for _ in range(_MANY))
            send_to_each(server, _MANY)
        assert server.stop() == 0


def test_more_queues_than_files(tmp_path: Path) -> None:
    """With a hard limit of 300, all of 400 queues are written within a moment, read, and there after a kill."""
    with UpProcess(tmp_path, with_limits(300, 300)) as server:
        server.start("--min-free-bytes", "1")
        send_to_each(server, _MANY)
        assert read_of_each(server, _MANY) == [b"x"] * _MANY
        server.kill()
        server.start("--min-free-bytes", "1")
        assert read_of_each(server, _MANY) == [b"x"] * _MANY
        assert server.stop() == 0
        assert "Too many open files" not in server.errors
        assert "Traceback" not in server.errors


def test_more_clients_than_files(tmp_path: Path) -> None:
    """Of 600 clients that come at once those too many are sent away; the others and the store are served as ever, and
    when clients have gone there is room for new ones."""
    with UpProcess(tmp_path, with_limits(300, 300)) as server, ExitStack() as stack:
        server.start("--min-free-bytes", "1")
        producer = stack.enter_context(Producer(server.namesrv, config=ONE_TRY))
        producer.send(Message(TOPIC, b"before"))
        for _ in range(2):
            with Clients(server) as clients:
                while not clients.is_answered(clients.connect()):  # those of the round before are going
                    pass
                with server.frozen():
                    crowd = [clients.connect() for _ in range(_CROWD)]
                answers = [clients.is_answered(connection) for connection in crowd]
                assert 0 < sum(answers) < _TAKEN
                assert not clients.is_answered(clients.connect())
                assert clients.is_answered(crowd[answers.index(True)])
                for number in range(_MANY // 4):
                    producer.send(Message(f"{TOPIC}-{number}", b"meanwhile"))
        assert server.stop() == 0
        assert "Traceback" not in server.errors


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_without_a_file_left(tmp_path: Path) -> None:
    """Should files run out all the same, newcomers are sent away, and sends refused that need one: by name, and what
    was acknowledged is there. With files again everything is served as before, in the same life."""
    with UpProcess(tmp_path) as server, ExitStack() as stack:
        server.start("--min-free-bytes", "1")
        server.create_topic(TOPIC, _QUEUES)
        queues = [MessageQueue(TOPIC, BROKER, queue_id) for queue_id in range(_QUEUES)]
        producer = stack.enter_context(Producer(server.namesrv, config=ONE_TRY))
        producer.send(Message(TOPIC, b"x"), queue=queues[0])
        with Clients(server) as clients:
            leave_few_files(server.process.pid)
            answers = [clients.is_answered(clients.connect()) for _ in range(3 * _FEW)]
            assert sum(answers) < 2 * _FEW
            refusals = {queue: refusal for queue in queues[1:] if (refusal := refused(producer, queue)) is not None}
        assert refusals
        assert all("Too many open files" in refusal for refusal in refusals.values())
        while refused(producer, queues[0]):  # the clients are going
            pass
        taken = [queue.queue_id for queue in queues if queue not in refusals]
        assert stored_in_each(server, _QUEUES) == {queue_id: queue_id in taken for queue_id in range(_QUEUES)}
        with Clients(server) as clients:
            assert clients.is_answered(clients.connect())
        assert server.stop() == 0
        assert "Traceback" not in server.errors


def test_a_low_hard_limit_is_told(tmp_path: Path) -> None:
    """One line says how many files there may be, how many clients that allows, and how to have more."""
    with UpProcess(tmp_path, with_limits(300, 300)) as server:
        server.start("--min-free-bytes", "1")
        assert server.stop() == 0
        (line,) = [json.loads(line) for line in server.errors.splitlines() if "few files may be open" in line]
    assert line["limit"] == 300
    assert line["connections_taken"] == 58
    assert "ulimit -Hn" in line["hint"]
