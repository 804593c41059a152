"""The admin client against the real broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, MessageQueue, Producer, PullConsumer, PushConsumer
from rmqspark.client.administration.admin_topics import create_topic
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.topics_described import describe_topics
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.errors import (
    BrokerNotRegistered,
    Conflict,
    GroupNotFound,
    InvalidArgument,
    InvalidName,
    MessageNotFound,
    NotFound,
    NotSupported,
    TopicNotFound,
    Unreachable,
)
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.names import retry_topic
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


def test_a_created_topic_can_be_used_at_once(mq: LocalCluster, admin: AdminClient) -> None:
    """The line after create_topic may send, and describe, and list."""
    admin.create_topic("fresh", read_queues=5, write_queues=3)
    with Producer(mq.namesrv) as producer:
        producer.send(Message("fresh", b"x"), queue=2)
    described = admin.topic("fresh")
    (on_broker,) = described.brokers
    assert (on_broker.broker_name, on_broker.read_queues, on_broker.write_queues, on_broker.perm) == (
        "broker-a",
        5,
        3,
        "rw",
    )
    assert [(bounds.queue.queue_id, bounds.max_offset) for bounds in described.queues] == [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 0),
        (4, 0),
    ]
    assert described.message_count == 1
    assert "fresh" in admin.topics()
    assert len(admin.queues("fresh")) == 5


def test_creating_twice_is_an_error_unless_said_otherwise(admin: AdminClient, topic: str) -> None:
    """A topic is not changed by creating it again."""
    with pytest.raises(InvalidArgument, match="rmq topic update"):
        admin.create_topic(topic, queues=9)
    admin.create_topic(topic, queues=9, exist_ok=True)
    assert len(admin.queues(topic)) == 4


def test_a_topic_is_changed(admin: AdminClient, topic: str) -> None:
    """Queues and permissions change where given, and stay where not."""
    admin.update_topic(topic, queues=6)
    admin.update_topic(topic, perm="r")
    (on_broker,) = admin.topic(topic).brokers
    assert (on_broker.read_queues, on_broker.write_queues, on_broker.perm) == (6, 6, "r")
    for said, kept in (("RW", "rw"), ("W", "w"), (4, "r"), ("6", "rw")):
        admin.update_topic(topic, perm=said)
        assert admin.topic(topic).perm == kept


def test_what_a_topic_is_for_is_changed(admin: AdminClient, topic: str) -> None:
    """The type changes alone, and a later change of something else leaves it."""
    admin.update_topic(topic, message_type="fifo")
    admin.update_topic(topic, queues=6)
    (on_broker,) = admin.topic(topic).brokers
    assert (on_broker.read_queues, on_broker.attributes) == (6, {"message.type": "FIFO"})
    admin.update_topic(topic, message_type="normal")
    assert admin.topic(topic).brokers[0].attributes == {"message.type": "NORMAL"}
    with pytest.raises(InvalidArgument, match="'ordered'"):
        admin.update_topic(topic, message_type="ordered")


def test_a_deleted_topic_is_gone(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """After delete_topic the topic is on no broker and no name server, and its messages are not found."""
    with Producer(mq.namesrv) as producer:
        producer.send(Message(topic, b"x"))
    admin.delete_topic(topic)
    assert topic not in admin.topics()
    hints = {admin.topic: "rmq topic list", admin.delete_topic: "rmq topic list", admin.queues: "rmq topic create"}
    for call, hint in hints.items():
        with pytest.raises(TopicNotFound, match=hint):
            call(topic)


@pytest.mark.parametrize("name", ["a b", "", "x" * 128])
def test_illegal_names_are_refused(admin: AdminClient, name: str) -> None:
    """A topic that cannot exist is refused with the rule."""
    with pytest.raises(InvalidName):
        admin.create_topic(name)


def test_system_topics_are_listed_only_on_demand(admin: AdminClient, topic: str) -> None:
    """topics() shows the user's topics; RocketMQ's own come with system=True."""
    assert {"TBW102", "broker-a", "DefaultCluster"} <= set(admin.topics(system=True))
    assert not {"TBW102", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"} & set(admin.topics())


def test_a_group_s_lag_is_known_where_it_has_committed(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """Lag is what is left behind the committed offset; a queue never committed has none."""
    with Producer(mq.namesrv) as producer:
        producer.send_batch([Message(topic, b"x") for _ in range(10)], queue=1)
    with PullConsumer(mq.namesrv, group="lagging") as consumer:
        queue = consumer.queues(topic)[1]
        consumer.assign([queue])
        consumer.commit({queue: 4})
    described = admin.group("lagging")
    mine = {progress.queue.queue_id: progress for progress in described.queues if progress.queue.topic == topic}
    assert (mine[1].committed, mine[1].max_offset, mine[1].lag) == (4, 10, 6)
    assert (mine[0].committed, mine[0].lag) == (None, None)
    assert described.lag == 6
    assert described.members == []
    assert "lagging" in admin.groups()
    assert "TOOLS_CONSUMER" not in admin.groups()
    admin.delete_group("lagging")
    assert "lagging" not in admin.groups()
    for call in (admin.group, admin.delete_group):
        with pytest.raises(GroupNotFound):
            call("lagging")


def test_brokers_that_there_are_not_leave_nothing_behind(mq: LocalCluster) -> None:
    """REST and console live long, and whoever asks them may make names up."""
    with ClusterClient(mq.namesrv) as client:
        for number in range(50):
            with pytest.raises(BrokerNotRegistered):
                BrokerAdmin(client.broker(f"broker-{number}")).config()
        assert BrokerAdmin(client.broker("broker-a")).config()
        assert client.broker("broker-a") is client.broker("broker-a")
        assert list(client._brokers) == ["broker-a"]


def test_groups_that_come_and_go_leave_no_topic_behind(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """A broker holds so many topics at most, retry topics among them."""
    with ClusterClient(mq.namesrv) as cluster:
        broker = BrokerAdmin(cluster.broker("broker-a"))
        for number in range(3):
            group = f"{topic}-{number}"
            with PushConsumer(mq.namesrv, group=group, listener=print) as consumer:
                consumer.subscribe(topic)
                consumer.start()
            assert broker.submit_topic_config(retry_topic(group)).result() is not None
            admin.delete_group(group)
            assert broker.submit_topic_config(retry_topic(group)).result() is None


def test_a_group_s_lag_is_known_in_time_too(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """A lagging queue tells when its first unread message was stored; one that is caught up, or unknown, does not."""
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv, group="late") as consumer:
        for queue_id in (0, 1):
            producer.send_batch([Message(topic, b"x"), Message(topic, b"y")], queue=queue_id)
        lagging, caught_up = consumer.queues(topic)[:2]
        consumer.assign([lagging, caught_up])
        consumer.commit({lagging: 1, caught_up: 2})
        consumer.seek(lagging, 1)
        second = next(message for message in consumer.poll(60_000) if message.queue == lagging)
    described = {progress.queue: progress for progress in admin.group("late").queues}
    assert described[lagging].waiting_since_ms == second.store_timestamp_ms
    assert described[caught_up].waiting_since_ms is None
    assert all(progress.waiting_since_ms is None for progress in described.values() if progress.committed is None)


def test_a_closed_topic_hides_only_how_long_its_messages_wait(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """Where a message may not be read, its age is unknown; everything else of the group is still told."""
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv, group="shut-out") as consumer:
        producer.send(Message(topic, b"x"), queue=0)
        queue = consumer.queues(topic)[0]
        consumer.assign([queue])
        consumer.commit({queue: 0})
    admin.update_topic(topic, perm="w")
    progress = next(progress for progress in admin.group("shut-out").queues if progress.queue == queue)
    assert (progress.lag, progress.waiting_since_ms) == (1, None)


def test_messages_are_found_by_id_and_key(mq: LocalCluster, admin: AdminClient, topic: str) -> None:
    """Both ids of a receipt lead to the message, and so does each of its keys."""
    with Producer(mq.namesrv) as producer:
        receipt = producer.send(Message(topic, b"first", keys=["k1", "k2"]))
        producer.send(Message(topic, b"second", keys=["k2", "M\u00fcller\u00a0GmbH"]))
    assert admin.message(receipt.offset_msg_id).body == b"first"
    assert admin.message(receipt.msg_id, topic).body == b"first"
    assert admin.message(receipt.msg_id).body == b"first"
    assert [message.body for message in admin.query(topic, "k1")] == [b"first"]
    assert [message.body for message in admin.query(topic, "k2")] == [b"first", b"second"]
    assert [message.body for message in admin.query(topic, "M\u00fcller\u00a0GmbH")] == [b"second"]
    assert admin.query(topic, "k3") == []
    assert admin.query(topic, "k2", end_ms=1) == []
    beyond = receipt.offset_msg_id[:16] + "7FFFFFFFFFFFFFFF"
    for unknown in (beyond, "0" * 32, "nonsense"):
        with pytest.raises(MessageNotFound):
            admin.message(unknown)


@pytest.mark.parametrize("moved", ["to each other's addresses", "one, which is gone", "renamed"])
def test_messages_are_found_by_the_id_that_they_got_elsewhere(moved: str) -> None:
    """An offset id holds the address that its broker had then; where that is another one by now, the message is found
    all the same, and no other one for it."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, Producer(mq.namesrv) as producer:
        admin.create_topic("orders", queues=1)
        bodies = {name: f"of {name}".encode() for name in mq.brokers}
        sent = {
            name: producer.send(Message("orders", body), queue=MessageQueue("orders", name, 0)).offset_msg_id
            for name, body in bodies.items()
        }
        for name in bodies:
            mq.stop_broker(name)
        ports, store = mq._ports, mq.store_dir("broker-a")
        match moved:
            case "to each other's addresses":
                ports["broker-a"], ports["broker-b"] = ports["broker-b"], ports["broker-a"]
            case "one, which is gone":
                ports["broker-b"] = ports.pop("broker-a")
            case _:
                store = store.rename(store.with_name("broker-c"))
        for name in (store.name, "broker-b"):
            mq.start_broker(name)
        assert {name: admin.message(msg_id).body for name, msg_id in sent.items()} == bodies
        for name, msg_id in sent.items():
            assert admin.journey(msg_id).message.body == bodies[name]
        with pytest.raises(MessageNotFound):
            admin.message(sent["broker-a"][:16] + "7FFFFFFFFFFFFFFF")


