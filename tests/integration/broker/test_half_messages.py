"""Transactions of stock producers: half messages and their ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import HEAD_BYTES, encode_record

from .transaction_talk import (
    COMMIT,
    DECISIONS,
    HALF,
    ROLLBACK,
    UNIQUE_KEY,
    UNKNOWN,
    all_of,
    end,
    eventually,
    send_half,
)

pytestmark = pytest.mark.integration


def test_a_half_message_waits_where_nobody_reads_it(on_broker) -> None:
    """It lies in the half topic as RocketMQ puts it there; its own topic stays empty until it is committed."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        assert (sent.fields["queueOffset"], sent.fields["transactionId"]) == ("0", UNIQUE_KEY)
        assert await all_of(bench, client, "orders", 2) == []
        (half,) = await all_of(bench, client, HALF_TOPIC)
        assert (half.topic, half.queue_id, half.sys_flag, half.flag) == (HALF_TOPIC, 0, 0, 7)
        wrapped = {"__transactionId__": UNIQUE_KEY, "REAL_TOPIC": "orders", "REAL_QID": "2"}
        assert HALF.items() | wrapped.items() <= half.property_map().items()

    on_broker(talk)


def test_a_commit_delivers_to_a_queue_that_there_is(on_broker) -> None:
    """The topic may have fewer queues by then than when the half came: in one that it has no more nobody would read
    the message."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        fewer = TopicConfig(topicName="orders", readQueueNums=2, writeQueueNums=2)
        bench.broker._parts.tables.topics.put(fewer, 0)
        assert (await end(client, sent, COMMIT)).code == 0
        assert [message.body for message in await all_of(bench, client, "orders", 0)] == [b"half"]

    on_broker(talk)


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_a_half_message_is_not_ended_in_the_place_of_one_that_is_lost(on_broker, decision: int) -> None:
    """Another producer of the group may have sent it since the broker lost the end of its log: it has the same place in
    the log and the queue."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        lost = await end(client, sent, decision, msgId="C0A8010A1F9018B4AAC25E0BE0F50008")
        assert (lost.code, lost.remark) == (1, "Find prepared transaction message failed")
        assert await all_of(bench, client, OP_HALF_TOPIC) == []
        assert (await end(client, sent, decision, msgId=sent.fields["msgId"])).code == 0
        assert (await end(client, sent, decision, msgId="")).code == 0

    on_broker(talk)


def test_a_commit_delivers_and_marks(on_broker) -> None:
    """The message comes to its queue with its half's place in it, and one op record says that the half is done with."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        assert (await end(client, sent, COMMIT)).code == 0
        (half,) = await all_of(bench, client, HALF_TOPIC)
        (message,) = await all_of(bench, client, "orders", 2)
        assert (message.body, message.queue_id, message.sys_flag, message.flag) == (b"half", 2, 8, 7)
        assert message.prepared_transaction_offset == half.physical_offset
        kept = half.property_map()
        del kept["REAL_TOPIC"], kept["REAL_QID"]
        assert message.property_map() == kept
        (operation,) = await all_of(bench, client, OP_HALF_TOPIC)
        assert (operation.body, operation.property_map()["TAGS"]) == (b"0,", "d")
        found = await client.pull("orders", queueId=2, subscription="TagA")
        assert bench.records(found) == [message]

    on_broker(talk)


def test_a_rollback_only_marks(on_broker) -> None:
    """Nobody ever sees what was rolled back."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        assert (await end(client, sent, ROLLBACK)).code == 0
        assert await all_of(bench, client, "orders", 2) == []
        (operation,) = await all_of(bench, client, OP_HALF_TOPIC)
        assert operation.body == b"0,"

    on_broker(talk)


