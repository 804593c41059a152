"""Pull consumers against the real broker."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, TYPE_CHECKING, NoReturn

import pytest

from rmqspark import AdminClient, Message, Producer, PullConsumer, PushConsumer
from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.connections import Connections
from rmqspark.errors import AlreadyClosed, OffsetMoved, TopicNotFound, TopicRemade, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.remoting.access import Access, Tls
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.model import ReceivedMessage
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration


def send(mq: LocalCluster, topic: str, *bodies: bytes, tags: str | None = None) -> None:
    with Producer(mq.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body, tags=tags))


def fill(mq: LocalCluster, topic: str, count: int) -> None:
    """`count` numbered messages, spread over four queues."""
    with Producer(mq.namesrv) as producer:
        for first in range(0, count, 500):
            batch = [Message(topic, b"%d" % number) for number in range(first, min(first + 500, count))]
            producer.send_batch(batch, queue=first // 500 % 4)


def poll_all(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []
    while len(messages) < count:
        batch = consumer.poll(60_000)
        assert batch, f"{len(messages)} of {count} messages came"
        messages += batch
    return messages


def in_a_fork(work: Callable[[], bytes]) -> bytes:
    """What it comes to in a forked process; nothing if it does not end."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(30)
        with suppress(BaseException):
            os.write(writing, work())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        told = answer.read()
    os.waitpid(child, 0)
    return told


@contextmanager
def working(begin: Callable[[], object]) -> Iterator[IO[bytes]]:
    """What a forked process says, once it has begun; it goes on until the end of the block."""
    (reading, saying), (waiting, ending) = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.close(ending)
        with suppress(BaseException):
            begin()
            os.write(saying, b"started\n")
            os.read(waiting, 1)
        os._exit(0)
    os.close(saying)
    os.close(waiting)
    with open(reading, "rb", buffering=0) as said, open(ending, "wb"):
        yield said
    os.waitpid(child, 0)


def poll_until_error(consumer: PullConsumer, *, besides: type[Exception] | tuple[()] = ()) -> NoReturn:
    while True:
        with suppress(besides):
            assert consumer.poll(500) == []


