"""The way of a message through a real cluster: each link of it, and what is said where a link is missing."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from rmqspark import Message, PullConsumer, PushConsumer, TransactionProducer, TransactionState
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import report_query
from rmqspark.client.spark.txn import input_keeper, report_input
from rmqspark.client.tracing.journey import Journey, StageKind, Track
from rmqspark.client.tracing.journey_story import events, group_story
from rmqspark.clock import SystemClock
from rmqspark.errors import MessageNotFound, TopicNotFound
from rmqspark.protocol.bodies.queries import QueryReport
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.sink.transactions.attempt import Attempt
from rmqspark.sink.transactions.attempt_write import write_attempt
from rmqspark.sink.transactions.commit import commit
from rmqspark.testing import cluster
from rmqspark.testing.rmq import Rmq

from ..silent_broker import silent_broker
from .push_talk import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark import AdminClient, PreparedMessage, ReceivedMessage
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration

AT_ONCE, IN_TWO_HOURS = 1, 18  # levels of delay: a second, and the last one
_numbers = count()


@pytest.fixture
def client(mq: LocalCluster) -> Iterator[ClusterClient]:
    with ClusterClient(mq.namesrv) as connected:
        yield connected


def send_back(client: ClusterClient, group: str, message: ReceivedMessage, level: int) -> None:
    """As a consumer of the group does that could not consume the message."""
    header = ConsumerSendMsgBackRequestHeader(
        int(message.offset_msg_id[16:], 16), group, level, originMsgId=message.msg_id, originTopic=message.topic
    )
    broker = client.broker(message.queue.broker_name)
    broker.pull(message.queue, message.queue_offset, group=group, max_count=1)  # the group is there then
    broker.call(RequestCode.CONSUMER_SEND_MSG_BACK, header)


def commit_batch(client: ClusterClient, topic: str, version: int, *bodies: str, query: str) -> None:
    """A version of query `query` that writes exactly-once to the topic, under the topic's name."""
    attempt = Attempt(topic, "run-1", version, 0, f"{next(_numbers)}-x", query_id=query, batch_id=version)
    batch = pa.record_batch({"body": pa.array(bodies)})
    commit(client, TransactionOptions(), [write_attempt(client, SinkOptions(topic=topic), attempt, [batch])])


def whats(journey: Journey) -> list[str]:
    return [event.what for event in events(journey)]


def gaps(journey: Journey) -> str:
    return "; ".join(f"{gap.what}: {gap.why}" for gap in journey.unknown)


def test_a_message_by_either_id(rmq: Rmq, admin: AdminClient, topic: str) -> None:
    """Where it was stored, by both ids the same; nobody reads it, nothing came of it, nothing is unknown."""
    (receipt,) = rmq.send(topic, Message(topic, b"x", tags="paid", keys=["42"]))
    by_unique_id = admin.journey(receipt.msg_id, topic)
    assert by_unique_id == admin.journey(receipt.msg_id) == admin.journey(receipt.offset_msg_id)
    assert (by_unique_id.place.queue, by_unique_id.place.queue_offset) == (receipt.queue, receipt.queue_offset)
    assert by_unique_id.place.offset_msg_id == receipt.offset_msg_id
    assert by_unique_id.place.physical_offset == int(receipt.offset_msg_id[16:], 16)
    assert (by_unique_id.topic, by_unique_id.is_readable) == (topic, True)
    assert (by_unique_id.groups, by_unique_id.unknown, whats(by_unique_id)) == ((), (), ["sent", "stored"])


def test_what_is_not_there(admin: AdminClient, rmq: Rmq, topic: str) -> None:
    """Neither an id nor a topic is made up."""
    rmq.send(topic, b"x")
    with pytest.raises(MessageNotFound):
        admin.journey("7F0000010A3B18B4AAC25E0BE0F50007", topic)
    with pytest.raises(MessageNotFound):
        admin.journey("7F0000010A3B18B4AAC25E0BE0F50007")
    with pytest.raises(TopicNotFound):
        admin.journey("7F0000010A3B18B4AAC25E0BE0F50007", "nowhere")


