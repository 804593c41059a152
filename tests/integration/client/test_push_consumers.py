"""Push consumers against the real broker: what their listeners get, and what is committed of it."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import AdminClient, Message, MessageQueue, Producer, PullConsumer, PushConsumer, ReceivedMessage
from rmqspark.client.broker_client import BrokerClient
from rmqspark.client.cluster_client import ClusterClient
from rmqspark.client.pushing.config import PushConfig
from rmqspark.errors import AlreadyClosed, DamagedFile, InvalidArgument, InvalidFilter, InvalidName, Unreachable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.testing import LocalCluster, cluster
from rmqspark.testing.in_process import TEST_STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.integration

PATIENCE_S = 30  # less than the minute after which a lock that nobody gave up ends by itself
QUICK = PushConfig(rebalance_interval=500, persist_consumer_offset_interval=100, suspend_current_queue_time_millis=50)


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    """A cluster in which what failed comes again after a second, each time."""
    with cluster(brokers=1, store_config=replace(TEST_STORE, message_delay_level=" ".join(["1s"] * 18))) as local:
        yield local


@pytest.fixture
def producer(mq: LocalCluster) -> Iterator[Producer]:
    with Producer(mq.namesrv) as sending:
        yield sending


class Listener:
    """Notes every message, and then does with it what `act` says."""

    def __init__(self, act: Callable[[ReceivedMessage], object] = lambda message: None) -> None:
        self._act = act
        self._noted = threading.Condition()
        self.messages: list[ReceivedMessage] = []

    def __call__(self, message: ReceivedMessage) -> None:
        with self._noted:
            self.messages.append(message)
            self._noted.notify_all()
        self._act(message)

    @property
    def bodies(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    def wait(self, count: int) -> list[str]:
        """The bodies of all messages once there are so many."""
        with self._noted:
            assert self._noted.wait_for(lambda: len(self.messages) >= count, PATIENCE_S), self.bodies
            return self.bodies


def wait_until(holds: Callable[[], Any], what: str) -> None:
    pause = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError(f"waited in vain until {what}")


def fail(message: ReceivedMessage) -> None:
    raise RuntimeError(f"no {message.body.decode()} today")


def send(producer: Producer, topic: str, count: int, *, first: int = 0, queues: int = 4) -> list[str]:
    """Numbers, to the queues in turn."""
    for number in range(first, first + count):
        producer.send(Message(topic, b"%d" % number), queue=number % queues)
    return [str(number) for number in range(first, first + count)]


def committed(namesrv: str, group: str, topic: str) -> dict[MessageQueue, int | None]:
    with PullConsumer(namesrv, group) as consumer:
        return {queue: consumer.committed(queue) for queue in consumer.queues(topic)}


def of_topic(consumer: PushConsumer, topic: str) -> list[MessageQueue]:
    return [queue for queue in consumer.assignment if queue.topic == topic]


def read(namesrv: str, topic: str, count: int) -> list[ReceivedMessage]:
    """The first messages of a topic, once it is there and has so many."""
    with AdminClient(namesrv) as admin:
        wait_until(lambda: topic in admin.topics(), f"{topic} is there")
    with PullConsumer(namesrv) as consumer:
        consumer.assign(consumer.queues(topic))
        found: list[ReceivedMessage] = []
        while len(found) < count:
            found += consumer.poll(timeout_ms=1000)
    return found


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
        assert heard.wait(4)[3] == "0"
    assert [message.reconsume_times for message in heard.messages if message.body == b"0"] == [0, 1]
    assert next(iter(committed(mq.namesrv, "kept", topic).values())) == 3


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


# --- in order --------------------------------------------------------------------------------------------------------


def test_in_order_a_message_that_fails_holds_up_its_queue(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Until it succeeds, and no other queue; never are two messages of a queue consumed at once."""
    at_work: Counter[MessageQueue] = Counter()
    together: list[ReceivedMessage] = []

    def act(message: ReceivedMessage) -> None:
        at_work[message.queue] += 1
        if at_work[message.queue] > 1:
            together.append(message)
        at_work[message.queue] -= 1
        if message.body == b"4" and message.reconsume_times < 3:
            fail(message)

    heard = Listener(act)
    with PushConsumer(mq.namesrv, "orderly", listener=heard, ordered=True, config=QUICK) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 40)
        heard.wait(43)
    by_queue = [[message.body for message in heard.messages if message.queue.queue_id == n] for n in range(4)]
    assert by_queue[0] == [b"0", *[b"4"] * 4, *[b"%d" % n for n in range(8, 40, 4)]]
    assert by_queue[1:] == [[b"%d" % n for n in range(queue, 40, 4)] for queue in range(1, 4)]
    assert together == []
    assert set(committed(mq.namesrv, "orderly", topic).values()) == {10}