def test_of_topics_that_are_gone_nothing_is_counted_on(on_broker) -> None:
    """Also where nobody asks for metrics: topics come and go. What is open still counts for a topic that is gone."""

    async def talk(bench) -> None:
        client, parts = await bench.connect(), bench.broker._parts
        for number in range(20):
            topic = f"run{number}"
            await client.create_topic(topic)
            for decision in (COMMIT, ROLLBACK):
                assert (await end(client, await send_half(client, topic), decision)).code == 0
            await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic))
        await send_half(client)
        await eventually(lambda: _is_open(parts.halves))
        await bench.broker._metrics.count()
        ends = parts.counted.ends_of_halves
        assert (parts.halves.open_by_topic, ends._commits, ends._rollbacks) == ({"orders": 1}, {}, {})

    on_broker(talk)


async def _is_open(halves) -> bool:
    return len(halves) > 0


@pytest.mark.parametrize("second", DECISIONS)
@pytest.mark.parametrize("first", DECISIONS)
def test_rocketmq_5574_and_2694_a_transaction_ends_once(on_broker, first: int, second: int) -> None:
    """The same end again is no mistake and changes nothing; a contradicting one is refused. RocketMQ delivers twice in
    the one case, and what was rolled back in the other."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        assert (await end(client, sent, first)).code == 0
        again = await end(client, sent, second, fromTransactionCheck=True)
        assert again.code == (0 if first == second else ResponseCode.TRANSACTION_FAILED)
        assert again.code == 0 or DECISIONS[first] in again.remark
        assert len(await all_of(bench, client, "orders", 2)) == (first == COMMIT)
        assert len(await all_of(bench, client, OP_HALF_TOPIC)) == 1

    on_broker(talk)


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"producerGroup": "other"}, "The producer group wrong"),
        ({"tranStateTableOffset": 7}, "The transaction state table offset wrong"),
        ({"commitLogOffset": 1 << 40}, "Find prepared transaction message failed"),
        ({"commitLogOffset": -1}, "Find prepared transaction message failed"),
        ({"commitLogOffset": 3}, "Find prepared transaction message failed"),
    ],
)
def test_an_end_must_fit_its_half_message(on_broker, fields: dict[str, Any], remark: str) -> None:
    """Whoever does not know group and both offsets ends nobody's transaction; the answer is RocketMQ's."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        answer = await end(client, sent, COMMIT, **fields)
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
        assert await all_of(bench, client, "orders", 2) == []
        assert (await end(client, sent, COMMIT)).code == 0

    on_broker(talk)


def test_an_ordinary_message_cannot_be_committed(on_broker) -> None:
    """An end that names a message which is no half message makes no copy of it."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await client.send("orders", b"x", {"PGROUP": "PG", "REAL_TOPIC": "other", "REAL_QID": "0"})
        answer = await end(client, sent, COMMIT)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert await all_of(bench, client, "other") == []

    on_broker(talk)


@pytest.mark.parametrize("queue_offset", [0, 1_000_000_000])
def test_a_half_message_in_the_body_of_another_message_is_none(on_broker, queue_offset: int) -> None:
    """Who knows where the log ends can write one that says it is in its place. Committed, it would end half messages
    of others, or go where clients may not send to."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await send_half(client)
        await client.send("orders")
        (last,) = await all_of(bench, client, "orders")
        place = last.physical_offset + last.size + HEAD_BYTES
        forged = encode_record(
            topic=HALF_TOPIC,
            body=b"0,",
            properties=encode_properties(HALF | {"REAL_TOPIC": OP_HALF_TOPIC, "REAL_QID": "0", "TAGS": "d"}),
            queue_offset=queue_offset,
            physical_offset=place,
        )
        sent = await client.send("orders", bytes(forged))
        refused = await end(client, sent, COMMIT, commitLogOffset=place, tranStateTableOffset=queue_offset)
        assert (refused.code, refused.remark) == (1, "Find prepared transaction message failed")
        assert await all_of(bench, client, OP_HALF_TOPIC) == []

    on_broker(talk)


