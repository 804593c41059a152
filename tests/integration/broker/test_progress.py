"""How far groups are: all of a broker's at once, and by the time of their messages."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from rmqspark.broker.handlers import broker_progress
from rmqspark.protocol.bodies.admin import ConsumeStats, ConsumeStatsList, QueueTimeSpans, SubscriptionGroupConfig
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, Queue, SubscriptionData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import (
    CloneGroupOffsetRequestHeader,
    GetBrokerConsumeStatsRequestHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from rmqspark.protocol.headers.consume import UpdateConsumerOffsetRequestHeader
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration


async def make_group(client: Any, name: str) -> None:
    made = await client.ask(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, SubscriptionGroupConfig(name).encode()
    )
    made.raise_for_code()


async def commit(client: Any, group: str, topic: str, offset: int) -> None:
    header = UpdateConsumerOffsetRequestHeader(group, topic, 0, offset)
    (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)).raise_for_code()


async def all_groups(client: Any, *, is_order: bool = False) -> ConsumeStatsList:
    answer = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, GetBrokerConsumeStatsRequestHeader(is_order))
    answer.raise_for_code()
    return ConsumeStatsList.decode(answer.body)


def behind(stats: ConsumeStatsList) -> dict[tuple[str, str, int], tuple[int, int, int]]:
    """End, committed and pulled offset, by group, topic and queue."""
    return {
        (group, queue.topic, queue.queue_id): (each.brokerOffset, each.consumerOffset, each.pullOffset)
        for groups in stats.consumeStatsList
        for group, of_topics in groups.items()
        for of_topic in of_topics
        for queue, each in of_topic.offsetTable.items()
    }


def test_all_groups_are_told_of_with_their_topics(on_broker) -> None:
    """A group that is online only with what it subscribes to still; one that consumed nothing has no topics."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        await client.create_topic("steps", 1, order=True)
        for topic in ("orders", "orders", "orders", "steps"):
            await client.send(topic)
        for group in ("billing", "audit", "idle"):
            await make_group(client, group)
        await commit(client, "billing", "orders", 1)
        await client.pull("orders", 1, consumerGroup="billing", maxMsgNums=1)
        await commit(client, "billing", "steps", 1)
        await commit(client, "audit", "orders", 2)

        stats = await all_groups(client)
        of_billing = {("billing", "orders", 0): (3, 1, 2), ("billing", "orders", 1): (0, 0, 0)}
        of_steps = {("billing", "steps", 0): (1, 1, 1)}
        of_audit = {("audit", "orders", 0): (3, 2, 2), ("audit", "orders", 1): (0, 0, 0)}
        assert behind(stats) == of_billing | of_steps | of_audit
        assert (stats.totalDiff, stats.totalInflightDiff) == (3, 1)
        assert stats.brokerAddr == bench.broker.address
        assert {"idle": []} in stats.consumeStatsList
        assert behind(await all_groups(client, is_order=True)) == of_steps

        online = ConsumerData("billing", subscriptionDataSet=[SubscriptionData("steps")])
        await client.heartbeat(HeartbeatData("c1", [], [online]))
        assert behind(await all_groups(client)) == of_steps | of_audit

    on_broker(talk)