def test_in_order_a_message_that_fails_too_often_is_a_dead_letter(
    mq: LocalCluster, topic: str, producer: Producer
) -> None:
    """And its queue goes on."""
    heard = Listener(lambda message: fail(message) if message.tags == "bad" else None)
    with PushConsumer(
        mq.namesrv, "hopeless", listener=heard, ordered=True, max_reconsume_times=2, config=QUICK
    ) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(Message(topic, b"bad" * 2000, tags="bad"), queue=0)
        producer.send(Message(topic, b"good"), queue=0)
        heard.wait(4)
        (dead,) = read(mq.namesrv, dead_letter_topic("hopeless"), 1)
    assert [message.body for message in heard.messages][-1] == b"good"
    assert (dead.body, dead.tags, dead.msg_id) == (b"bad" * 2000, "bad", sent.msg_id)
    assert dead.properties["RETRY_TOPIC"] == topic


def test_in_order_a_queue_is_handed_over_between_two_messages(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """Who has to give it up finishes what it is at, and who gets it waits for that: no message of a queue before the
    one before it is consumed, not even when members come and go."""
    consumed: dict[int, list[int]] = {n: [] for n in range(4)}
    overlaps: list[str] = []
    at_work: set[MessageQueue] = set()
    pause = threading.Event()

    def act(message: ReceivedMessage) -> None:
        if message.queue in at_work:
            overlaps.append(message.body.decode())
        at_work.add(message.queue)
        pause.wait(0.005)
        at_work.discard(message.queue)
        consumed[message.queue.queue_id].append(message.queue_offset)

    heard = Listener(act)
    with PushConsumer(mq.namesrv, "handed-over", listener=heard, ordered=True, config=QUICK) as stays:
        stays.subscribe(topic)
        for round_ in range(3):
            with PushConsumer(mq.namesrv, "handed-over", listener=heard, ordered=True, config=QUICK) as comes:
                send(producer, topic, 80, first=80 * round_)
                comes.subscribe(topic)
                wait_until(lambda comes=comes: len(of_topic(comes, topic)) == 2, "it has its share")
                send(producer, topic, 40, first=1000 + 40 * round_)
        wait_until(lambda: sum(map(len, consumed.values())) >= 360, "all are consumed")
    assert overlaps == []
    assert all(offsets == list(range(90)) for offsets in consumed.values())


# --- what is wanted, and from where ----------------------------------------------------------------------------------


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
    assert {"new", "newest"} <= set(listeners[stored_ms].wait(2))
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


# --- while it runs ---------------------------------------------------------------------------------------------------


def test_no_more_is_held_than_allowed(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """A listener that is slow stops the reading, not the memory."""
    go_on = threading.Event()
    heard = Listener(lambda message: go_on.wait(PATIENCE_S))
    config = replace(QUICK, pull_threshold_for_queue=50)
    with PushConsumer(mq.namesrv, "held", listener=heard, config=config, consume_threads=2) as consumer:
        consumer.subscribe(topic)
        producer.send_batch([Message(topic, b"%d" % n) for n in range(500)], queue=0)
        heard.wait(2)
        wait_until(lambda: any(len(held) > 50 for held in consumer._pump._held.values()), "it has read ahead")
        assert max(len(held) for held in consumer._pump._held.values()) <= 50 + 32
        go_on.set()
        assert len(set(heard.wait(500))) == 500


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


# --- broadcasting ----------------------------------------------------------------------------------------------------


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


# --- the end ---------------------------------------------------------------------------------------------------------


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("rmqspark-")}


def test_no_thread_is_left(mq: LocalCluster, topic: str) -> None:
    """Of one that was started, of one that was not, and of one that could not be; closing again is no mistake."""
    before = threads()
    with PushConsumer(mq.namesrv, "threads", listener=print) as consumer:
        consumer.subscribe(topic)
        assert len(threads() - before) == 22
    consumer.close()
    assert threads() == before
    with pytest.raises(AlreadyClosed):
        consumer.subscribe(topic)
    PushConsumer(mq.namesrv, "threads", listener=print).close()
    wrong = PushConsumer("127.0.0.1:1", "threads", listener=print)
    wrong.subscribe(topic)
    with pytest.raises(Unreachable):
        wrong.start()
    assert threads() == before


def test_a_listener_may_close_its_consumer(mq: LocalCluster, topic: str, producer: Producer) -> None:
    """It does not wait for itself, and the message it is at is consumed."""
    heard = Listener(lambda message: consumer.close())
    with PushConsumer(mq.namesrv, "closing", listener=heard) as consumer:
        consumer.subscribe(topic)
        sent = producer.send(Message(topic, b"the last"), queue=0)
        heard.wait(1)
    assert committed(mq.namesrv, "closing", topic)[sent.queue] == 1


def test_closing_waits_for_listeners_at_work_but_not_for_ever(
    mq: LocalCluster, topic: str, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    """What one has finished in time is consumed; what not comes again."""
    in_time, never = threading.Event(), threading.Event()
    heard = Listener(lambda message: in_time.wait(0.2) if message.body == b"0" else never.wait(PATIENCE_S))
    config = replace(QUICK, await_termination_millis_when_shutdown=1_000)
    with PushConsumer(mq.namesrv, "waits", listener=heard, config=config) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 2)
        heard.wait(2)
    assert list(committed(mq.namesrv, "waits", topic).values()) == [1, 0, 0, 0]
    assert "1 calls of the listener have not ended" in caplog.text
    never.set()


def test_what_no_consumer_takes(mq: LocalCluster) -> None:
    """Mistakes show when they are made, by their names."""

    def made(**options: Any) -> PushConsumer:
        return PushConsumer(mq.namesrv, **{"group": "g", "listener": print, **options})

    for options, complaint in [
        ({"group": ""}, "group"),
        ({"listener": "print"}, "listener is 'print', but must be a function"),
        ({"consume_threads": 0}, "consume_threads is 1 to 1000, not 0"),
        ({"consume_message_batch_max_size": 2000}, "consume_message_batch_max_size is 1 to 1024"),
        ({"max_reconsume_times": -2}, "max_reconsume_times"),
        ({"consume_from": "yesterday"}, "consume_from is 'yesterday'"),
        ({"ordered": True, "broadcasting": True}, "exclude each other"),
        ({"allocate_strategy": "randomly"}, "allocate_strategy is 'randomly', but must be one of: averagely"),
    ]:
        with pytest.raises(InvalidArgument, match=complaint):
            made(**options)
    with made() as consumer:
        with pytest.raises(InvalidName):
            consumer.subscribe("no topic")
        with pytest.raises(InvalidFilter):
            consumer.subscribe("orders", "||")
        with pytest.raises(InvalidArgument, match="exclude"):
            consumer.subscribe("orders", "paid", "a > 1")
