"""Groups of push consumers: who reads what, from where on, and how it goes on when members and brokers come and go."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark import AdminClient, Message, MessageQueue, Producer, PullConsumer, PushConsumer
from rmqspark.testing import LocalCluster, cluster

from .push_talk import PATIENCE_S, QUICK, Listener, committed, of_topic, send, wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("ordered", [False, True])
def test_members_divide_the_queues_and_take_over(
    mq: LocalCluster, topic: str, producer: Producer, ordered: bool
) -> None:
    """Each message is one member's; what one leaves behind when it is closed, the other reads on at once."""
    first, second = Listener(), Listener()
    group = f"division-{ordered}"
    with PushConsumer(mq.namesrv, group, listener=first, ordered=ordered) as one:
        one.subscribe(topic)
        with PushConsumer(mq.namesrv, group, listener=second, ordered=ordered) as other:
            other.subscribe(topic)
            wait_until(
                lambda: (len(of_topic(one, topic)), len(of_topic(other, topic))) == (2, 2), "they have two queues each"
            )
            sent = send(producer, topic, 40)
            wait_until(lambda: len(first.messages) + len(second.messages) >= 40, "all are consumed")
            assert sorted(first.bodies + second.bodies) == sorted(sent)
            assert {message.queue for message in second.messages} == set(of_topic(other, topic))
        wait_until(lambda: len(of_topic(one, topic)) == 4, "the one that stays has all queues")
        more = send(producer, topic, 40, first=40)
        wait_until(lambda: len(first.messages) + len(second.messages) >= 80, "all are consumed")
    assert Counter(first.bodies + second.bodies) == Counter(sent + more)