def test_groups_that_read_it(rmq: Rmq, admin: AdminClient, mq: LocalCluster, topic: str) -> None:
    """By what they have committed; a group that has committed nothing here is unknown, not behind."""
    receipts = rmq.send(topic, *[b"x"] * 4)
    queue = receipts[0].queue
    for group, committed in (("past", 1), ("before", 0)):
        with PullConsumer(mq.namesrv, group=f"{group}-{topic}") as consumer:
            consumer.commit({queue: committed})
    with PullConsumer(mq.namesrv, group=f"elsewhere-{topic}") as consumer:
        consumer.commit({receipts[1].queue: 1})
    readers = {each.group.partition("-")[0]: each for each in admin.journey(receipts[0].msg_id, topic).groups}
    assert {name: each.is_past for name, each in readers.items()} == {"past": True, "before": False, "elsewhere": None}
    assert {each.track for each in readers.values()} == {Track.NOT_ONLINE}
    assert "has committed no offset of this queue: unknown" in group_story(readers["elsewhere"])


def test_groups_that_are_connected(rmq: Rmq, admin: AdminClient, mq: LocalCluster, topic: str) -> None:
    """RocketMQ's words for them: consumed, or passed over because of its tag."""
    (receipt,) = rmq.send(topic, Message(topic, b"x", tags="paid"))
    seen: list[ReceivedMessage] = []
    names = {tags: f"{number}-{topic}" for number, tags in enumerate(("paid", "shipped"))}
    members = [PushConsumer(mq.namesrv, group=name, listener=seen.append) for name in names.values()]
    for member, tags in zip(members, names, strict=True):
        member.subscribe(topic, tags)
    with members[0], members[1]:

        def tracks() -> dict[str, Track]:
            return {each.group: each.track for each in admin.journey(receipt.msg_id, topic).groups}

        wanted = {names["paid"]: Track.CONSUMED, names["shipped"]: Track.CONSUMED_BUT_FILTERED}
        rmq.send(topic, *[Message(topic, b"y", tags="paid"), Message(topic, b"y", tags="shipped")] * 4)
        wait_until(lambda: tracks() == wanted, "both are beyond it")


def test_retries_and_a_dead_letter(rmq: Rmq, admin: AdminClient, client: ClusterClient, topic: str) -> None:
    """What a group gave back, waiting and delivered, and what it gave up; and back from each to the first message."""
    group = f"g-{topic}"
    (receipt,) = rmq.send(topic, Message(topic, b"x", tags="paid"))
    (message,) = rmq.messages(topic)
    send_back(client, group, message, IN_TWO_HOURS)
    waiting = admin.journey(receipt.msg_id, topic)
    (told,) = waiting.returns
    assert (told.group, told.is_waiting, told.times, told.first_msg_id) == (group, True, 1, message.offset_msg_id)
    assert told.due_ms == told.place.stored_ms + 7_200_000
    assert whats(waiting) == ["sent", "stored", "retry 1"]

    send_back(client, group, message, AT_ONCE)
    wait_until(
        lambda: f"%RETRY%{group}" in rmq.admin.topics(system=True) and rmq.messages(f"%RETRY%{group}"), "a retry"
    )
    (retry,) = rmq.messages(f"%RETRY%{group}")
    send_back(client, group, retry, -1)
    (dead,) = rmq.messages(f"%DLQ%{group}")
    journey = admin.journey(message.offset_msg_id)
    assert [(each.is_dead, each.times, each.is_waiting) for each in journey.returns] == [
        (False, 1, True),
        (False, 1, False),
        (True, 2, False),
    ]
    assert whats(journey) == ["sent", "stored", "retry 1", "retry 1", "dead letter"]

    of_retry, of_dead = (admin.journey(each.offset_msg_id) for each in (retry, dead))
    assert of_retry.returned is not None
    assert (of_retry.returned.group, of_retry.returned.is_dead, of_retry.returned.times) == (group, False, 1)
    assert [stage.kind for stage in of_retry.stages] == [StageKind.DELAY]
    assert [(each.is_dead, each.is_waiting) for each in of_retry.returns] == [(False, True), (True, False)]
    assert of_dead.returned is not None
    assert (of_dead.returned.is_dead, of_dead.returned.times) == (True, 2)
    assert of_retry.first == of_dead.first == journey.place
    assert whats(of_dead)[-2:] == ["retry 1", "dead letter"]
    assert (journey.unknown, of_retry.unknown, of_dead.unknown) == ((), (), ())


