"""Requests that are well-formed and ask for too much: each is refused, and nothing of it is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.protocol.bodies.admin import SimpleSubscriptionData, SubscriptionGroupConfig, TopicConfigList
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, LockBatchBody, SubscriptionData
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import GetConsumeStatsRequestHeader, GetSubscriptionGroupConfigRequestHeader

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.integration

REFUSED = (ResponseCode.INVALID_PARAMETER, ResponseCode.SUBSCRIPTION_PARSE_FAILED)


def consumer(**fields: Any) -> HeartbeatData:
    return HeartbeatData("c", consumerDataSet=[ConsumerData("hostile", **fields)])


@pytest.mark.parametrize(
    "heartbeat",
    [
        HeartbeatData("c" * 2_000, consumerDataSet=[ConsumerData("hostile")]),
        consumer(messageModel="B" * 100),
        consumer(consumeType="B" * 100),
        consumer(consumeFromWhere="B" * 100),
        consumer(subscriptionDataSet=[SubscriptionData("t", "a" * 10_000)]),
        consumer(subscriptionDataSet=[SubscriptionData("t", tagsSet=["a" * 10_000])]),
        consumer(subscriptionDataSet=[SubscriptionData("t", tagsSet=[""] * 5_000)]),
        consumer(subscriptionDataSet=[SubscriptionData("t", codeSet=[1] * 5_000)]),
        consumer(subscriptionDataSet=[SubscriptionData("t", expressionType="T" * 100)]),
        consumer(subscriptionDataSet=[SubscriptionData(f"t{number}") for number in range(1_025)]),
    ],
    ids=lambda heartbeat: "",
)
def test_a_heartbeat_leaves_no_more_than_its_place(on_broker: Callable[..., Any], heartbeat: HeartbeatData) -> None:
    """What a client says of itself is kept while it lives, so it cannot be megabytes."""

    async def talk(bench: Any) -> None:
        client = await bench.connect()
        assert (await client.heartbeat(heartbeat)).code in REFUSED
        header = GetSubscriptionGroupConfigRequestHeader("hostile")
        answer = await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, header)
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST

    on_broker(talk)


@pytest.mark.parametrize("client_id", ["", "c" * 2_000])
def test_a_lock_needs_an_owner_with_a_name(on_broker: Callable[..., Any], client_id: str) -> None:
    """Locks are kept under their owner's id, so it has the same bounds as in a heartbeat."""

    async def talk(bench: Any) -> None:
        client = await bench.connect()
        answer = await client.ask(RequestCode.LOCK_BATCH_MQ, body=LockBatchBody("g", client_id).encode())
        assert answer.code == ResponseCode.INVALID_PARAMETER

    on_broker(talk)


@pytest.mark.parametrize(
    "config",
    [
        SubscriptionGroupConfig("hostile", retryQueueNums=2**31 - 1),
        SubscriptionGroupConfig("hostile", retryQueueNums=1_025),
        SubscriptionGroupConfig("hostile", retryQueueNums=-1),
        SubscriptionGroupConfig("hostile", attributes={"+lite.bind.topic": "b" * 20_000}),
        SubscriptionGroupConfig("hostile", subscriptionDataSet=[SimpleSubscriptionData("t")] * 1_000),
    ],
    ids=["2^31 retry queues", "1,025 retry queues", "-1 retry queue", "long attribute", "many subscriptions"],
)
def test_a_group_is_a_small_thing(on_broker: Callable[..., Any], config: SubscriptionGroupConfig) -> None:
    """One request cannot make a retry topic of two thousand million queues, nor fill the table of groups."""

    async def talk(bench: Any) -> None:
        client = await bench.connect()
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())
        assert answer.code == ResponseCode.INVALID_PARAMETER

    on_broker(talk)


def test_a_list_of_topics_is_checked_like_a_single_one(on_broker: Callable[..., Any]) -> None:
    """Attributes that ask for another kind of queue are refused also in a list, where tools write them with a plus."""

    async def put(client: Any, **attributes: str) -> int:
        topics = TopicConfigList([TopicConfig("listed", attributes=attributes)])
        return int((await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=topics.encode())).code)

    async def talk(bench: Any) -> None:
        client = await bench.connect()
        assert await put(client, **{"queue.type": "BatchCQ"}) == ResponseCode.SYSTEM_ERROR
        assert await put(client, **{"x": "y" * 100_000}) == ResponseCode.SYSTEM_ERROR
        assert await put(client, **{"+message.type": "FIFO"}) == ResponseCode.SUCCESS

    on_broker(talk)


def test_a_topic_named_often_is_looked_at_once(on_broker: Callable[..., Any]) -> None:
    """Asking for the progress in one topic ten thousand times over is no more work than asking once."""

    async def talk(bench: Any) -> None:
        client = await bench.connect()
        await client.create_topic("t", queues=1_024)
        once = await client.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader("g", "t"))
        often = GetConsumeStatsRequestHeader("g", topicList="t;" * 10_000)
        assert (await client.ask(RequestCode.GET_CONSUME_STATS, often)).body == once.body

    on_broker(talk)
