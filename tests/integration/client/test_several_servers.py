"""Clusters of several brokers and name servers, some of which go and come back."""

from __future__ import annotations

import socket
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import ConnectionLost, RmqError, TopicNotFound, Unreachable
from rmqspark.remoting.access import Access, Tls
from rmqspark.testing import LocalCluster, cluster
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.model import MessageQueue, SendReceipt

pytestmark = pytest.mark.integration
BROKERS = {"broker-a", "broker-b"}


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    with cluster(brokers=2, namesrvs=2) as local:
        yield local


def send(producer: Producer, topic: str, count: int) -> list[SendReceipt]:
    return [producer.send(Message(topic, b"%d" % n)) for n in range(count)]


def names(receipts: list[SendReceipt]) -> set[str]:
    return {receipt.queue.broker_name for receipt in receipts}


def read(namesrv: str, topic: str) -> Counter[str]:
    """The ids of all messages of a topic, and how many there are of each."""
    with PullConsumer(namesrv) as consumer, ClusterClient(namesrv) as client:
        queues = consumer.queues(topic)
        ends = {queue: client.broker(queue.broker_name).max_offset(topic, queue.queue_id) for queue in queues}
        consumer.assign(queues)
        consumer.seek_to_beginning()
        found: Counter[str] = Counter()
        while any(consumer.position(queue) < end for queue, end in ends.items()):
            found.update(message.msg_id for message in consumer.poll(1_000))
    return found


def test_a_topic_is_made_on_all_brokers_and_spread_over_them(mq: LocalCluster) -> None:
    """Every broker has the queues, every name server the route, and messages take the queues of all in turn."""
    with AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        admin.create_topic("spread", queues=3)
        for namesrv in mq.namesrv.split(";"):
            with ClusterClient(namesrv) as client:
                queues = [(queue.broker_name, queue.queue_id) for queue in client.publish_queues("spread")]
                assert queues == [(broker, n) for broker in sorted(BROKERS) for n in range(3)]
        receipts = send(producer, "spread", 60)
        assert set(Counter(receipt.queue for receipt in receipts).values()) == {10}
        assert read(mq.namesrv, "spread") == Counter(receipt.msg_id for receipt in receipts)


def test_routes_that_are_looked_up_together(mq: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those that are found one by one, and not asked for again; one that is not there is told when used."""
    topics = [f"together-{number}" for number in range(300)]
    with AdminClient(mq.namesrv) as admin:
        for topic in topics[:3]:
            admin.create_topic(topic, queues=2)
    with ClusterClient(mq.namesrv) as one_by_one, ClusterClient(mq.namesrv) as client:
        client.look_up(topics)
        asked: list[str] = []
        alone = client.name_servers.route
        monkeypatch.setattr(client.name_servers, "route", lambda topic, *_: asked.append(topic) or alone(topic))
        assert [client.route(topic) for topic in topics[:3]] == [one_by_one.route(topic) for topic in topics[:3]]
        assert asked == []
        with pytest.raises(TopicNotFound):
            client.route(topics[3])
        client.expire_route(topics[0])
        client.look_up(topics[:2])
        assert client.route(topics[0]) == one_by_one.route(topics[0])
        assert asked == [topics[3], topics[0]]  # one alone is left to whoever uses it


def test_nobody_answers_a_look_up() -> None:
    """It is told when a route is used."""
    with ClusterClient("127.0.0.1:1") as client:
        client.look_up(["a", "b"])
        with pytest.raises(Unreachable):
            client.route("a")


def test_a_broker_that_dies_is_avoided_and_used_again() -> None:
    """No send fails while it is away, ten seconds after the failure it gets its share again, and nothing is lost."""
    clock = ManualClock()
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, Producer(mq.namesrv, clock=clock) as producer:
        admin.create_topic("orders", queues=2)
        receipts = send(producer, "orders", 8)
        assert names(receipts) == BROKERS
        mq.stop_broker("broker-a")
        away = send(producer, "orders", 8)
        assert names(away) == {"broker-b"}
        mq.start_broker("broker-a")
        soon = send(producer, "orders", 8)
        clock.advance(seconds=31)  # a route is 30 s old at most, and this one has no broker-a
        later = send(producer, "orders", 8)
        assert names(later) == BROKERS
        assert read(mq.namesrv, "orders") == Counter(receipt.msg_id for receipt in (*receipts, *away, *soon, *later))


def test_a_route_that_has_gone_stale_costs_a_retry_and_no_message() -> None:
    """A producer whose name server died before the broker did knows of nothing, and still every message arrives."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        admin.create_topic("orders", queues=2)
        assert names(send(producer, "orders", 4)) == BROKERS
        mq.stop_name_server(0)
        mq.stop_broker("broker-b")
        assert names(send(producer, "orders", 20)) == {"broker-a"}
        producer.send_async(Message("orders", b"later")).result(60)
        producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])


def exchange_places(mq: LocalCluster) -> None:
    """Each broker comes back, with its store, at the address of the other, as containers do that start again."""
    for name in BROKERS:
        mq.stop_broker(name)
    ports = mq._ports
    ports["broker-a"], ports["broker-b"] = ports["broker-b"], ports["broker-a"]
    for name in BROKERS:
        mq.start_broker(name)