@pytest.mark.parametrize(("asked", "kind"), [({"delay_level": 1}, StageKind.DELAY), ({}, StageKind.DELIVER_TIME)])
def test_a_message_that_waited(
    rmq: Rmq, admin: AdminClient, topic: str, asked: dict[str, int], kind: StageKind
) -> None:
    """Where, and until when; the id of its receipt leads to it before and after it was delivered."""
    asked = asked or {"deliver_time_ms": SystemClock().now_ms() + 1_500}
    (receipt,) = rmq.send(topic, Message(topic, b"x", **asked))
    waiting = admin.journey(receipt.offset_msg_id)
    if not waiting.is_readable:  # on a slow machine its time has come already
        assert (waiting.topic, [stage.kind for stage in waiting.stages], waiting.groups) == (topic, [kind], ())
        assert waiting.stages[0].due_ms is not None
        assert admin.journey(receipt.msg_id, topic).place.queue.topic in (waiting.place.queue.topic, topic)
    wait_until(lambda: rmq.messages(topic), "it is delivered")
    for journey in (admin.journey(receipt.offset_msg_id), admin.journey(receipt.msg_id, topic)):
        assert (journey.place.queue.topic, journey.is_readable) == (topic, True)
        assert [(stage.kind, stage.place.offset_msg_id) for stage in journey.stages] == [(kind, receipt.offset_msg_id)]
        assert (whats(journey), journey.unknown) == (["sent", "waits", "stored"], ())


class Decides:
    """A listener that says one thing."""

    def __init__(self, state: TransactionState) -> None:
        self.state = state

    def execute(self, message: PreparedMessage, arg: object) -> TransactionState:
        return self.state

    def check(self, message: ReceivedMessage) -> TransactionState:
        return self.state


def test_a_transaction_of_a_producer(rmq: Rmq, admin: AdminClient, mq: LocalCluster, topic: str) -> None:
    """Its half message, and whether anything came of it: what only the broker knows is unknown."""
    ids = []
    for state in (TransactionState.COMMIT, TransactionState.UNKNOWN):
        with TransactionProducer(mq.namesrv, group=f"p-{topic}", listener=Decides(state)) as producer:
            ids.append(producer.send(Message(topic, b"x")).receipt.msg_id)
    committed, open_ = (admin.journey(msg_id, topic) for msg_id in ids)
    assert (committed.place.queue.topic, whats(committed)) == (topic, ["sent", "half message", "stored"])
    (half,) = committed.stages
    assert (half.kind, half.group, half.transaction_id, half.real_topic) == (
        StageKind.HALF_MESSAGE,
        f"p-{topic}",
        ids[0],
        topic,
    )
    assert committed.unknown == ()
    assert (open_.is_readable, open_.topic, whats(open_)) == (False, topic, ["sent", "half message"])
    assert "what became of its transaction: no committed message names it" in gaps(open_)


def test_an_exactly_once_batch_from_both_sides(rmq: Rmq, admin: AdminClient, client: ClusterClient, topic: str) -> None:
    """What a message was read by, and what came of that; and back from the output to the ranges it was made of."""
    source, query = f"in-{topic}", f"q-{topic}"
    rmq.create_topic(source, queues=1)
    receipts = rmq.send(source, *(b"%d" % number for number in range(6)))
    report_query(client, QueryReport(query, "run", f"name of {topic}", batchId=2, state="stopped"))
    for version, (first, end) in enumerate([(0, 2), (2, 5)]):
        piece = InputRange(f"g-{topic}", source, "broker-a", 0, first, end)
        report_input(input_keeper(client, query), query, version, [piece]).result().raise_for_code()
        commit_batch(client, topic, version, f"{version}-a", f"{version}-b", query=query)

    read = admin.journey(receipts[3].msg_id, source)
    (batch,) = read.batches
    assert (batch.query_id, batch.query_name, batch.transactional_id, batch.version) == (
        query,
        f"name of {topic}",
        topic,
        1,
    )
    assert (batch.read.fromOffset, batch.read.toOffset) == (2, 5)
    assert sum(each.toOffset - each.fromOffset for each in batch.outputs) == 2
    assert [(each.group, each.is_past) for each in read.groups] == [(f"g-{topic}", True)]  # the decision has moved it
    assert (whats(read), read.unknown) == (["sent", "stored", "read"], ())
    assert admin.journey(receipts[5].msg_id, source).batches == ()

    (made, *_) = [message for message in rmq.messages(topic) if message.body == b"1-b"]
    for msg_id in (made.msg_id, made.offset_msg_id):
        written = admin.journey(msg_id, topic)
        assert written.written_by is not None
        assert (written.written_by.transactional_id, written.written_by.version) == (topic, 1)
        assert [(each.topic, each.fromOffset, each.toOffset) for each in written.written_by.inputs] == [(source, 2, 5)]
        assert (whats(written), written.unknown) == (["sent", "half batch", "committed", "stored"], ())
    (half,) = written.stages
    assert (half.kind, half.real_topic, half.transaction_id, half.version) == (StageKind.HALF_BATCH, topic, topic, 1)
    for look in (admin.journey, admin.message):  # what is not committed, either
        with pytest.raises(MessageNotFound, match="its own books"):
            look(half.place.offset_msg_id)