def test_queues_that_get_no_more_messages_are_told_of_as_long_as_they_are_read(on_broker) -> None:
    """Whoever takes queues away waits until these are read."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        await client.send("orders", e=1)
        await make_group(client, "billing")
        await commit(client, "billing", "orders", 0)
        await client.create_topic("orders", 2, writeQueueNums=1)
        assert behind(await all_groups(client))["billing", "orders", 1] == (1, 0, 0)
        answer = await client.ask(
            RequestCode.QUERY_CONSUME_TIME_SPAN, QueryConsumeTimeSpanRequestHeader("orders", "billing")
        )
        spans = QueueTimeSpans.decode(answer.body).consumeTimeSpanSet
        assert [each.messageQueue.queueId for each in spans] == [0, 1]

    on_broker(talk)


def test_from_when_messages_are_and_how_long_they_wait(on_broker) -> None:
    """The first, the last, the last one consumed, and how old the next one is."""
    clock = ManualClock(now_ms=1_000_000)

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        await make_group(client, "billing")
        for _ in range(3):
            await client.send("orders")
            clock.advance(seconds=1)

        async def spans() -> list[tuple[int, int, int, int]]:
            header = QueryConsumeTimeSpanRequestHeader("orders", "billing")
            answer = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, header)
            answer.raise_for_code()
            told = QueueTimeSpans.decode(answer.body).consumeTimeSpanSet
            assert [each.messageQueue for each in told] == [Queue("orders", "broker-a", each) for each in (0, 1)]
            return [(each.minTimeStamp, each.maxTimeStamp, each.consumeTimeStamp, each.delayTime) for each in told]

        nothing = (-1, -1, -1, 0)
        assert await spans() == [(1_000_000, 1_002_000, 1_000_000, 3_000), nothing]
        for committed, consumed_ms, delay_ms in ((1, 1_000_000, 2_000), (2, 1_001_000, 1_000), (3, 1_002_000, 0)):
            await commit(client, "billing", "orders", committed)
            assert await spans() == [(1_000_000, 1_002_000, consumed_ms, delay_ms), nothing]
        header = QueryConsumeTimeSpanRequestHeader("nothing", "billing")
        assert (await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, header)).code == ResponseCode.TOPIC_NOT_EXIST

    on_broker(talk, clock=clock)


def test_a_group_takes_over_where_another_one_is(on_broker) -> None:
    """And is there after a power loss. Where there is nothing to take over nothing happens."""

    async def clone(client, source: str, target: str, topic: str | None, *, offline: bool = False) -> int:
        header = CloneGroupOffsetRequestHeader(source, target, topic, offline)
        return (await client.ask(RequestCode.CLONE_GROUP_OFFSET, header)).code

    async def talk(bench) -> MemoryFileSystem:
        client = await bench.connect()
        for topic in ("orders", "steps"):
            await client.create_topic(topic)
            await client.send(topic)
        for group in ("billing", "audit"):
            await make_group(client, group)
        await commit(client, "billing", "orders", 1)
        for source, target, topic in (
            ("billing", "audit", "nothing"),
            ("billing", "audit", "steps"),
            ("x", "y", "steps"),
        ):
            assert await clone(client, source, target, topic) == ResponseCode.SUCCESS
        await client.heartbeat(
            HeartbeatData("c1", [], [ConsumerData("billing", subscriptionDataSet=[SubscriptionData("steps")])])
        )
        assert await clone(client, "billing", "audit", "orders") == ResponseCode.SUCCESS
        assert bench.broker._parts.tables.offsets.topics_of("audit") == []
        for topic, target in ((None, "audit"), (" ", "audit"), ("orders", "a@b"), ("orders", "")):
            assert await clone(client, "billing", target, topic) == ResponseCode.INVALID_PARAMETER
        assert await clone(client, "billing", "audit", "orders", offline=True) == ResponseCode.SUCCESS
        return copy.deepcopy(files)

    async def afterwards(bench) -> None:
        assert bench.broker._parts.tables.offsets.committed("audit", "orders", 0) == 1

    files = MemoryFileSystem()
    left = on_broker(talk, files=files, store={"flush_disk_type": "SYNC_FLUSH"})
    left.crash()
    on_broker(afterwards, files=left)


def test_a_group_that_is_online_without_subscriptions_is_told_of(on_broker) -> None:
    """With all that it has consumed, as in RocketMQ: it does not say that it consumes anything else now."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 1)
        await make_group(client, "billing")
        await commit(client, "billing", "orders", 0)
        await client.heartbeat(HeartbeatData("c1", [], [ConsumerData("billing")]))
        assert behind(await all_groups(client)) == {("billing", "orders", 0): (0, 0, 0)}
        answer = await client.ask(RequestCode.GET_CONSUME_STATS, GetConsumeStatsRequestHeader("billing"))
        assert len(ConsumeStats.decode(answer.body).offsetTable) == 1

    on_broker(talk)


def test_more_than_fits_into_a_frame_is_refused(on_broker, monkeypatch) -> None:
    """With what to ask instead: no client would read it."""
    monkeypatch.setattr(broker_progress, "MAX_ANSWER_BYTES", 1000)

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 16)
        await make_group(client, "billing")
        await commit(client, "billing", "orders", 0)
        header = GetBrokerConsumeStatsRequestHeader(False)
        answer = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, header)
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "mqadmin consumerProgress" in answer.remark

    on_broker(talk)