def told(queue: MessageQueue, number: int) -> Message:
    return Message(queue.topic, f"{queue.broker_name}-{number}".encode())


def test_who_reads_does_not_take_another_broker_for_the_one_at_its_address_before() -> None:
    """Its queues are called alike and have other messages: it is asked for nothing, and the broker looked for anew."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, PullConsumer(mq.namesrv, "g") as consumer:
        admin.create_topic("orders", queues=1)
        queues = consumer.queues("orders")
        with Producer(mq.namesrv) as producer:
            for queue in queues:
                producer.send(told(queue, 0), queue=queue)
        consumer.assign(queues)
        assert len(polled(consumer, 2)) == 2
        exchange_places(mq)
        with Producer(mq.namesrv) as producer:
            for queue in queues:
                producer.send(told(queue, 1), queue=queue)
        assert polled(consumer, 2) == {f"{queue.broker_name}-1": queue for queue in queues}


def polled(consumer: PullConsumer, count: int) -> dict[str, MessageQueue]:
    """So many messages, and where they were; a broker that is not there for a moment is asked again."""
    found: dict[str, MessageQueue] = {}
    while len(found) < count:
        with suppress(Unreachable, ConnectionLost):
            found |= {message.body.decode(): message.queue for message in consumer.poll(1_000)}
    return found


def test_with_every_broker_left_alone_messages_still_go_somewhere() -> None:
    """A cluster of one broker that was away is used the moment it is back, whatever is held against it."""
    config = SendConfig(retry_times_when_send_failed=0)
    with cluster() as mq, AdminClient(mq.namesrv) as admin, Producer(mq.namesrv, config=config) as producer:
        admin.create_topic("orders", queues=1)
        send(producer, "orders", 1)
        mq.stop_broker("broker-a")
        with pytest.raises(RmqError):
            send(producer, "orders", 1)
        mq.start_broker("broker-a")
        assert names(send(producer, "orders", 1)) == {"broker-a"}


def test_one_of_two_name_servers_is_enough(mq: LocalCluster) -> None:
    """Whichever is away, topics are made, sent to and read; the one that comes back is told everything."""
    for number in range(2):
        topic = f"half-{number}"
        mq.stop_name_server(number)
        try:
            with AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
                admin.create_topic(topic, queues=1)
                receipts = send(producer, topic, 4)
                assert read(mq.namesrv, topic) == Counter(receipt.msg_id for receipt in receipts)
        finally:
            address = mq.start_name_server(number)
        with ClusterClient(address) as client:
            while set(client.cluster_info().brokerAddrTable) != BROKERS:  # they try again within half a second
                client.clock.sleep_ms(5)
            assert topic in client.topics()


def test_a_name_server_that_hangs_leaves_time_for_the_others(mq: LocalCluster) -> None:
    """The first message of a producer is sent, also to a topic that is not there yet; the first name server would take
    all the time there is for that. Where no other is there it has all of it."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # the system accepts, and nobody answers
        address = f"127.0.0.1:{hanging.getsockname()[1]}"
        for number, topic in enumerate(("hangs-known", "hangs-new")):
            if number == 0:
                with AdminClient(mq.namesrv) as admin:
                    admin.create_topic(topic)
            with Producer(f"{address};{mq.namesrv}") as producer:
                assert producer.send(Message(topic, b"1")).queue.topic == topic
        told = f"{address} did not answer .* within 1100 ms"
        with (
            ClusterClient(f"{address};127.0.0.1:1", timeout_ms=1_100) as client,
            pytest.raises(Unreachable, match=told),
        ):
            client.route("hangs-known")


def test_a_name_server_that_hangs_in_the_handshake_is_said_to() -> None:
    """With all of the client's time for it, as where no other is there, the connection says what it was waiting for."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        address = f"127.0.0.1:{hanging.getsockname()[1]}"
        for addresses in (address, f"127.0.0.1:1;{address}"):
            with (
                ClusterClient(addresses, access=Access(tls=Tls()), timeout_ms=1_100) as client,
                pytest.raises(Unreachable, match=f"No TLS with {address}: no end of the handshake in time"),
            ):
                client.route("any")


def test_a_name_server_that_restarts_empty_is_told_again() -> None:
    """While it knows nothing, producers go on by what they know; then brokers have registered and so has the topic."""
    clock = ManualClock()
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, Producer(mq.namesrv, clock=clock) as producer:
        admin.create_topic("orders", queues=2)
        send(producer, "orders", 4)
        mq.stop_name_server(0)
        clock.advance(seconds=31)
        send(producer, "orders", 4)
        mq.start_name_server(0)
        assert names(send(producer, "orders", 8)) <= BROKERS
        with ClusterClient(mq.namesrv) as client:
            while set(client.cluster_info().brokerAddrTable) != BROKERS:
                client.clock.sleep_ms(5)
        clock.advance(seconds=31)
        assert names(send(producer, "orders", 8)) == BROKERS
