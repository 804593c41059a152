"""Offsets of groups and queues: asked for, committed, reset."""

from __future__ import annotations

import pytest

from rmqspark.protocol.bodies.bulk import BoundsOfQueues, QueueBounds, QueueOfTopic, QueuesOfTopics
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import ResetOffsetRequestHeader, TopicRequestHeader
from rmqspark.protocol.headers.consume import (
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    PullFlag,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.store.json_table import JsonTable
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration

GROUP_G = HeartbeatData("c1", [], [ConsumerData("g", subscriptionDataSet=[SubscriptionData("orders")])])


async def ready(bench):
    client = await bench.connect()
    await client.create_topic("orders")
    await client.heartbeat(GROUP_G)
    return client


@pytest.mark.parametrize(
    ("group", "messages", "zero_if_not_found", "answer"),
    [
        ("g", 1, None, "0"),  # message 0 is still young: begin there
        ("g", 1, True, "0"),
        ("g", 1, False, None),
        ("g", 0, None, None),  # there is no message 0
        ("nobody", 1, None, "0"),  # as observed of RocketMQ 5.5.0: who asks first is heard of later
        ("nobody", 1, False, None),
    ],
)
def test_a_group_that_never_committed_begins_where_rocketmq_says(
    on_broker, group, messages, zero_if_not_found, answer
) -> None:
    """0 while the first message is recent, else 22: unknown."""

    async def talk(bench) -> None:
        client = await ready(bench)
        for _ in range(messages):
            await client.send("orders")
        header = QueryConsumerOffsetRequestHeader(group, "orders", 0, zero_if_not_found)
        asked = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
        if answer is None:
            assert asked.code == ResponseCode.QUERY_NOT_FOUND
        else:
            assert (asked.code, asked.fields["offset"]) == (0, answer)

    on_broker(talk)


def test_what_rocketmq_knew_with_light_queues_switched_on_is_known(on_broker) -> None:
    """Observed of its broker 5.5.0 with enableLmq=true: all offsets are in a file of another name."""
    files = MemoryFileSystem()
    store = files.within("store")

    async def fill(bench) -> None:
        client = await bench.connect()
        for _ in range(5):
            await client.send("orders")

    async def asked(bench) -> str:
        client = await bench.connect()
        header = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        return (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)).fields["offset"]

    on_broker(fill, files=files)
    for name in store.listdir("config"):
        if name.startswith("consumerOffset.json"):
            store.unlink(f"config/{name}")
    JsonTable(store, "config/lmqConsumerOffset.json").save(
        '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1795776045000},'
        '"groupTopicMap":{"g":["orders"]},"lmqOffsetTable":{"%LMQ%one@g":3},"offsetTable":{"orders@g":{0:3,1:0}},'
        '"pullOffsetTable":{}}'
    )
    assert on_broker(asked, files=files) == "3"


@pytest.mark.parametrize(
    ("group", "topic", "queue", "code"),
    [
        ("g", "orders", 3, ResponseCode.SUCCESS),
        ("nobody", "orders", 0, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("g", "unknown", 0, ResponseCode.TOPIC_NOT_EXIST),
        ("g", "orders", 4, ResponseCode.INVALID_PARAMETER),
        ("g", "orders", -1, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_commits_are_stored_for_what_exists(on_broker, group, topic, queue, code) -> None:
    """A group, a topic and a queue that are there; else an error, and nothing is stored. The queue need not have so
    many messages, as RocketMQ has it, where nothing was lost."""

    async def talk(bench) -> None:
        client = await ready(bench)
        update = UpdateConsumerOffsetRequestHeader(group, topic, queue, 7)
        assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).code == code
        query = QueryConsumerOffsetRequestHeader(group, topic, queue)
        asked = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
        assert asked.fields.get("offset") == ("7" if code == 0 else None)
        table = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
        assert (b'"orders@g":{3:7}' in bytes(table.body)) is (code == 0)

    on_broker(talk)


@pytest.mark.parametrize("lost", ["an end", "a topic"])
@pytest.mark.parametrize("offset", [-1, 3])
def test_an_offset_outside_the_queue_is_none_to_commit(on_broker, offset, lost) -> None:
    """Unknown is said by not committing. And where messages are gone with the log's end, or with a topic of the name,
    who speaks of messages that the queue does not have means those: what comes in their places is not consumed."""

    async def talk(bench) -> None:
        client = await ready(bench)
        if lost == "an end":
            bench.lose_an_end()
        else:
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        for _ in range(2):
            await client.send("orders")
        for committed, code in ((2, ResponseCode.SUCCESS), (offset, ResponseCode.INVALID_PARAMETER)):
            update = UpdateConsumerOffsetRequestHeader("g", "orders", 0, committed)
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).code == code
        query = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "2"

    on_broker(talk)


def test_what_was_consumed_of_a_topic_is_nothing_in_the_next_of_its_name(on_broker) -> None:
    """Though that has as many messages by then. Who commits says of which deletion it knows; RocketMQ's consumers do
    not, and are believed where the queue has so many."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        for _ in range(2):
            await client.send("orders")
        deleted_ms = bench.broker.store.deletions.deleted_ms("orders")
        query = QueryConsumerOffsetRequestHeader("g", "orders", 0, setZeroIfNotFound=False)
        flags = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
        for known_ms, code, committed in (
            (0, ResponseCode.RMQ_TOPIC_REMADE, None),
            (deleted_ms, 0, "1"),
            (None, 0, "1"),
        ):
            await client.pull("orders", 1, sysFlag=flags, commitOffset=1, topicDeleted=known_ms)
            assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields.get("offset") == committed
            update = UpdateConsumerOffsetRequestHeader("g", "orders", 0, 1, topicDeleted=known_ms)
            assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)).code == code
            assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields.get("offset") == committed

    on_broker(talk)


def test_what_a_queue_holds(on_broker) -> None:
    """Its ends, the time of its first message, and the message nearest to a time, from either side."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await ready(bench)
        times = []
        for _ in range(3):
            clock.advance(seconds=10)
            times.append(clock.now_ms())
            await client.send("orders")

        async def offset(code, header) -> int:
            return int((await client.ask(code, header)).fields["offset"])

        assert await offset(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader("orders", 0)) == 3
        assert await offset(RequestCode.GET_MIN_OFFSET, GetMinOffsetRequestHeader("orders", 0)) == 0
        assert await offset(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader("unknown", 0)) == 0
        earliest = GetEarliestMsgStoretimeRequestHeader("orders", 0)
        answer = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, earliest)
        assert answer.fields["timestamp"] == str(times[0])
        empty = GetEarliestMsgStoretimeRequestHeader("orders", 1)
        answer = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, empty)
        assert answer.fields["timestamp"] == "-1"
        for timestamp, boundary, expected in (
            (times[1], None, 1),
            (times[1] - 1, "LOWER", 1),
            (times[1] + 1, "lower", 2),
            (times[1] + 1, "UPPER", 1),
            (times[2] + 1, "upper", 2),
            (times[2] + 1, "LOWER", 3),
            (0, "UPPER", 0),
        ):
            header = SearchOffsetRequestHeader("orders", 0, timestamp, boundary)
            assert await offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header) == expected, (timestamp, boundary)

    on_broker(talk, clock=clock)