def test_a_member_that_is_cut_off_is_replaced(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Its connections end, as they do when it dies: the other takes over what it has not committed."""
    never = threading.Event()
    stuck, heard = Listener(lambda message: never.wait(PATIENCE_S)), Listener()
    config = replace(QUICK, await_termination_millis_when_shutdown=0)
    with PushConsumer(mq.namesrv, "cut-off", listener=heard) as stays:
        stays.subscribe(topic)
        dies = PushConsumer(mq.namesrv, "cut-off", listener=stuck, config=config)
        dies.start()
        dies.subscribe(topic)
        wait_until(lambda: len(of_topic(stays, topic)) == 2, "they have two queues each")
        sent = send(producer, topic, 40)
        wait_until(lambda: len(stuck.messages) == 20, "it is at work")
        dies._cluster.close()
        assert Counter(heard.wait(40)) == Counter(sent)
        never.set()
        dies.close()


def test_subscribed_before_the_start_a_group_begins_with_it(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """No broker has heard of the group before that: what is sent until then is not for it, and all that comes after."""
    heard = Listener()
    consumer = PushConsumer(mq.namesrv, "subscribed-early", listener=heard)
    consumer.subscribe(topic)
    send(producer, topic, 8)
    with consumer:
        sent = send(producer, topic, 8, first=8)
        assert sorted(heard.wait(8)) == sorted(sent)


def test_tags_and_sql(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Tags that share a hash code with one that is wanted do not slip in."""
    for number, tags in enumerate(["Aa", "BB", "C", None]):
        producer.send(Message(topic, b"%d" % number, tags=tags, properties={"n": str(number)}))
    for index, (wanted, expected) in enumerate(
        [({"tags": "Aa || C"}, ["0", "2"]), ({"sql": "n > 1"}, ["2", "3"]), ({}, ["0", "1", "2", "3"])]
    ):
        heard = Listener()
        group = f"filter-{topic}-{index}"
        with PushConsumer(mq.namesrv, group, listener=heard, consume_from="earliest") as consumer:
            consumer.subscribe(topic, **wanted)
            assert sorted(heard.wait(len(expected))) == expected


def test_where_a_new_group_begins(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """At its first message, or one of a time, or behind all there is when it subscribes: not a message later."""
    producer.send(Message(topic, b"old"), queue=0)
    middle = producer.send(Message(topic, b"new"), queue=0)
    with PullConsumer(mq.namesrv) as looking:
        looking.assign([middle.queue])
        stored_ms = next(each.store_timestamp_ms for each in looking.poll(5000) if each.body == b"new")
    listeners = {start: Listener() for start in ("latest", "earliest", stored_ms)}
    consumers = [
        PushConsumer(mq.namesrv, f"from-{start}-{topic}", listener=heard, consume_from=start)
        for start, heard in listeners.items()
    ]
    for consumer in consumers:
        consumer.subscribe(topic)
        consumer.start()
    producer.send(Message(topic, b"newest"), queue=0)
    assert listeners["latest"].wait(1) == ["newest"]
    assert sorted(listeners["earliest"].wait(3)) == ["new", "newest", "old"]
    since = listeners[stored_ms]  # which has the old one too where it is of the same millisecond
    wait_until(lambda: {"new", "newest"} <= set(since.bodies), "all since that time is consumed")
    for consumer in consumers:
        consumer.close()


def test_a_topic_and_queues_that_come_later(mq: LocalCluster, admin: AdminClient, producer: Producer) -> None:
    """Nothing that was sent to them before they were noticed is left out, also by a group that begins with the latest
    messages."""
    heard = Listener()
    with PushConsumer(mq.namesrv, "later", listener=heard, config=QUICK) as consumer:
        consumer.subscribe("made-later")
        admin.create_topic("made-later", queues=1)
        producer.send(Message("made-later", b"0"), queue=0)
        assert heard.wait(1) == ["0"]
        admin.update_topic("made-later", queues=3)
        with Producer(mq.namesrv) as knows:
            knows.send(Message("made-later", b"2"), queue=2)
        assert heard.wait(2) == ["0", "2"]
        consumer.unsubscribe("made-later")
        assert of_topic(consumer, "made-later") == []


@pytest.mark.parametrize("broadcasting", [False, True])
def test_queues_that_come_while_no_member_is_there(
    mq: LocalCluster, admin: AdminClient, producer: Producer, tmp_path: Path, broadcasting: bool
) -> None:
    """A group that has consumed of the topic leaves out nothing of them, though it begins with the latest messages. A
    new one does."""
    heard, topic = Listener(), f"grown-{broadcasting}"
    config = replace(QUICK, local_offset_store_dir=str(tmp_path), instance_name=topic)
    admin.create_topic(topic, queues=1)
    for number in (0, 1):
        with PushConsumer(mq.namesrv, topic, listener=heard, broadcasting=broadcasting, config=config) as consumer:
            consumer.subscribe(topic)
            producer.send(Message(topic, b"%d" % number), queue=0)
            heard.wait(1 + 2 * number)
        if not number:
            admin.update_topic(topic, queues=3)
            with Producer(mq.namesrv) as knows:
                knows.send(Message(topic, b"missed"), queue=2)
    assert sorted(heard.bodies) == ["0", "1", "missed"]


@pytest.mark.parametrize("broadcasting", [False, True])
def test_a_topic_that_is_made_anew_is_consumed_from_its_beginning(
    mq: LocalCluster, admin: AdminClient, producer: Producer, tmp_path: Path, broadcasting: bool
) -> None:
    """However far the one before it was consumed, and also by a group that begins with the latest messages."""
    heard, topic = Listener(), f"made-anew-{broadcasting}"
    config = replace(QUICK, local_offset_store_dir=str(tmp_path))
    admin.create_topic(topic, queues=1)
    with PushConsumer(mq.namesrv, "anew", listener=heard, broadcasting=broadcasting, config=config) as consumer:
        consumer.subscribe(topic)
        sent = send(producer, topic, 5, queues=1)
        assert sorted(heard.wait(5)) == sent
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=1)
        sent += send(producer, topic, 3, first=5, queues=1)
        assert sorted(heard.wait(8)) == sent


@pytest.mark.parametrize("broadcasting", [False, True])
def test_a_topic_that_is_made_anew_while_a_consumer_is_busy_is_consumed_from_its_beginning(
    mq: LocalCluster, admin: AdminClient, producer: Producer, tmp_path: Path, broadcasting: bool
) -> None:
    """It has as much as it may hold, and does not ask before that is less: then its offsets are those of messages that
    it never had."""
    go_on, topic = threading.Event(), f"busy-{broadcasting}"
    heard = Listener(lambda message: go_on.wait(PATIENCE_S))
    config = replace(QUICK, local_offset_store_dir=str(tmp_path), pull_threshold_for_queue=20)
    admin.create_topic(topic, queues=1)
    with PushConsumer(
        mq.namesrv, "busy", listener=heard, broadcasting=broadcasting, config=config, consume_threads=1
    ) as consumer:
        consumer.subscribe(topic)
        producer.send_batch([Message(topic, b"old") for _ in range(40)], queue=0)
        heard.wait(1)
        (held,) = [each for each in consumer._pump._held.values() if each.queue.topic == topic]
        wait_until(lambda: len(held) > 20, "it has as much as it may")
        admin.delete_topic(topic)
        admin.create_topic(topic, queues=1)
        with Producer(mq.namesrv) as another:
            another.send_batch([Message(topic, b"%d" % number) for number in range(100)], queue=0)
        go_on.set()
        wait_until(lambda: "99" in heard.bodies, "the last is consumed")
    assert {*heard.bodies} - {"old"} == {str(number) for number in range(100)}


@pytest.mark.parametrize("broadcasting", [False, True])
def test_a_topic_that_a_busy_consumer_sees_go_is_consumed_from_its_beginning(
    mq: LocalCluster, admin: AdminClient, producer: Producer, tmp_path: Path, broadcasting: bool
) -> None:
    """It gives the queue up, not lost but gone, and what it has committed of it is of the topic before."""
    go_on, topic = threading.Event(), f"seen-to-go-{broadcasting}"
    heard = Listener(lambda message: go_on.wait(PATIENCE_S) if message.body == b"old 2" else None)
    config = replace(QUICK, local_offset_store_dir=str(tmp_path), pull_threshold_for_queue=20)
    admin.create_topic(topic, queues=1)
    with PushConsumer(
        mq.namesrv, "sees", listener=heard, broadcasting=broadcasting, config=config, consume_threads=1
    ) as consumer:
        consumer.subscribe(topic)
        producer.send_batch([Message(topic, b"old %d" % number) for number in range(40)], queue=0)
        heard.wait(3)
        (held,) = [each for each in consumer._pump._held.values() if each.queue.topic == topic]
        wait_until(lambda: len(held) > 20, "it has as much as it may, and asks for no more")
        admin.delete_topic(topic)
        wait_until(lambda: of_topic(consumer, topic) == [], "it sees that the topic is gone")
        admin.create_topic(topic, queues=1)
        with Producer(mq.namesrv) as another:
            another.send_batch([Message(topic, b"%d" % number) for number in range(9)], queue=0)
        go_on.set()
        wait_until(lambda: "8" in heard.bodies, "the last is consumed")
    assert {body for body in heard.bodies if "old" not in body} == {str(number) for number in range(9)}


def test_several_topics(mq: LocalCluster, admin: AdminClient, producer: Producer) -> None:
    heard = Listener()
    for name in ("left", "right"):
        admin.create_topic(name, queues=2)
    with PushConsumer(mq.namesrv, "several", listener=heard) as consumer:
        consumer.subscribe("left")
        consumer.subscribe("right")
        producer.send(Message("left", b"l"))
        producer.send(Message("right", b"r"))
        assert sorted(heard.wait(2)) == ["l", "r"]


def test_an_operator_sets_the_group_back(mq: LocalCluster, topic: str, admin: AdminClient, producer: Producer) -> None:
    """A consumer that is there hears of it with its next pull, and consumes from there on."""
    heard = Listener()
    with PushConsumer(mq.namesrv, "set-back", listener=heard, config=QUICK) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 20)
        heard.wait(20)
        wait_until(lambda: set(committed(mq.namesrv, "set-back", topic).values()) == {5}, "all is committed")
        admin.reset_group("set-back", "2", topic=topic)
        send(producer, topic, 4, first=20)  # which ends the pulls that wait
        heard.wait(20 + 12 + 4)
    assert Counter(heard.bodies)["8"] == 2
    assert set(committed(mq.namesrv, "set-back", topic).values()) == {6}