def test_what_a_query_that_writes_elsewhere_has_told(
    rmq: Rmq, admin: AdminClient, client: ClusterClient, topic: str
) -> None:
    """Its newest batch is known; that an older one had read a message is not, and is said to be unknown."""
    source, query = f"in-{topic}", f"elsewhere-{topic}"
    rmq.create_topic(source, queues=1)
    receipts = rmq.send(source, *[b"x"] * 6)
    piece = InputRange("", source, "broker-a", 0, 2, 4)
    report_input(input_keeper(client, query), query, 7, [piece]).result().raise_for_code()
    before, within, behind = (admin.journey(receipts[number].msg_id, source) for number in (0, 3, 5))
    (batch,) = within.batches
    assert (batch.query_id, batch.batch_id, batch.version) == (query, 7, None)
    assert "what it wrote is not recorded here" in events(within)[-1].story
    assert (before.batches, behind.batches, within.unknown, behind.unknown) == ((), (), (), ())
    assert f"whether query {query} has read it, and in which batch" in gaps(before)


def test_a_batch_that_told_nothing_of_what_it_read(
    rmq: Rmq, admin: AdminClient, client: ClusterClient, topic: str
) -> None:
    """Other sources than ours tell nothing; which batch wrote it is known all the same."""
    commit_batch(client, topic, 4, "a", query=f"q-{topic}")
    (message,) = rmq.messages(topic)
    journey = admin.journey(message.offset_msg_id)
    assert journey.written_by is not None
    assert (journey.written_by.version, journey.written_by.inputs) == (4, ())
    assert "what the batch had read that wrote it: its source told nothing" in gaps(journey)


def test_the_same_id_sent_twice(rmq: Rmq, admin: AdminClient, topic: str) -> None:
    """As by a producer that did not hear the first answer: the first is told, and that there is another."""
    (first,) = rmq.send(topic, b"x")
    (message,) = rmq.messages(topic)
    group = f"g-{topic}"
    rmq.give_up(group, message)
    admin.resend_dead_letters(group, to_topic=True)
    journey = admin.journey(first.msg_id, topic)
    assert journey.place.offset_msg_id == first.offset_msg_id
    assert [each.queue.topic for each in journey.duplicates] == [topic]
    assert whats(journey) == ["sent", "stored", "dead letter", "stored again"]


def test_a_broker_that_is_away() -> None:
    """What the others know is told; what it may know is unknown, by its name."""
    with cluster(brokers=1) as mq, Rmq(mq) as rmq:
        (kept,) = rmq.send("orders", b"x")
        with PullConsumer(mq.namesrv, group="billing") as consumer:
            consumer.commit({kept.queue: kept.queue_offset + 1})
        assert rmq.admin.journey(kept.offset_msg_id).unknown == ()
        with silent_broker(mq.namesrv):
            journey = rmq.admin.journey(kept.offset_msg_id)
        assert [(each.group, each.is_past) for each in journey.groups] == [("billing", True)]
        assert [gap.what for gap in journey.unknown] == [
            "copies, retries and dead letters on broker-x",
            "which batches that broker-x coordinates read or wrote it",
            "which queries that write elsewhere have told broker-x that they read it",
        ]
        assert all("broker-x" in gap.why for gap in journey.unknown)