@pytest.mark.parametrize(
    ("fields", "code", "offset"),
    [
        ({"timestamp": -1}, 0, 3),
        ({"timestamp": 0}, 0, 0),
        ({"timestamp": 0, "queueId": 0, "offset": 2}, 0, 2),
        ({"timestamp": 0, "queueId": 0, "offset": 5}, ResponseCode.SYSTEM_ERROR, None),
        ({"timestamp": 0, "group": "nobody"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, None),
        ({"timestamp": 0, "topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST, None),
        ({"timestamp": 0, "queueId": 9}, ResponseCode.INVALID_PARAMETER, None),
    ],
)
def test_an_operator_moves_a_group(on_broker, fields, code, offset) -> None:
    """To the end, to a time, to an offset; what is outside the queue or not there is refused."""

    async def talk(bench) -> None:
        client = await ready(bench)
        for _ in range(3):
            await client.send("orders")
        header = ResetOffsetRequestHeader(**{"topic": "orders", "group": "g", "isForce": True, **fields})
        answer = await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert answer.code == code
        asked = await client.ask(
            RequestCode.QUERY_CONSUMER_OFFSET, QueryConsumerOffsetRequestHeader("g", "orders", 0, False)
        )
        assert asked.fields.get("offset") == (None if offset is None else str(offset))

    on_broker(talk)


def test_commits_do_not_undo_a_reset_that_is_not_known_yet(on_broker) -> None:
    """They are answered as done, as RocketMQ does, and not stored."""

    async def talk(bench) -> None:
        client = await ready(bench)
        for _ in range(3):
            await client.send("orders")
        reset = ResetOffsetRequestHeader("orders", "g", timestamp=0, isForce=True)
        await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)
        update = UpdateConsumerOffsetRequestHeader("g", "orders", 0, 3)
        answer = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, update)
        assert (answer.code, answer.remark) == (0, "Offset has been previously reset")
        query = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "0"

    on_broker(talk)


def test_bounds_of_many_queues(on_broker) -> None:
    """What each tells by itself, in the order of the question, also of those that are not there; a crowd is refused."""

    async def talk(bench) -> None:
        client = await ready(bench)
        for _ in range(3):
            await client.send("orders")
        asked = QueuesOfTopics([QueueOfTopic("nowhere", 0), QueueOfTopic("orders", 0), QueueOfTopic("orders", 9)])
        answer = await client.ask(RequestCode.RMQ_QUEUE_BOUNDS, None, asked.encode())
        assert BoundsOfQueues.decode(answer.body).queues == [QueueBounds(), QueueBounds(0, 3, 0), QueueBounds()]
        crowd = QueuesOfTopics([QueueOfTopic("orders", 0)] * 1_001).encode(standard=True)
        refused = await client.ask(RequestCode.RMQ_QUEUE_BOUNDS, None, crowd)
        assert refused.code == ResponseCode.INVALID_PARAMETER

    on_broker(talk)