def test_a_reset_that_a_broker_pushes(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """As RocketMQ's brokers did before they kept resets: RESET_CONSUMER_CLIENT_OFFSET."""
    heard = Listener()
    with PushConsumer(mq.namesrv, "pushed", listener=heard, config=QUICK) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 20)
        heard.wait(20)
        consumer._pump.reset({of_topic(consumer, topic)[0]: 3})
        heard.wait(22)
    assert {body for body, times in Counter(heard.bodies).items() if times == 2} == {"12", "16"}


def test_a_broker_that_goes_away_and_returns(tmp_path: object) -> None:
    """Consumers go on where they were, and are members again without being asked."""
    with cluster(brokers=1) as mq, AdminClient(mq.namesrv) as admin:
        admin.create_topic("away", queues=4)
        first, second = Listener(), Listener()
        with (
            PushConsumer(mq.namesrv, "stays", listener=first, config=QUICK) as one,
            PushConsumer(mq.namesrv, "stays", listener=second, config=QUICK) as other,
        ):
            for consumer in (one, other):
                consumer.subscribe("away")
            with Producer(mq.namesrv) as producer:
                sent = send(producer, "away", 40)
                wait_until(lambda: len(first.messages) + len(second.messages) >= 40, "all are consumed")
            mq.stop_broker("broker-a")
            mq.start_broker("broker-a")
            with Producer(mq.namesrv) as producer:
                sent += send(producer, "away", 40, first=40)
            wait_until(lambda: {*first.bodies, *second.bodies} == set(sent), "all are consumed")
            wait_until(lambda: (len(of_topic(one, "away")), len(of_topic(other, "away"))) == (2, 2), "they share again")
            wait_until(lambda: len(admin.group("stays").members) == 2, "the broker knows both")


def test_one_of_two_brokers_goes_away_and_returns() -> None:
    """Queues of the other are consumed meanwhile, in order and without; afterwards those of both."""
    with cluster(brokers=2) as mq, AdminClient(mq.namesrv) as admin:
        admin.create_topic("two", queues=2)
        heard, in_order = Listener(), Listener()
        with (
            PushConsumer(mq.namesrv, "any", listener=heard, config=QUICK) as any_order,
            PushConsumer(mq.namesrv, "ordered", listener=in_order, config=QUICK, ordered=True) as ordered,
        ):
            for consumer in (any_order, ordered):
                consumer.subscribe("two")
                assert len(of_topic(consumer, "two")) == 4
            mq.stop_broker("broker-b")
            with Producer(mq.namesrv) as producer:
                for number in range(10):
                    producer.send(Message("two", b"%d" % number), queue=MessageQueue("two", "broker-a", number % 2))
                for each in (heard, in_order):
                    each.wait(10)
                mq.start_broker("broker-b")
                for number in range(10, 20):
                    producer.send(Message("two", b"%d" % number), queue=MessageQueue("two", "broker-b", number % 2))
                for each in (heard, in_order):
                    assert set(each.wait(20)) == {str(number) for number in range(20)}
