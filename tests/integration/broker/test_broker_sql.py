"""SQL92 filters in the broker: pulls, pulls that wait, bulk reads, what is refused."""

from __future__ import annotations

import asyncio

import pytest

from rmqspark.protocol.bodies.client import CheckClientConfigBody, ConsumerData, HeartbeatData, SubscriptionData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader

pytestmark = pytest.mark.integration
UNSUPPORTED = "The broker does not support consumer to filter message by SQL92"


def bodies(bench, response) -> list[bytes]:
    return [record.body for record in bench.records(response)]


def sql(expression: str, **fields) -> dict:
    """The fields of a pull that brings its own expression."""
    return {"subscription": expression, "expressionType": "SQL92", **fields}


def subscriber(expression: str, *, version: int = 1) -> HeartbeatData:
    subscription = SubscriptionData("orders", subString=expression, subVersion=version, expressionType="SQL92")
    return HeartbeatData("c1", [], [ConsumerData("g", subscriptionDataSet=[subscription])])


def bulk_header(expression: str, offset: int = 0, end: int = 1 << 40, **fields) -> BulkReadRequestHeader:
    wanted = {"maxCount": 1000, "maxBytes": 1 << 20, "sql": expression, **fields}
    return BulkReadRequestHeader("orders", 0, offset, end, **wanted)


async def fill(client, count: int = 6) -> None:
    """Prices 0, 10, 20 …; region EU for even ones, none for odd ones."""
    for number in range(count):
        properties = {"price": str(number * 10), **({} if number % 2 else {"region": "EU"})}
        await client.send("orders", b"%d" % number, properties)


@pytest.mark.parametrize(
    ("expression", "offset", "fields", "found", "code", "next_offset"),
    [
        ("price > 30", 0, {}, [4, 5], 0, 6),
        ("region = 'EU' AND price < 40", 0, {}, [0, 2], 0, 6),
        ("region IS NULL", 2, {}, [3, 5], 0, 6),
        ("TRUE", 0, {"maxMsgNums": 2}, [0, 1], 0, 2),
        ("price >= 10", 0, {"maxMsgNums": 2}, [1, 2], 0, 3),
        ("price > 1000", 0, {}, [], ResponseCode.PULL_RETRY_IMMEDIATELY, 6),
        ("region > 3", 0, {}, [], ResponseCode.PULL_RETRY_IMMEDIATELY, 6),
        ("price > 30", 6, {}, [], ResponseCode.PULL_NOT_FOUND, 6),
        ("price > 30", 7, {}, [], ResponseCode.PULL_OFFSET_MOVED, 6),
    ],
)
def test_pulls_get_what_their_expression_accepts(
    on_broker, expression, offset, fields, found, code, next_offset
) -> None:
    """Others are skipped, and the client is told to go on behind them."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await fill(client)
        answer = await client.pull("orders", offset, **sql(expression, **fields))
        assert (answer.code, answer.fields["nextBeginOffset"]) == (code, str(next_offset))
        assert bodies(bench, answer) == [b"%d" % number for number in found]

    on_broker(talk)


def test_subscriptions_of_heartbeats_may_be_expressions(on_broker) -> None:
    """24 without one, 25 for an older one, 27 for one that is none, as RocketMQ has them."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await fill(client)
        assert (await client.pull("orders", sysFlag=0)).code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        assert (await client.heartbeat(subscriber("price > 30", version=5))).code == 0
        assert bodies(bench, await client.pull("orders", sysFlag=0, subVersion=5)) == [b"4", b"5"]
        assert (await client.pull("orders", sysFlag=0, subVersion=6)).code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert (await client.heartbeat(subscriber("price > ", version=6))).code == 0
        refused = await client.pull("orders", sysFlag=0, subVersion=6)
        assert refused.code == ResponseCode.FILTER_DATA_NOT_EXIST
        assert "at character 9" in refused.remark
        assert (await client.heartbeat(subscriber("x" * 20_000, version=7))).code != 0

    on_broker(talk)


async def ask_in_all_ways(client, condition: str) -> list:
    """What a pull with a condition is answered, a bulk read, and the question that clients ask at their start."""
    subscription = SubscriptionData("orders", subString=condition, expressionType="SQL92")
    return [
        await client.pull("orders", **sql(condition)),
        await client.ask(RequestCode.RMQ_BULK_READ, bulk_header(condition)),
        await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=CheckClientConfigBody("c1", "g", subscription).encode()),
    ]


def test_a_mistake_is_answered_with_its_place(on_broker) -> None:
    """23, from a pull, a bulk read and the question that clients ask at their start."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await fill(client, 1)
        answers = await ask_in_all_ways(client, "a > '3'")
        for answer in answers:
            assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            assert "at character 5: '3' is no number" in answer.remark
        both = await client.ask(RequestCode.RMQ_BULK_READ, bulk_header("a > 3", tags="paid"))
        assert both.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    on_broker(talk)


def test_where_property_filters_are_off_that_is_said(on_broker) -> None:
    """Code 1 in RocketMQ's words; tags go on working."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await fill(client, 1)
        answers = await ask_in_all_ways(client, "a > 3")
        assert {(answer.code, answer.remark) for answer in answers} == {(ResponseCode.SYSTEM_ERROR, UNSUPPORTED)}
        assert (await client.pull("orders", subscription="paid")).code == ResponseCode.PULL_RETRY_IMMEDIATELY

    on_broker(talk, enable_property_filter=False)


def test_a_waiting_pull_is_answered_by_the_first_message_it_wants(on_broker) -> None:
    """Others leave it waiting, and are behind it when it is answered."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        pull = asyncio.ensure_future(client.pull("orders", **sql("price > 30", wait_ms=60_000)))
        await client.settle()
        for price in ("10", "20", "cheap"):
            await client.send("orders", b"no", {"price": price})
            await client.settle()
        assert not pull.done()
        await client.send("orders", b"yes", {"price": "40"})
        answer = await pull
        assert (answer.code, bodies(bench, answer), answer.fields["nextBeginOffset"]) == (0, [b"yes"], "4")

    on_broker(talk)


def test_a_waiting_pull_moves_past_what_it_does_not_want(on_broker) -> None:
    """The next scan tells it so, as RocketMQ's does, with nothing to show for it."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        pull = asyncio.ensure_future(client.pull("orders", **sql("price > 30", wait_ms=60_000)))
        await client.settle()
        await fill(client, 3)
        answer = await pull
        assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
        assert answer.fields["nextBeginOffset"] == "3"

    on_broker(talk, long_polling_enable=False, short_polling_time_mills=600_000)


@pytest.mark.parametrize(
    ("header", "found", "next_offset"),
    [
        (bulk_header("price > 30"), [4, 5], 6),
        (bulk_header("price > 0", 0, 4), [1, 2, 3], 4),
        (bulk_header("price > 0", maxCount=2), [1, 2], 3),
        (bulk_header("price > 0", maxBytes=1), [1], 2),
        (bulk_header("nothing IS NOT NULL"), [], 6),
    ],
)
def test_bulk_reads_bring_only_what_matches(on_broker, header, found, next_offset) -> None:
    """As far as the limits allow; the answer says where to go on."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await fill(client)
        answer = await client.ask(RequestCode.RMQ_BULK_READ, header)
        assert (answer.code, answer.fields["nextBeginOffset"], answer.fields["count"]) == (
            0,
            str(next_offset),
            str(len(found)),
        )
        sizes = memoryview(answer.body)[: 4 * len(found)]
        answer.body = memoryview(answer.body)[len(sizes) :]
        assert bodies(bench, answer) == [b"%d" % number for number in found]

    on_broker(talk)