def test_brokers_tell_about_themselves(mq: LocalCluster, admin: AdminClient) -> None:
    """Address, settings and counters of a broker are there under RocketMQ's names."""
    (broker,) = admin.brokers()
    assert (broker.name, broker.cluster, broker.addresses) == (
        "broker-a",
        "DefaultCluster",
        {0: mq.brokers["broker-a"]},
    )
    assert admin.broker_config("broker-a")["brokerName"] == "broker-a"
    assert int(admin.broker_runtime("broker-a")["msgPutTotalTodayNow"]) >= 0


def test_a_broker_s_address_is_no_name_server(mq: LocalCluster) -> None:
    """Who mixes up the two addresses reads which one it was and what to give instead."""
    broker = mq.brokers["broker-a"]
    with AdminClient(broker) as admin:
        for question in (admin.topics, lambda: admin.create_topic("here")):
            with pytest.raises(NotSupported, match=f"answers at {broker} is no name server.*Give the name server's"):
                question()


def test_every_name_server_that_is_away_is_named() -> None:
    """Where none of several answers, the error says of each what happened."""
    with (
        AdminClient("127.0.0.1:1;127.0.0.1:2") as admin,
        pytest.raises(Unreachable, match=r":1: [\w ]+; [\w ]+ 127.0.0.1:2: [\w ]+\)\. Start"),
    ):
        admin.topics()


