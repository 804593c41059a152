"""Push consumers against the real broker: what their listeners get, and what becomes of what they fail at."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer, PushConsumer, ReceivedMessage
from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.sending.own_sends import own_send_header
from rmqspark.clock import SystemClock
from rmqspark.errors import DamagedFile, InvalidArgument, InvalidFilter, InvalidName, Unreachable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.rebalance.strategies import Strategy
from rmqspark.testing import LocalCluster, cluster
from rmqspark.testing.in_process import TEST_STORE
from rmqspark.testing.manual_clock import ManualClock

from .push_talk import PATIENCE_S, QUICK, Listener, committed, fail, read, send, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    """A cluster in which what failed comes again after a second, each time."""
    with cluster(brokers=1, store_config=replace(TEST_STORE, message_delay_level=" ".join(["1s"] * 18))) as local:
        yield local


def test_a_listener_gets_every_message(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Each once, as it was sent; and what the consumer is through with is committed when it is closed."""
    heard = Listener()
    with PushConsumer(mq.namesrv, "each", listener=heard) as consumer:
        consumer.subscribe(topic)
        receipt = producer.send(Message(topic, b"first", tags="paid", keys=["k"], properties={"a": "b"}), queue=2)
        heard.wait(1)
        sent = send(producer, topic, 100)
        assert sorted(heard.wait(101)) == sorted([*sent, "first"])
    (first,) = [message for message in heard.messages if message.body == b"first"]
    assert (first.topic, first.tags, first.keys, first.properties["a"]) == (topic, "paid", ["k"], "b")
    assert (first.msg_id, first.queue, first.queue_offset) == (receipt.msg_id, receipt.queue, receipt.queue_offset)
    assert list(committed(mq.namesrv, "each", topic).values()) == [25, 25, 26, 25]