@pytest.mark.parametrize("topic", ["BenchmarkTest", "made-by-the-half"])
def test_a_half_message_that_no_reader_sees_yet_can_be_ended(on_broker, topic: str) -> None:
    """While a transaction of Spark becomes readable others wait for that, but no producer does: nor for a second end
    that says the same."""

    async def talk(bench) -> None:
        client = await bench.connect()
        with bench.broker._parts.store.publishing_together():
            sent = await send_half(client, topic)
            assert await all_of(bench, client, HALF_TOPIC) == []
            for _ in range(2):
                assert (await end(client, sent, COMMIT)).code == 0
        assert len(await all_of(bench, client, topic, 2)) == 1

    on_broker(talk)


def test_unknown_leaves_it_open(on_broker) -> None:
    """A producer that does not know yet changes nothing."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        assert (await end(client, sent, UNKNOWN)).code == 0
        assert await all_of(bench, client, OP_HALF_TOPIC) == []
        assert (await end(client, sent, COMMIT)).code == 0

    on_broker(talk)


@pytest.mark.parametrize(
    ("properties", "settings", "code"),
    [
        ({"DELAY": "3"}, {}, ResponseCode.MESSAGE_ILLEGAL),
        ({"TIMER_DELAY_SEC": "3"}, {}, ResponseCode.MESSAGE_ILLEGAL),
        ({"PGROUP": ""}, {}, ResponseCode.MESSAGE_ILLEGAL),
        ({}, {"reject_transaction_message": True}, ResponseCode.NO_PERMISSION),
        ({}, {"max_half_messages": 0}, ResponseCode.SYSTEM_BUSY),
    ],
)
def test_what_cannot_become_a_half_message_is_refused(on_broker, properties, settings, code) -> None:
    """Delays, a producer nobody could ask, a broker that takes none or has no room: told at once, stored nowhere."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.send("orders", b"half", HALF | properties, f=4)
        assert answer.code == code, answer.remark
        assert await all_of(bench, client, HALF_TOPIC) == []

    on_broker(talk, **settings)


def test_so_many_are_open_at_most(on_broker) -> None:
    """However fast they come: also while no reader sees them yet, because the disk hangs, say."""

    async def talk(bench) -> None:
        client = await bench.connect()
        with bench.broker._parts.store.publishing_together():
            sent = [await client.send("orders", b"half", HALF, f=4) for _ in range(3)]
            assert [answer.code for answer in sent] == [0, 0, ResponseCode.SYSTEM_BUSY]
            assert (await end(client, sent[0], COMMIT)).code == 0

        async def has_room() -> bool:
            return (await client.send("orders", b"half", HALF, f=4)).code == 0

        await eventually(has_room)
        assert not await has_room()

    on_broker(talk, max_half_messages=2)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_no_more_are_open_though_they_come_at_once(on_broker, flush: str) -> None:
    """Those count that were stored a moment ago, and wait for the disk."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        sent = await asyncio.gather(*(client.send("orders", b"half", HALF, f=4) for _ in range(5)))
        assert sorted(answer.code for answer in sent) == [0, 0, *[ResponseCode.SYSTEM_BUSY] * 3]

    on_broker(talk, max_half_messages=2, store={"flush_disk_type": flush})


def test_a_batch_takes_no_half_messages(on_broker) -> None:
    """A batch is stored at once, so a message of a transaction inside it would be delivered uncommitted."""

    async def talk(bench) -> None:
        client = await bench.connect()
        element = BatchElement(b"half", b"TRAN_MSG\x01true\x02PGROUP\x01PG\x02", 0)
        header = bench.send_header("orders", m=True)
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch([element]))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        header = bench.send_header("orders", HALF, m=True)
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, encode_batch([BatchElement(b"x", b"", 0)]))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL

    on_broker(talk)


@pytest.mark.parametrize("topic", [HALF_TOPIC, OP_HALF_TOPIC, CHECK_MAX_TIME_TOPIC])
def test_nobody_writes_into_the_queues_of_transactions(on_broker, topic: str) -> None:
    """A forged op record would lose a transaction, a forged half message make one up."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.send(topic, b"0,", {"TAGS": "d"})).code == ResponseCode.NO_PERMISSION

    on_broker(talk)