def test_a_topic_is_on_every_broker() -> None:
    """With two brokers a topic has its queues on both, or on the one that is named."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin:
        admin.create_topic("both", queues=2)
        admin.create_topic("one", queues=2, brokers=["broker-b"])
        places = [(queue.broker_name, queue.queue_id) for queue in admin.queues("both")]
        assert places == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
        assert {queue.broker_name for queue in admin.queues("one")} == {"broker-b"}
        admin.delete_topic("both")
        assert admin.topics() == ["one"]


def test_a_topic_that_not_every_broker_has() -> None:
    """Creating it once more says which lack it: a broker may have been away, or be new. There it can be made, too."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin:
        admin.create_topic("one", queues=2, brokers=["broker-b"])
        with pytest.raises(Conflict, match="on broker-b and not on broker-a.*rmq topic create one --broker broker-a"):
            admin.create_topic("one", queues=2)
        with pytest.raises(Conflict, match="exists already"):
            admin.create_topic("one", queues=2, brokers=["broker-a", "broker-b"])
        admin.create_topic("one", queues=3, brokers=["broker-a"])
        assert [queue.broker_name for queue in admin.queues("one")] == ["broker-a"] * 3 + ["broker-b"] * 2
        with pytest.raises(Conflict, match="exists already. Change it with"):
            admin.create_topic("one", queues=2)
        admin.create_topic("two", queues=2, brokers=["broker-b"])
        for _ in range(2):
            admin.create_topic("two", queues=3, brokers=["broker-a", "broker-b"], exist_ok=True)
        assert [queue.broker_name for queue in admin.queues("two")] == ["broker-a"] * 3 + ["broker-b"] * 2


def test_a_topic_is_deleted_wherever_it_is_by_now() -> None:
    """Also on a broker that it was made on since it was looked at: a console looks for hours."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin, ClusterClient(mq.namesrv) as other:
        admin.create_topic("one", queues=1, brokers=["broker-a"])
        assert [queue.broker_name for queue in admin.queues("one")] == ["broker-a"]
        create_topic(other, TopicConfig("one", 1, 1), ["broker-b"], exist_ok=False)
        admin.delete_topic("one")
        with pytest.raises(NotFound):
            BrokerAdmin(other.broker("broker-b")).topic_config("one")


def test_many_topics_are_described_together() -> None:
    """Each as it is described alone; those that are not there are left out."""
    with cluster(brokers=2) as two, ClusterClient(two.namesrv) as client, AdminClient(two.namesrv) as admin:
        names = [f"together-{number}" for number in range(120)]
        for name in names:
            admin.create_topic(name, queues=1)
        described = describe_topics(client, [*names, "together-none"])
        assert described == [admin.topic(name) for name in sorted(names)]
        assert len(described[0].brokers) == len(described[0].queues) == 2
        assert describe_topics(client, []) == []