@pytest.mark.parametrize("bulk", [True, False], ids=["bulk reads", "pulls, as of a stock broker"])
def test_a_backlog_is_read_whole_and_in_order(
    mq: LocalCluster, topic: str, bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every message once, each queue in its order, whether the broker has bulk reads or not."""
    if not bulk:
        monkeypatch.setattr("rmqspark.client.cluster.broker_client.BrokerClient.capabilities", lambda _: Capabilities())
    fill(mq, topic, 10_000)
    with PullConsumer(mq.namesrv, max_poll_messages=700) as consumer:
        consumer.assign(consumer.queues(topic))
        messages = poll_all(consumer, 10_000)
        assert consumer.poll(0) == []
        for queue in consumer.assignment:
            offsets = [message.queue_offset for message in messages if message.queue == queue]
            assert offsets == list(range(len(offsets)))
            assert consumer.position(queue) == len(offsets)
    assert sorted(int(message.body) for message in messages) == list(range(10_000))


def test_a_waiting_consumer_gets_a_message_at_once(mq: LocalCluster, topic: str) -> None:
    """A held pull is answered when a message arrives, on whichever of the queues it does."""
    with PullConsumer(mq.namesrv) as consumer, Producer(mq.namesrv) as producer:
        consumer.assign(consumer.queues(topic))
        assert consumer.poll(0) == []
        for queue_id in (2, 0, 3):
            timer = threading.Timer(0.05, producer.send, [Message(topic, b"x")], {"queue": queue_id})
            timer.start()
            assert [message.queue.queue_id for message in consumer.poll(60_000)] == [queue_id]
            timer.join()


def test_no_queue_starves(mq: LocalCluster, topic: str) -> None:
    """A queue with one message is read at the latest when the next piece of a long backlog is."""
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv, max_poll_messages=100) as consumer:
        for _ in range(20):  # 10 MiB, of which the consumer fetches one at a time
            producer.send_batch([Message(topic, b"x" * 1_000) for _ in range(500)], queue=0)
        producer.send(Message(topic, b"alone"), queue=3)
        consumer.assign(consumer.queues(topic))
        read: list[bytes] = []
        while b"alone" not in read:
            read += [message.body for message in consumer.poll(60_000)]
        assert len(read) < 5_000


def test_seeking_goes_anywhere(mq: LocalCluster, topic: str) -> None:
    """A consumer reads from the offset it is told, again if told again, and from the end only what is new."""
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv) as consumer:
        producer.send_batch([Message(topic, b"%d" % number) for number in range(10)], queue=1)
        queue = consumer.queues(topic)[1]
        consumer.assign([queue])
        for start in (7, 3, 9):
            consumer.seek(queue, start)
            assert [int(message.body) for message in poll_all(consumer, 10 - start)] == list(range(start, 10))
        consumer.seek_to_beginning()
        assert consumer.position(queue) == 0
        consumer.seek_to_end(queue)
        assert consumer.position(queue) == 10
        producer.send(Message(topic, b"new"), queue=1)
        assert [message.body for message in poll_all(consumer, 1)] == [b"new"]


def test_start_latest_skips_what_is_there(mq: LocalCluster, topic: str) -> None:
    """start="latest" begins behind the newest message."""
    send(mq, topic, b"old")
    with PullConsumer(mq.namesrv, start="latest") as consumer:
        consumer.assign(consumer.queues(topic))
        assert consumer.poll(0) == []
        send(mq, topic, b"new")
        assert [message.body for message in poll_all(consumer, 1)] == [b"new"]


def test_a_group_goes_on_where_it_committed(mq: LocalCluster, topic: str) -> None:
    """A group's next consumer continues behind what was committed; what it never committed is unknown."""
    fill(mq, topic, 2_000)
    with PullConsumer(mq.namesrv, group="billing", max_poll_messages=300) as consumer:
        queues = consumer.queues(topic)
        assert [consumer.committed(queue) for queue in queues] == [None] * 4
        consumer.assign(queues)
        first = poll_all(consumer, 600)
        consumer.commit()
        positions = {queue: consumer.position(queue) for queue in queues}
        consumer.poll(1_000)  # read, never committed
    with PullConsumer(mq.namesrv, group="billing") as consumer:
        assert {queue: consumer.committed(queue) for queue in queues} == positions
        consumer.assign(queues)
        rest = poll_all(consumer, 2_000 - len(first))
        consumer.commit({queues[0]: 3})
        assert consumer.committed(queues[0]) == 3
    assert sorted(int(message.body) for message in first + rest) == list(range(2_000))


@pytest.mark.parametrize("bulk", [True, False], ids=["bulk reads", "pulls"])
def test_tags_choose_messages(mq: LocalCluster, topic: str, bulk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only messages with a wanted tag come, and the position passes over the others."""
    if not bulk:
        monkeypatch.setattr("rmqspark.client.cluster.broker_client.BrokerClient.capabilities", lambda _: Capabilities())
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv, tags="b || d") as consumer:
        producer.send_batch([Message(topic, tag.encode(), tags=tag) for tag in "abcd" * 50], queue=0)
        queue = consumer.queues(topic)[0]
        consumer.assign([queue])
        messages = poll_all(consumer, 100)
        assert {message.tags for message in messages} == {"b", "d"}
        assert consumer.poll(0) == []
        assert consumer.position(queue) == 200


@pytest.mark.parametrize("bulk", [True, False])
def test_conditions_choose_messages(mq: LocalCluster, topic: str, bulk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL92 over properties: what is there, then what comes while the consumer waits."""
    if not bulk:
        monkeypatch.setattr("rmqspark.client.cluster.broker_client.BrokerClient.capabilities", lambda _: Capabilities())
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv, sql="price > 10 AND region = 'EU'") as consumer:
        prices = [
            Message(topic, b"%d" % n, properties={"price": str(n), "region": "EUUS"[n % 2 * 2 :][:2]})
            for n in range(60)
        ]
        producer.send_batch(prices, queue=0)
        queue = consumer.queues(topic)[0]
        consumer.assign([queue])
        assert [message.body for message in poll_all(consumer, 24)] == [b"%d" % n for n in range(12, 60, 2)]
        assert consumer.position(queue) == 60
        consumer.poll(0)
        for body, price in ((b"cheap", "9"), (b"dear", "11"), (b"odd", "x")):
            producer.send(Message(topic, body, properties={"price": price, "region": "EU"}), queue=0)
        assert [message.body for message in poll_all(consumer, 1)] == [b"dear"]


def test_unassigned_queues_fall_silent(mq: LocalCluster, topic: str) -> None:
    """After another assign only its queues are read; a queue that stays keeps its place."""
    with Producer(mq.namesrv) as producer, PullConsumer(mq.namesrv) as consumer:
        first, second, *_ = consumer.queues(topic)
        consumer.assign([first, second])
        producer.send(Message(topic, b"1"), queue=first)
        assert [message.body for message in poll_all(consumer, 1)] == [b"1"]
        consumer.assign([first])
        producer.send(Message(topic, b"2"), queue=second)
        producer.send(Message(topic, b"3"), queue=first)
        assert [message.body for message in poll_all(consumer, 1)] == [b"3"]


def test_unassigned_queues_tell_no_errors(mq: LocalCluster, topic: str) -> None:
    """A queue that is read no more, and whose topic is deleted, does not disturb those that are."""
    with Producer(mq.namesrv) as producer, AdminClient(mq.namesrv) as admin, PullConsumer(mq.namesrv) as consumer:
        admin.create_topic(f"{topic}-old", queues=1)
        consumer.assign(consumer.queues(f"{topic}-old"))
        assert consumer.poll(100) == []  # its broker holds a pull
        consumer.assign(consumer.queues(topic))
        admin.delete_topic(f"{topic}-old")
        producer.send(Message(topic, b"1"))
        assert [message.body for message in poll_all(consumer, 1)] == [b"1"]


@pytest.mark.parametrize("is_in_group", [False, True])
@pytest.mark.parametrize("count", [1, 1_000])
def test_offsets_of_a_topic_made_anew_are_the_caller_s_to_decide(
    mq: LocalCluster, topic: str, count: int, is_in_group: bool
) -> None:
    """Whoever has read from the one before is told, also of one that has grown beyond his place by then."""
    group = f"group-of-{topic}" if is_in_group else None
    with (
        Producer(mq.namesrv) as producer,
        AdminClient(mq.namesrv) as admin,
        PullConsumer(mq.namesrv, group=group) as consumer,
    ):
        admin.create_topic(f"{topic}-anew", queues=1)
        (queue,) = consumer.queues(f"{topic}-anew")
        consumer.assign([queue])
        producer.send_batch([Message(queue.topic, b"old")] * count)
        consumer.seek(queue, 0)
        assert len(poll_all(consumer, count)) == count
        admin.delete_topic(queue.topic)
        admin.create_topic(queue.topic, queues=1)
        producer.send_batch([Message(queue.topic, b"new")] * (count + 2))
        with pytest.raises(OffsetMoved, match="deleted") as moved:
            poll_until_error(consumer, besides=TopicNotFound)  # which a pull that the broker held was told
        consumer.seek(queue, moved.value.next_offset)
        assert len(poll_all(consumer, count + 2)) == count + 2


def test_nothing_is_committed_to_a_topic_made_anew(mq: LocalCluster, topic: str) -> None:
    """Who was busy meanwhile has read from the one before: the group's next reader would pass over as many messages."""
    with (
        Producer(mq.namesrv) as producer,
        AdminClient(mq.namesrv) as admin,
        PullConsumer(mq.namesrv, group=f"group-of-{topic}") as consumer,
    ):
        kept, queue = consumer.queues(topic)[0], MessageQueue(f"{topic}-anew", "broker-a", 0)
        admin.create_topic(queue.topic, queues=1)
        consumer.assign([kept, queue])
        for each in (kept, queue):
            producer.send(Message(each.topic, b"old"), queue=each)
        assert len(poll_all(consumer, 2)) == 2
        admin.delete_topic(queue.topic)
        admin.create_topic(queue.topic, queues=1)
        producer.send_batch([Message(queue.topic, b"new")] * 3)
        for offsets in (None, {queue: 1}):
            with pytest.raises(TopicRemade):
                consumer.commit(offsets)
        assert (consumer.committed(kept), consumer.committed(queue)) == (1, None)
        with pytest.raises(OffsetMoved, match="deleted"):
            poll_until_error(consumer, besides=TopicNotFound)
        consumer.seek(queue, 0)
        assert len(poll_all(consumer, 3)) == 3
        consumer.commit()
        assert consumer.committed(queue) == 3


def test_reading_goes_on_after_a_broker_s_restart() -> None:
    """While the only broker is away polls end with its error; when it is back, reading continues without a gap."""
    with cluster() as mq, AdminClient(mq.namesrv) as admin, PullConsumer(mq.namesrv) as consumer:
        admin.create_topic("orders", queues=2)
        send(mq, "orders", b"1")
        consumer.assign(consumer.queues("orders"))
        assert [message.body for message in poll_all(consumer, 1)] == [b"1"]
        consumer.poll(0)
        mq.stop_broker("broker-a")
        with pytest.raises(Unreachable, match="broker-a"):
            poll_until_error(consumer)
        mq.start_broker("broker-a")
        send(mq, "orders", b"2")
        assert [message.body for message in poll_all(consumer, 1)] == [b"2"]


def wait_for_poll(consumer: PullConsumer) -> None:
    """Until another thread has begun with one."""
    turn = consumer._turns[os.getpid()]
    while turn.acquire(blocking=False):
        turn.release()


def test_close_ends_a_poll_in_another_thread(mq: LocalCluster, topic: str) -> None:
    """A thread that waits in poll learns that the consumer was closed."""
    consumer = PullConsumer(mq.namesrv)
    consumer.assign(consumer.queues(topic))
    outcome: list[BaseException] = []

    def wait() -> None:
        try:
            consumer.poll(30_000)
        except AlreadyClosed as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for_poll(consumer)
    consumer.close()
    thread.join(60)
    assert len(outcome) == 1


def test_a_forked_process_reads_on_by_itself(mq: LocalCluster, topic: str) -> None:
    """What was asked before is answered to the other process; and a thread that polled there is none here."""
    with PullConsumer(mq.namesrv) as consumer:
        send(mq, topic, b"first")
        consumer.assign(consumer.queues(topic))
        poll_all(consumer, 1)
        found: list[ReceivedMessage] = []
        polling = threading.Thread(target=lambda: found.extend(poll_all(consumer, 1)))
        polling.start()
        wait_for_poll(consumer)

        def read() -> bytes:
            send(mq, topic, b"second")
            bodies = b"".join(message.body for message in consumer.poll(5_000))
            consumer.close()
            return bodies

        assert in_a_fork(read) == b"second"
        polling.join()
        assert [message.body for message in found] == [b"second"]


def test_a_forked_process_holds_no_connection_of_its_parent(mq: LocalCluster, topic: str) -> None:
    """Else brokers would not notice that this was killed, and keep its queues for it, while the other one lives."""
    with PullConsumer(mq.namesrv) as consumer:
        consumer.assign(consumer.queues(topic))
        consumer.poll(0)
        slots = consumer._cluster._connections._slots.values()
        ours = [slot.live._socket.fileno() for slot in slots if slot.live is not None]

        def look() -> bytes:
            for each in ours:
                with suppress(OSError):
                    os.fstat(each)
                    return b"open"
            return b"closed"

        assert in_a_fork(look) == b"closed"
        send(mq, topic, b"first")
        assert [message.body for message in poll_all(consumer, 1)] == [b"first"]


def test_a_forked_process_holds_no_connection_that_its_parent_is_making() -> None:
    """Such as one whose TLS is not agreed on yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        connections = Connections(60_000, access=Access(tls=Tls()))
        connecting = connections.soon(address)
        peer, _ = server.accept()
        with peer:
            assert peer.recv(1)
            made = [each for each in gc.get_objects() if isinstance(each, BlockingConnection)]
            (ours,) = [each._socket.fileno() for each in made if each.address == address]

            def look() -> bytes:
                with suppress(OSError):
                    os.fstat(ours)
                    return b"open"
                return b"closed"

            assert in_a_fork(look) == b"closed"
        assert isinstance(connecting, Future)
        assert isinstance(connecting.exception(60), Unreachable)
        connections.close()


def test_a_forked_process_is_another_client(mq: LocalCluster, topic: str) -> None:
    """Workers that start a consumer which their parent has made, as those of gunicorn may, divide the queues between
    them: under one id each would read them all."""
    with AdminClient(mq.namesrv) as admin, ExitStack() as workers:
        consumer = PushConsumer(mq.namesrv, "workers", listener=print)
        consumer.subscribe(topic)
        ends = [workers.enter_context(working(consumer.start)) for _ in range(2)]
        assert [each.readline() for each in ends] == [b"started\n"] * 2
        members = admin.group("workers").members
        assert len({member.client_id for member in members}) == 2
        consumer.close()


def test_a_forked_process_keeps_the_name_that_it_was_given(mq: LocalCluster) -> None:
    """By it who broadcasts finds the file of its offsets."""
    with ClusterClient(mq.namesrv, instance_name="one") as named, Producer(mq.namesrv) as producer:
        assert in_a_fork(lambda: named.client_id.encode()).decode() == named.client_id
        ours = producer._cluster
        theirs = in_a_fork(lambda: f"{ours.client_id} {ours.heartbeats._client_id}".encode()).decode().split()
        assert theirs[0] == theirs[1] != ours.client_id


def test_a_forked_process_waits_for_no_thread_of_its_parent(mq: LocalCluster, topic: str) -> None:
    """Whatever these were at when it was forked, and whichever locks they had: there they are let go of, here never."""
    with Producer(mq.namesrv) as producer, ExitStack() as held:
        producer.send(Message(topic, b"first"))
        cluster = producer._cluster
        (broker,) = cluster._brokers.values()
        broker.capabilities()
        connections = cluster._connections

        def send_there() -> bytes:
            broker.capabilities()
            cluster.expire_route(topic)
            return producer.send(Message(topic, b"second")).status.name.encode()

        for lock in (cluster._lock, connections._lock, broker._asking):
            held.enter_context(lock)
        for slot in connections._slots.values():
            held.enter_context(slot._changed)
        assert in_a_fork(send_there) == b"OK"
