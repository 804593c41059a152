"""VIEW_BROKER_STATS_DATA: what mqadmin's statsAll and the dashboard read of topics and groups."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.protocol.bodies.admin import BrokerStatsData, SubscriptionGroupConfig, TopicStatsTable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader, ViewBrokerStatsDataRequestHeader
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.testing.manual_clock import ManualClock

pytestmark = pytest.mark.integration


async def view(client: Any, name: str, key: str) -> BrokerStatsData | None:
    answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, ViewBrokerStatsDataRequestHeader(name, key))
    if answer.code == ResponseCode.SYSTEM_ERROR:
        assert answer.remark == f"The stats <{name}> <{key}> not exist"
        return None
    answer.raise_for_code()
    return BrokerStatsData.decode(answer.body)


async def after_ten_seconds(bench: Any, clock: ManualClock) -> None:
    clock.advance(seconds=10)
    await bench.broker._metrics.count()
    await bench.broker._parts.statistics.sample(clock.monotonic_ms())


def test_what_goes_in_and_out_is_told_by_topic_and_group(on_broker) -> None:
    """Messages, bytes, and what is sent back; the broker's as a whole under its cluster's name."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        group = SubscriptionGroupConfig("billing").encode()
        (await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, group)).raise_for_code()
        for _ in range(10):
            await client.send("orders", b"hello")
        assert await view(client, "TOPIC_PUT_NUMS", "orders") is None
        pulled = await client.pull("orders", consumerGroup="billing", maxMsgNums=8)
        await client.pull("orders", 8, consumerGroup="billing")
        (first, *rest) = bench.records(pulled)
        assert len(rest) == 7
        back = ConsumerSendMsgBackRequestHeader(first.physical_offset, "billing", 1)
        (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).raise_for_code()
        await after_ten_seconds(bench, clock)

        told = {
            (name, key): found.statsMinute
            for name, key in (
                ("TOPIC_PUT_NUMS", "orders"),
                ("TOPIC_PUT_SIZE", "orders"),
                ("GROUP_GET_NUMS", "orders@billing"),
                ("GROUP_GET_SIZE", "orders@billing"),
                ("SNDBCK_PUT_NUMS", "orders@billing"),
                ("BROKER_PUT_NUMS", "DefaultCluster"),
                ("BROKER_GET_NUMS", "DefaultCluster"),
            )
            if (found := await view(client, name, key)) is not None
        }
        topic = await client.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicRequestHeader("orders"))
        assert TopicStatsTable.decode(topic.body).topicPutTps == 1.0
        size = first.size
        assert {each: (item.sum, item.tps, item.avgpt) for each, item in told.items()} == {
            ("TOPIC_PUT_NUMS", "orders"): (10, 1.0, 1.0),
            ("TOPIC_PUT_SIZE", "orders"): (10 * size, float(size), float(size)),
            ("GROUP_GET_NUMS", "orders@billing"): (10, 1.0, 5.0),
            ("GROUP_GET_SIZE", "orders@billing"): (10 * size, float(size), 5.0 * size),
            ("SNDBCK_PUT_NUMS", "orders@billing"): (1, 0.1, 1.0),
            ("BROKER_PUT_NUMS", "DefaultCluster"): (11, 1.1, 0.0),
            ("BROKER_GET_NUMS", "DefaultCluster"): (10, 1.0, 0.0),
        }

    on_broker(talk, clock=clock)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "empty"),
        ("TOPIC_PUT_NUMS", "nothing"),
        ("QUEUE_PUT_NUMS", "orders@0"),
        ("NO_SUCH", "orders"),
        ("GROUP_GET_NUMS", "orders@nobody"),
    ],
)
def test_what_there_is_no_statistic_of_has_rocketmqs_answer(on_broker, name: str, key: str) -> None:
    """A name that is not kept, and what nothing was counted of."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("empty")
        await client.send("orders")
        await after_ten_seconds(bench, clock)
        assert await view(client, name, key) is None

    on_broker(talk, clock=clock)


def test_what_was_deleted_is_told_no_more(on_broker) -> None:
    """With the next look at what came."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.send("orders")
        await after_ten_seconds(bench, clock)
        assert await view(client, "TOPIC_PUT_NUMS", "orders") is not None
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
        await after_ten_seconds(bench, clock)
        assert await view(client, "TOPIC_PUT_NUMS", "orders") is None

    on_broker(talk, clock=clock)