def test_who_comes_next_goes_on(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Also with what was sent while nobody was there."""
    first, second = Listener(), Listener()
    with PushConsumer(mq.namesrv, "next", listener=first) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 20)
        first.wait(20)
    later = send(producer, topic, 20, first=20)
    with PushConsumer(mq.namesrv, "next", listener=second) as consumer:
        consumer.subscribe(topic)
        assert sorted(second.wait(20)) == sorted(later)
    assert len(first.messages) == 20


def test_what_fails_comes_again_and_is_a_dead_letter_in_the_end(
    mq: LocalCluster, topic: str, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    """Under its own topic and id, with how often it was tried; each failure is told once, and where. What succeeds
    meanwhile is not held up."""
    heard = Listener(lambda message: fail(message) if message.body == b"bad" else None)
    with PushConsumer(mq.namesrv, "failing", listener=heard, max_reconsume_times=2) as consumer:
        consumer.subscribe(topic, "paid")
        sent = producer.send(Message(topic, b"bad", tags="paid"), queue=1)
        producer.send(Message(topic, b"good", tags="paid"), queue=1)
        (dead,) = read(mq.namesrv, dead_letter_topic("failing"), 1)
    tries = [message for message in heard.messages if message.body == b"bad"]
    assert [message.reconsume_times for message in tries] == [0, 1, 2]
    assert {(message.topic, message.msg_id) for message in tries} == {(topic, sent.msg_id)}
    assert [message.queue.topic for message in tries] == [topic, *[retry_topic("failing")] * 2]
    assert (dead.body, dead.msg_id, dead.reconsume_times) == (b"bad", sent.msg_id, 3)
    assert heard.bodies.count("good") == 1
    told = [record for record in caplog.records if "The listener failed" in record.message]
    assert len(told) == 3
    assert f"{topic} {sent.queue} offset {sent.queue_offset} ({sent.msg_id})" in told[0].message
    assert "no bad today" in str(told[0].exc_info)
    assert committed(mq.namesrv, "failing", topic)[sent.queue] == 2


def test_a_message_that_no_broker_takes_back_is_tried_again_here(
    mq: LocalCluster, topic: str, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing behind it is committed until it is consumed."""
    monkeypatch.setattr("rmqspark.client.pushing.listening.LEFT_FOR_MS", 200)

    def away(*_: object) -> None:
        raise Unreachable("Nobody is there.", address="nowhere")

    monkeypatch.setattr("rmqspark.client.pushing.send_backs.SendBacks.give_back", away)
    heard = Listener(lambda message: fail(message) if (message.body, message.reconsume_times) == (b"0", 0) else None)
    with PushConsumer(mq.namesrv, "kept", listener=heard, config=QUICK) as consumer:
        consumer.subscribe(topic)
        for number in range(3):
            producer.send(Message(topic, b"%d" % number), queue=0)
        assert sorted(heard.wait(4)) == ["0", "0", "1", "2"]
    assert [message.reconsume_times for message in heard.messages if message.body == b"0"] == [0, 1]
    assert next(iter(committed(mq.namesrv, "kept", topic).values())) == 3


@pytest.mark.parametrize("ordered", [False, True])
def test_a_message_with_no_room_for_a_retry_is_a_dead_letter_in_the_end(
    mq: LocalCluster, topic: str, producer: Producer, monkeypatch: pytest.MonkeyPatch, *, ordered: bool
) -> None:
    """No broker can take it back, so it is tried again here, as often as any other; it holds up nobody for ever."""
    monkeypatch.setattr("rmqspark.client.pushing.listening.LEFT_FOR_MS", 50)
    group = f"roomless-{ordered}"
    heard = Listener(lambda message: fail(message) if message.body == b"bad" else None)
    with PushConsumer(
        mq.namesrv, group, listener=heard, ordered=ordered, max_reconsume_times=2, config=QUICK
    ) as consumer:
        consumer.subscribe(topic)
        producer.send(Message(topic, b"bad", properties={"p": "v" * 32_600}), queue=0)
        producer.send(Message(topic, b"good"), queue=0)
        (dead,) = read(mq.namesrv, dead_letter_topic(group), 1)
        heard.wait(4)
    tries = [message.reconsume_times for message in heard.messages if message.body == b"bad"]
    assert (tries, dead.body, len(dead.properties["p"])) == ([0, 1, 2], b"bad", 32_600)
    assert next(iter(committed(mq.namesrv, group, topic).values())) == 2


def test_what_a_consumer_sends_once_too_often_is_a_dead_letter_with_as_much_as_it_has_room_for(
    mq: LocalCluster, topic: str, producer: Producer
) -> None:
    """RocketMQ's consumers send what cannot be sent back, with more properties than a record has room for."""
    producer.send(Message(topic, b"bad", properties={"p": "v" * 32_600}), queue=0)
    (sent,) = read(mq.namesrv, topic, 1)
    properties = encode_properties(sent.properties).decode()
    properties += encode_properties(
        {"RETRY_TOPIC": topic, "RECONSUME_TIME": "17", "MAX_RECONSUME_TIMES": "16"}
    ).decode()
    group = "roomless-sent"
    with PushConsumer(mq.namesrv, group, listener=fail) as consumer, ClusterClient(mq.namesrv) as client:
        consumer.subscribe(topic)
        (queue, *_) = client.route_to_publish(retry_topic(group)).publish_queues
        header = own_send_header(
            queue, properties, sys_flag=0, flag=0, born_timestamp_ms=0, reconsume_times=17, max_reconsume_times=16
        )
        client.broker(queue.broker_name).send(header, b"bad", timeout_ms=5000)
        (dead,) = read(mq.namesrv, dead_letter_topic(group), 1)
    assert (dead.body, len(dead.properties["p"])) == (b"bad", 32_600)


def test_a_message_that_its_broker_takes_not_back_is_sent_instead(
    mq: LocalCluster, topic: str, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And comes again all the same."""
    call = BrokerClient.call

    def refusing(broker: BrokerClient, code: RequestCode, *args: Any, **options: Any) -> Any:
        if code == RequestCode.CONSUMER_SEND_MSG_BACK:
            raise Unreachable("It has just left.", address=broker.name)
        return call(broker, code, *args, **options)

    monkeypatch.setattr(BrokerClient, "call", refusing)
    heard = Listener(lambda message: None if message.reconsume_times else fail(message))
    with PushConsumer(mq.namesrv, "instead", listener=heard) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(Message(topic, b"0", tags="t", keys=["k"]), queue=0)
        heard.wait(2)
    first, again = heard.messages
    assert (again.topic, again.body, again.tags, again.keys, again.msg_id) == (topic, b"0", "t", ["k"], sent.msg_id)
    assert (again.reconsume_times, again.properties["ORIGIN_MESSAGE_ID"]) == (1, first.offset_msg_id)


def test_a_message_that_takes_long_holds_the_commit_back(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """However many behind it are consumed: whoever dies now has them all consumed again."""
    over = threading.Event()
    heard = Listener(lambda message: over.wait(PATIENCE_S) if message.body == b"0" else None)
    with PushConsumer(mq.namesrv, "slow", listener=heard, config=QUICK) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 40)
        heard.wait(40)
        wait_until(lambda: list(committed(mq.namesrv, "slow", topic).values())[1:] == [10] * 3, "the rest is committed")
        assert next(iter(committed(mq.namesrv, "slow", topic).values())) == 0
        over.set()
        wait_until(lambda: set(committed(mq.namesrv, "slow", topic).values()) == {10}, "all is committed")


def test_a_listener_that_hangs_does_not_keep_its_message_for_ever(
    mq: LocalCluster, topic: str, producer: Producer
) -> None:
    """After `consume_timeout` it comes again, and the queue is committed beyond it; that the listener returns in the
    end changes nothing."""
    go_on, clock = threading.Event(), ManualClock(SystemClock().now_ms())
    heard = Listener(lambda message: None if message.reconsume_times else go_on.wait(PATIENCE_S))
    config = replace(QUICK, consume_timeout=1)
    with PushConsumer(mq.namesrv, "hanging", listener=heard, config=config, clock=clock) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(Message(topic, b"slow"), queue=0)
        heard.wait(1)
        for _ in range(2):  # it began with the message after its first look
            clock.advance(seconds=60)
            consumer._pump.reset({})  # which wakes it: its clock does not
        assert heard.wait(2) == ["slow", "slow"]
        assert [message.reconsume_times for message in heard.messages] == [0, 1]
        clock.advance(seconds=1)
        consumer._pump.reset({})
        wait_until(lambda: committed(mq.namesrv, "hanging", topic)[sent.queue] == 1, "the queue is committed")
        go_on.set()
    assert heard.bodies == ["slow", "slow"]


def test_batches(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """A listener that takes lists gets up to so many messages of a queue at once."""
    batches: list[list[ReceivedMessage]] = []
    heard = Listener()

    def listen(messages: list[ReceivedMessage]) -> None:
        batches.append(messages)
        for message in messages:
            heard(message)

    send(producer, topic, 40)
    with PushConsumer(
        mq.namesrv, "batches", listener=listen, consume_message_batch_max_size=8, consume_from="earliest"
    ) as consumer:
        consumer.subscribe(topic)
        heard.wait(40)
    assert max(map(len, batches)) == 8
    assert all(len({message.queue for message in batch}) == 1 for batch in batches)


def test_no_more_is_held_than_allowed(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """A listener that is slow stops the reading, not the memory."""
    go_on = threading.Event()
    heard = Listener(lambda message: go_on.wait(PATIENCE_S))
    config = replace(QUICK, pull_threshold_for_queue=50)
    with PushConsumer(mq.namesrv, "held", listener=heard, config=config, consume_threads=2) as consumer:
        consumer.subscribe(topic)
        producer.send_batch([Message(topic, b"%d" % n) for n in range(500)], queue=0)
        heard.wait(2)
        wait_until(lambda: any(len(held) > 25 for held in consumer._pump._held.values()), "it has read ahead")
        assert max(len(held) for held in consumer._pump._held.values()) <= 50 + 32
        go_on.set()
        assert len(set(heard.wait(500))) == 500


def test_who_broadcasts_gets_everything(
    mq: LocalCluster, topic: str, producer: Producer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each member all messages, whatever the others do; what fails is told and over; each goes on where it was itself,
    by a file of its own, in RocketMQ's form."""
    configs = [replace(QUICK, instance_name=name, local_offset_store_dir=str(tmp_path)) for name in ("one", "two")]
    heard = [Listener(lambda message: fail(message) if message.body == b"3" else None), Listener()]

    def made(index: int) -> PushConsumer:
        consumer = PushConsumer(mq.namesrv, "all", listener=heard[index], broadcasting=True, config=configs[index])
        consumer.subscribe(topic)
        consumer.start()
        return consumer

    first, second = made(0), made(1)
    sent = send(producer, topic, 20)
    assert [sorted(each.wait(20)) for each in heard] == [sorted(sent)] * 2
    first.close()
    more = send(producer, topic, 20, first=20)
    heard[1].wait(40)
    first = made(0)
    assert sorted(heard[0].wait(40)) == sorted(sent + more)
    for consumer in (first, second):
        consumer.close()
    assert "No other try is made" in caplog.text
    files = list(tmp_path.glob("*@one/all/offsets.json"))
    assert files[0].read_bytes().startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"')
    assert set(committed(mq.namesrv, "all", topic).values()) == {None}


def test_offsets_of_a_file_that_is_none(mq: LocalCluster, tmp_path: Path) -> None:
    """A consumer that broadcasts does not begin anywhere where it cannot tell where it was."""
    config = replace(QUICK, instance_name="x", local_offset_store_dir=str(tmp_path))
    with ClusterClient(mq.namesrv, instance_name="x") as client:
        file = tmp_path / client.client_id / "all" / "offsets.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"offsetTable":')
    with pytest.raises(DamagedFile, match="offsets.json"):
        PushConsumer(mq.namesrv, "all", listener=print, broadcasting=True, config=config)


async def consume_later(message: ReceivedMessage) -> None:
    """Does nothing, unless it is awaited."""


def consume_piecemeal(message: ReceivedMessage) -> Iterator[ReceivedMessage]:
    """Does nothing, unless it is gone through."""
    yield message


class Later:
    async def __call__(self, message: ReceivedMessage) -> None:
        """Does nothing, unless it is awaited."""


def test_what_a_listener_has_not_begun_with_is_not_consumed(
    mq: LocalCluster, topic: str, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    """Though it returned: what it returned would have to run yet."""
    heard = Listener()

    def listen(message: ReceivedMessage) -> object:
        return consume_later(message) if message.reconsume_times == 0 else heard(message)

    with PushConsumer(mq.namesrv, f"later-{topic}", listener=listen) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 1)
        assert heard.wait(1) == ["0"]
    assert "The listener has done nothing: it returned" in caplog.text


def test_what_no_consumer_takes(mq: LocalCluster) -> None:
    """Mistakes show when they are made, by their names."""

    def made(**options: Any) -> PushConsumer:
        return PushConsumer(mq.namesrv, **{"group": "g", "listener": print, **options})

    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"group": ""}, "group"),
        ({"listener": "print"}, "listener is 'print', but must be a function"),
        ({"listener": consume_later}, "listener is <function consume_later at .*>, whose calls do nothing"),
        ({"listener": partial(consume_later)}, "asyncio.run_coroutine_threadsafe"),
        ({"listener": Later()}, "do nothing by themselves"),
        ({"listener": consume_piecemeal}, r"do nothing by themselves\. .*list\(handle\(message\)\)"),
        ({"consume_threads": 0}, "consume_threads is 1 to 1000, not 0"),
        ({"consume_message_batch_max_size": 2000}, "consume_message_batch_max_size is 1 to 1024"),
        ({"max_reconsume_times": -2}, "max_reconsume_times"),
        ({"consume_from": "yesterday"}, "consume_from is 'yesterday'"),
        ({"ordered": True, "broadcasting": True}, "exclude each other"),
        ({"allocate_strategy": "randomly"}, "allocate_strategy cannot be 'randomly': one of averagely"),
        ({"allocate_strategy": Strategy("randomly")}, "allocate_strategy is 'randomly', but must be one of: averagely"),
        ({"allocate_strategy": "machine-room-nearby:EAST"}, "what its client id begins with"),
    ]
    for options, complaint in mistakes:
        with pytest.raises(InvalidArgument, match=complaint):
            made(**options)
    with made() as consumer:
        with pytest.raises(InvalidName):
            consumer.subscribe("no topic")
        with pytest.raises(InvalidFilter):
            consumer.subscribe("orders", "||")
        with pytest.raises(InvalidArgument, match="exclude"):
            consumer.subscribe("orders", "paid", "a > 1")
