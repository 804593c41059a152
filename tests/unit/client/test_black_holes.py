"""Brokers at addresses where nobody says yes or no, as behind a firewall: who waits for them, and for how long."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.connections import Connections
from rmqspark.client.sending.delivery import Delivery, Parcel
from rmqspark.client.sending.outgoing import Outgoing
from rmqspark.client.sending.selection import Target
from rmqspark.errors import AlreadyClosed, Unreachable
from rmqspark.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rmqspark.protocol.codes import RequestCode
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for_close

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG_MS = 60_000  # longer than a test may take
STORED = {"msgId": "OFFSET-ID", "queueId": "0", "queueOffset": "41"}


@contextmanager
def black_hole() -> Iterator[str]:
    """An address that answers no attempt to connect: its listener's queue is full."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = opened.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def cluster_at(address: str) -> Iterator[ClusterClient]:
    """A client of a topic `t` on one broker, there."""
    route = TopicRouteData([QueueData("broker-0", 1, 1, 6)], [BrokerData("c", "broker-0", {0: address})])
    script = [expect(RequestCode.GET_ROUTEINFO_BY_TOPIC), answer(body=route.encode(standard=True)), wait_for_close()]
    with ScriptedPeer(script) as names, ClusterClient(names.address, timeout_ms=LONG_MS) as cluster:
        yield cluster


def parcel(number: int = 0) -> Parcel:
    return Parcel("t", ("ID",), Outgoing(b"%d" % number, "", 0, 0))


def test_all_who_wait_for_a_connection_share_its_failure() -> None:
    """They are told together, instead of one after the other each after a time of its own."""
    connections = Connections(connect_timeout_ms=50)
    with black_hole() as address, ThreadPoolExecutor(4) as threads:
        failures = {id(error) for error in threads.map(lambda _: connections.soon(address).exception(60), range(4))}
        assert len(failures) == 1
        with pytest.raises(Unreachable, match=address):
            connections.to(address)
    connections.close()


def test_a_send_is_given_up_when_its_time_is_over() -> None:
    """However long a connection may take to be made."""
    with black_hole() as address, cluster_at(address) as cluster:
        delivery = Delivery(cluster, "g", tries=1)
        cluster.route_to_publish("t")  # which may take longer than that, and is another error
        with pytest.raises(Unreachable, match=r"broker-0.* within \d+ ms"):
            delivery.deliver(parcel(), Target(), 20)


def test_asynchronous_sends_wait_for_no_connection() -> None:
    """They are under way together; closing ends them at once."""
    with black_hole() as address, ThreadPoolExecutor(1) as threads, cluster_at(address) as cluster:
        delivery = Delivery(cluster, "g", tries=3)
        futures = [delivery.deliver_later(parcel(), Target(), LONG_MS, threads) for _ in range(3)]
        assert not any(future.done() for future in futures)
        cluster.close()
        for future in futures:
            assert isinstance(future.exception(60), AlreadyClosed)


def test_asynchronous_sends_keep_their_order_while_a_connection_is_made() -> None:
    """The first of them cause it to be made, some may come while it is, and others after."""
    count = 200
    script = [expect(RequestCode.SEND_MESSAGE_V2), answer(**STORED)] * count
    with (
        ScriptedPeer([*script, wait_for_close()]) as broker,
        ThreadPoolExecutor(1) as threads,
        cluster_at(broker.address) as cluster,
    ):
        delivery = Delivery(cluster, "g", tries=1)
        for future in [delivery.deliver_later(parcel(n), Target(), LONG_MS, threads) for n in range(count)]:
            future.result(60)
    assert [int(request.body) for request in broker.requests] == list(range(count))
