"""How push consumers read a backlog of a real broker: what each request brings, one after the other."""

from __future__ import annotations

from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark import Message, Producer
from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.capabilities import StoreLife
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pushing.process_queue import ProcessQueue, Room
from rmqspark.client.pushing.pulls import Found, Gone, Moved, Pulls
from rmqspark.client.pushing.subscription import Subscription
from rmqspark.client.sending.delivery import Delivery, Parcel
from rmqspark.client.sending.outgoing import Outgoing
from rmqspark.client.sending.selection import Target
from rmqspark.errors import StoreReplaced
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.record import SysFlag
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark import AdminClient
    from rmqspark.client.pushing.pulls import Pulled
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

COUNT = 200
BATCH = 32


class Reader:
    """Asks for what comes next in queue 0 and waits for it; what arrives is held, and consumed when the test says."""

    def __init__(
        self, cluster: ClusterClient, topic: str, tags: str = "*", sql: str | None = None, *, commits: bool = True
    ) -> None:
        self.cluster = cluster
        self.group = f"group-of-{topic}"
        self.held = ProcessQueue(MessageQueue(topic, "broker-a", 0), 0)
        self.subscriptions = {topic: Subscription.to(topic, tags, sql, 0)}
        self._pulls = Pulls(cluster, self.group, self.subscriptions, BATCH, commits=commits)
        cluster.broker("broker-a").capabilities()  # or the first requests are pulls until the answer is there

    def subscribe(self, topic: str, tags: str) -> None:
        self.subscriptions[topic] = Subscription.to(topic, tags, None, 1)

    def submit(self, messages: int, size_bytes: int = 1 << 20) -> SimpleQueue[Pulled]:
        told: SimpleQueue[Pulled] = SimpleQueue()
        self._pulls.ask(self.held, Room(messages, size_bytes), told.put)
        return told

    def ask(self, messages: int, size_bytes: int = 1 << 20) -> Pulled:
        return self.hear(self.submit(messages, size_bytes))

    def hear(self, told: SimpleQueue[Pulled]) -> Pulled:
        pulled = told.get(timeout=30)
        if isinstance(pulled, Found):
            self.held.arrived(pulled.messages, pulled.next_offset, pulled.end_offset)
            self.held.topic_deleted_ms = pulled.topic_deleted_ms
        return pulled

    def read(self, messages: int, size_bytes: int = 1 << 20) -> list[int]:
        """The numbers in the bodies that an answer brings."""
        found = self.ask(messages, size_bytes)
        assert isinstance(found, Found)
        return [int(message.body) for message in found.messages]

    def consume(self) -> None:
        while batch := self.held.take(BATCH):
            self.held.finish(batch)

    def committed(self) -> int | None:
        return self.cluster.broker("broker-a").query_offset(self.group, self.held.queue.topic, 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(mq: LocalCluster, clock: ManualClock) -> Iterator[ClusterClient]:
    with ClusterClient(mq.namesrv, clock=clock) as client:
        yield client


@pytest.fixture
def backlog(topic: str, producer: Producer) -> str:
    """A topic with messages in queue 0, numbered, every fourth with another tag and price."""
    messages = [
        Message(topic, b"%d" % n, tags="rare" if n % 4 == 0 else "usual", properties={"price": str(n)})
        for n in range(COUNT)
    ]
    producer.send_batch(messages, queue=0)
    return topic


def test_a_backlog_is_read_as_far_as_there_is_room(cluster: ClusterClient, backlog: str) -> None:
    """First a pull, which tells of it; then as many messages, or bytes, at once as may be held; none is left out."""
    reader = Reader(cluster, backlog)
    assert reader.read(BATCH) == list(range(32))
    assert reader.held.backlog == COUNT - 32
    assert reader.read(100) == list(range(32, 132))
    found = reader.read(100, size_bytes=2_000)
    assert found == list(range(132, 132 + len(found)))
    assert 0 < len(found) < COUNT - 132
    assert reader.read(100) == list(range(132 + len(found), COUNT))
    assert reader.held.backlog == 0


def test_what_is_consumed_is_committed_with_each_request(cluster: ClusterClient, backlog: str) -> None:
    """So that who takes the queue over has little to do again."""
    reader = Reader(cluster, backlog)
    for room in (BATCH, 64, 64):
        reader.consume()
        expected = reader.held.commit_offset
        reader.read(room)
        assert (reader.committed() or 0) == expected


def test_what_is_wanted_by_now_is_not_passed_over(cluster: ClusterClient, topic: str, producer: Producer) -> None:
    """A pull that is under way, held by its broker perhaps, leaves out what was not wanted when it was sent."""
    reader = Reader(cluster, topic, "paid")
    told = reader.submit(BATCH)
    reader.subscribe(topic, "shipped")
    producer.send_batch([Message(topic, b"1", tags="shipped"), Message(topic, b"2", tags="paid")], queue=0)
    reader.hear(told)
    assert reader.read(BATCH) == [1]


def test_nor_is_it_in_a_backlog(cluster: ClusterClient, backlog: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which a piece is under way."""
    reader = Reader(cluster, backlog, "rare")
    reader.read(BATCH)
    begin, bulk_read = reader.held.next_offset, BrokerClient.bulk_read

    def on_its_way(*place: Any, **wanted: Any) -> Any:
        reader.subscribe(backlog, "usual")
        return bulk_read(*place, **wanted)

    with monkeypatch.context() as patch:
        patch.setattr(BrokerClient, "bulk_read", on_its_way)
        assert reader.read(64) == []
    assert reader.held.next_offset == begin
    assert reader.read(BATCH)[:3] == [n for n in range(begin, COUNT) if n % 4][:3]


def test_a_bug_while_asking_is_told_and_the_queue_is_read_on(
    cluster: ClusterClient, backlog: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A queue that is asked about and never hears of it would stand still for ever."""
    reader = Reader(cluster, backlog)
    with monkeypatch.context() as patch:
        patch.setattr(BrokerClient, "submit_pull", lambda *_, **__: {}["a bug"])
        pulled = reader.ask(BATCH)
    assert isinstance(pulled, Gone)
    assert "KeyError" in str(pulled.error)
    assert "could not be asked" in caplog.text
    assert reader.read(BATCH) == list(range(BATCH))


def test_an_operator_is_heard_in_the_middle_of_a_backlog(
    cluster: ClusterClient, clock: ManualClock, backlog: str, admin: AdminClient
) -> None:
    """Once a second the request is a pull."""
    reader = Reader(cluster, backlog)
    reader.read(BATCH)
    admin.reset_group(reader.group, to="latest", topic=backlog)
    assert reader.read(64) == list(range(32, 96))
    clock.advance(seconds=1)
    moved = reader.ask(64)
    assert isinstance(moved, Moved)
    assert (moved.next_offset, moved.is_reset) == (COUNT, True)


@pytest.mark.parametrize(("tags", "sql"), [("rare", None), ("*", "price >= 4 AND TAGS = 'rare'")])
def test_only_what_is_wanted_is_read_of_a_backlog(
    cluster: ClusterClient, backlog: str, tags: str, sql: str | None
) -> None:
    """Filtered in the broker, by tags or SQL92, as a pull is."""
    reader = Reader(cluster, backlog, tags, sql)
    wanted = [n for n in range(0, COUNT, 4) if sql is None or n >= 4]
    found = reader.read(BATCH)
    while reader.held.next_offset < COUNT:
        found += reader.read(20)
    assert found == wanted


def test_a_backlog_that_is_gone_meanwhile_is_told_by_a_pull(cluster: ClusterClient, backlog: str) -> None:
    """Which says where the queue goes on."""
    reader = Reader(cluster, backlog)
    reader.read(BATCH)
    reader.held.next_offset, reader.held.end_offset = 10 * COUNT, 20 * COUNT
    assert reader.read(64) == []
    moved = reader.ask(BATCH)
    assert isinstance(moved, Moved)
    assert (moved.next_offset, moved.is_reset) == (COUNT, False)


@pytest.mark.parametrize("new", [10, 2 * COUNT])
def test_a_topic_that_was_made_anew_meanwhile_is_told_by_a_pull(
    cluster: ClusterClient, clock: ManualClock, backlog: str, admin: AdminClient, new: int
) -> None:
    """Be it shorter by now than the one before, or longer: it is read from its beginning."""
    reader = Reader(cluster, backlog)
    reader.read(BATCH)
    batch = reader.held.take(5)
    assert batch is not None
    reader.held.finish(batch)
    admin.delete_topic(backlog)
    admin.create_topic(backlog, queues=1)
    with Producer(cluster.namesrv) as producer:
        producer.send_batch([Message(backlog, b"%d" % number) for number in range(new)], queue=0)
    assert reader.read(64) == []
    moved = reader.ask(BATCH)
    assert isinstance(moved, Moved)
    assert (moved.next_offset, moved.is_reset) == (0, True)
    assert reader.committed() is None, "what was consumed of the one before is nothing in this one"


def test_what_swells_is_read_as_far_as_there_is_room_for_it_inflated(
    cluster: ClusterClient, producer: Producer, topic: str
) -> None:
    """A request asks for bytes as they are stored, of which each may be a thousand; what is left out comes with the
    next one."""
    for number in range(100):
        producer.send(Message(topic, b"%d" % number + b" " * 65_536), queue=0)
    reader = Reader(cluster, topic)
    found = reader.read(BATCH)
    while reader.held.next_offset < 100:
        at_once = reader.read(1_000, size_bytes=1 << 20)
        assert 0 < len(at_once) <= 32
        found += at_once
    assert found == list(range(100))


def test_a_body_that_does_not_inflate_stops_nobody(cluster: ClusterClient, producer: Producer, topic: str) -> None:
    """Anybody may have sent it: the listener has it as it lies there, between its neighbours."""
    producer.send(Message(topic, b"0"), queue=0)
    broken = Parcel(topic, ("F" * 32,), Outgoing(b"1", f"UNIQ_KEY\x01{'F' * 32}\x02", SysFlag.COMPRESSED, 0))
    Delivery(cluster, "g", tries=1).deliver(broken, Target(queue=0), 3000)
    producer.send(Message(topic, b"2"), queue=0)
    assert Reader(cluster, topic).read(10) == [0, 1, 2]


def of_rocketmqs_broker(cluster: ClusterClient, topic: str, position: int, *, commits: bool) -> Reader:
    """One that has read nothing yet since it began, while RocketMQ's broker served the store, which does not say which
    it is; ours does now."""
    reader = Reader(cluster, topic, commits=commits)
    reader.held.next_offset, reader.held.life = position, StoreLife("", 0)
    return reader


def test_who_broadcasts_and_has_read_nothing_yet_goes_on_at_the_end_of_a_store(
    cluster: ClusterClient, backlog: str
) -> None:
    """He consumed all of it once more."""
    reader = of_rocketmqs_broker(cluster, backlog, COUNT, commits=False)
    found = reader.ask(BATCH)
    assert isinstance(found, Found)
    assert (found.messages, found.next_offset) == ([], COUNT)
    assert found.life == cluster.broker("broker-a").capabilities().life._replace(incarnation=0)


@pytest.mark.parametrize(("position", "commits"), [(COUNT - 1, False), (COUNT, True)], ids=["in it", "in a group"])
def test_who_has_read_nothing_yet_begins_anew_where_another_store_may_be(
    cluster: ClusterClient, backlog: str, position: int, commits: bool
) -> None:
    """What is behind his place may be other messages. And a group tells where it is."""
    gone = of_rocketmqs_broker(cluster, backlog, position, commits=commits).ask(BATCH)
    assert isinstance(gone, Gone)
    assert isinstance(gone.error, StoreReplaced)
