"""QUERY_CONSUME_QUEUE: the entries of a queue, as they lie in its file."""

from __future__ import annotations

from typing import Any

import pytest

from rmqspark.broker.handlers import queue_entries
from rmqspark.protocol.bodies.admin import ConsumeQueueEntries
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import QueryConsumeQueueRequestHeader
from rmqspark.protocol.java_hash import java_hash

pytestmark = pytest.mark.integration


async def ask(client: Any, index: int = 0, count: int = 32, group: str | None = None, **fields: Any) -> Any:
    named = {"topic": "orders", "queueId": 0} | fields
    header = QueryConsumeQueueRequestHeader(**named, index=index, count=count, consumerGroup=group)
    return await client.ask(RequestCode.QUERY_CONSUME_QUEUE, header)


async def entries(*args: Any, **fields: Any) -> ConsumeQueueEntries:
    answer = await ask(*args, **fields)
    answer.raise_for_code()
    return ConsumeQueueEntries.decode(answer.body)


async def three_orders(bench: Any) -> Any:
    client = await bench.connect()
    await client.create_topic("orders")
    for number in range(3):
        await client.send("orders", b"x" * (number + 1), {"TAGS": f"t{number}"})
    return client


def test_entries_say_where_messages_lie(on_broker, monkeypatch) -> None:
    """Their places, sizes and tags; so many as were asked for, and as one answer has."""

    async def talk(bench) -> None:
        client = await three_orders(bench)
        found = await entries(client)
        records = bench.records(await client.pull("orders"))
        assert [(each.physicOffset, each.physicSize, each.tagsCode) for each in found.queueData] == [
            (record.physical_offset, record.size, java_hash(f"t{number}")) for number, record in enumerate(records)
        ]
        assert (found.minQueueIndex, found.maxQueueIndex) == (0, 3)
        assert (found.subscriptionData, found.filterData) == (None, None)
        assert (await entries(client, 1, 1)).queueData == found.queueData[1:2]
        assert (await entries(client, 1, 0)).queueData == []
        monkeypatch.setattr(queue_entries, "_MOST_ENTRIES", 2)
        assert (await entries(client, 0, 2**31 - 1)).queueData == found.queueData[:2]

    on_broker(talk)


def test_what_a_group_subscribes_to_is_beside_them(on_broker) -> None:
    """Or that it is not online."""

    async def talk(bench) -> None:
        client = await three_orders(bench)
        assert (await entries(client, group="billing")).filterData == "billing@orders is not online!"
        subscription = SubscriptionData("orders", "t1", subVersion=7)
        await client.heartbeat(HeartbeatData("c1", [], [ConsumerData("billing", subscriptionDataSet=[subscription])]))
        found = await entries(client, group="billing")
        assert found.subscriptionData is not None
        assert (found.subscriptionData.subString, found.filterData) == ("t1", "null")

    on_broker(talk)


def test_what_is_not_there_is_told_as_by_rocketmq(on_broker) -> None:
    """A queue is an error, an index of it a remark."""

    async def talk(bench) -> None:
        client = await three_orders(bench)
        for index in (-1, 3, 1 << 62):
            answer = await ask(client, index)
            told = answer.code, bytes(answer.body), answer.remark
            assert told == (ResponseCode.SUCCESS, b"", f"Index {index} of 0@orders is not exist!")
        for fields in ({"queueId": 9}, {"topic": "nothing"}):
            assert (await ask(client, **fields)).code == ResponseCode.SYSTEM_ERROR

    on_broker(talk)
