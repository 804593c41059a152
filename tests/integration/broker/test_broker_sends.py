"""Messages come in: what is stored, what the sender is told, what is refused and how."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from rmqspark.broker.sending.send_tables import SendTables
from rmqspark.protocol.bodies.route import TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader, ViewMessageRequestHeader
from rmqspark.protocol.headers.produce import SendMessageRequestHeader
from rmqspark.protocol.names import MAX_BODY_BYTES
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.record import HEAD_BYTES, encode_record
from rmqspark.remoting.limits import Limits
from rmqspark.store.json_table import JsonTable
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration

UNIQUE_KEY = "C0A8010A1F9018B4AAC25E0BE0F50007"


def test_a_message_is_stored_as_it_was_sent(on_broker) -> None:
    """Body, flag, times and properties come back; region, trace switch and cluster stand behind the sender's."""

    async def talk(bench) -> None:
        client = await bench.connect()
        properties = {"KEYS": "k1 k2", "WAIT": "true", "TAGS": "TagA", "UNIQ_KEY": UNIQUE_KEY, "colour": "blau"}
        sent = await client.send("orders", b"body", properties, e=2, h=7, j=3, f=0x301)
        assert sent.code == 0
        assert sent.fields["queueId"] == "2"
        assert sent.fields["queueOffset"] == "0"
        assert sent.fields["transactionId"] == UNIQUE_KEY
        (record,) = bench.records(await client.pull("orders", queueId=2))
        assert (record.topic, record.body, record.queue_id, record.flag) == ("orders", b"body", 2, 7)
        assert (record.sys_flag, record.reconsume_times, record.born_timestamp_ms) == (0x301, 3, 1_700_000_000_000)
        added = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
        assert list(record.property_map().items()) == list((properties | added).items())
        host, physical_offset = parse_offset_msg_id(sent.fields["msgId"])
        assert host == bytes([127, 0, 0, 1]) + bench.broker.port.to_bytes(4, "big")
        viewed = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(physical_offset))
        assert bench.records(viewed) == [record]

    on_broker(talk)


def test_what_a_body_holds_is_no_message(on_broker) -> None:
    """It may look like a record whose end lies in the messages behind it: whoever may read its topic would see these,
    whatever theirs is."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders")
        (last,) = bench.records(await client.pull("orders"))
        place = last.physical_offset + last.size + HEAD_BYTES
        forged = encode_record(topic="orders", body=b"", properties=bytes(300), physical_offset=place)
        await client.send("orders", bytes(forged[:-300]))
        await client.send("secrets", b"secret" * 50)
        viewed = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(place))
        assert (viewed.code, bytes(viewed.body)) == (ResponseCode.SYSTEM_ERROR, b"")
        assert viewed.remark == f"can not find message by the offset, {place}"

    on_broker(talk)


def test_all_three_ways_to_send_one_message_end_alike(on_broker) -> None:
    """310, 10 with its long names, and either with a header in binary."""

    async def talk(bench) -> None:
        client = await bench.connect()
        short = bench.send_header("orders", {"UNIQ_KEY": UNIQUE_KEY})
        long = short.as_v1()
        assert isinstance(long, SendMessageRequestHeader)
        answers = [
            await client.ask(RequestCode.SEND_MESSAGE_V2, short, b"x"),
            await client.ask(RequestCode.SEND_MESSAGE, long, b"x"),
        ]
        for offset, answer in enumerate(answers):
            assert answer.code == 0
            assert answer.fields["queueOffset"] == str(offset)
            assert answer.fields.keys() == answers[0].fields.keys()
        assert len(bench.records(await client.pull("orders"))) == 2

    on_broker(talk)


@pytest.mark.parametrize(
    ("fields", "body", "properties", "code"),
    [
        ({"b": "../x"}, b"x", {}, ResponseCode.INVALID_PARAMETER),
        ({"b": ""}, b"x", {}, ResponseCode.INVALID_PARAMETER),
        ({"b": "a" * 128}, b"x", {}, ResponseCode.INVALID_PARAMETER),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, b"x", {}, ResponseCode.NO_PERMISSION),
        ({"b": "SELF_TEST_TOPIC"}, b"x", {}, ResponseCode.NO_PERMISSION),
        ({"b": "rmq_sys_anything"}, b"x", {}, ResponseCode.NO_PERMISSION),
        ({"b": "unknown", "c": "BenchmarkTest"}, b"x", {}, ResponseCode.TOPIC_NOT_EXIST),
        ({"b": "%RETRY%"}, b"x", {}, ResponseCode.INVALID_PARAMETER),
        ({"e": 4}, b"x", {}, ResponseCode.INVALID_PARAMETER),
        ({}, b"", {}, ResponseCode.MESSAGE_ILLEGAL),
        ({}, bytes(MAX_BODY_BYTES + 1), {}, ResponseCode.MESSAGE_ILLEGAL),
        ({"i": "a\x01" + "x" * 32_760 + "\x02"}, b"x", None, ResponseCode.MESSAGE_ILLEGAL),
        ({}, b"x", {"DELAY": "soon"}, ResponseCode.MESSAGE_ILLEGAL),
        ({}, b"x", {"TIMER_DELIVER_MS": "soon"}, ResponseCode.MESSAGE_ILLEGAL),
        ({}, b"x", {"TIMER_DELAY_SEC": "259201"}, ResponseCode.MESSAGE_ILLEGAL),
        ({}, b"x", {"TRAN_MSG": "true"}, ResponseCode.MESSAGE_ILLEGAL),
        ({"f": 4}, b"x", {}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        ({"f": 0x40}, b"x", {}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
    ],
)
def test_what_cannot_be_stored_is_refused_and_stored_nowhere(on_broker, fields, body, properties, code) -> None:
    """With RocketMQ's code where it has one, and region and trace switch on every answer, as its clients expect."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        header = bench.send_header("orders", properties, **fields)
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        assert answer.code == code, answer.remark
        assert answer.remark
        assert answer.fields["MSG_REGION"] == "DefaultRegion"
        assert answer.fields["TRACE_ON"] == "true"
        runtime = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        assert b'"commitLogMaxOffset":"0"' in bytes(runtime.body)

    on_broker(talk)


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "0"},
        {"TRAN_MSG": "false"},
        {"TIMER_DELIVER_MS": "9", "TIMER_OUT_MS": "8"},
        {"MSG_REGION": "elsewhere"},
    ],
)
def test_what_only_looks_special_is_an_ordinary_message(on_broker, properties) -> None:
    """Level 0 is no delay, a timer that ran out is none either, and the broker's own names are the broker's."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.send("orders", b"x", properties)).code == 0
        (record,) = bench.records(await client.pull("orders"))
        assert record.property_map() == properties | {
            "UNIQ_KEY": record.property_map()["UNIQ_KEY"],
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }

    on_broker(talk)


def test_a_body_of_exactly_the_limit_is_stored(on_broker) -> None:
    """4 MiB, the largest that RocketMQ's clients send."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.send("orders", bytes(MAX_BODY_BYTES))).code == 0
        (record,) = bench.records(await client.pull("orders"))
        assert len(record.body) == MAX_BODY_BYTES

    on_broker(talk)


def test_a_first_send_makes_its_topic(on_broker) -> None:
    """With as many queues as the sender asks for, and the sends right behind the first keep their order."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answers = await asyncio.gather(*(client.send("orders", b"%d" % number, d=3) for number in range(20)))
        assert [answer.code for answer in answers] == [0] * 20
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"%d" % n for n in range(20)]
        config = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("orders"))
        assert b'"readQueueNums":3' in bytes(config.body)

    on_broker(talk)


def test_a_first_send_that_is_stored_is_not_refused_for_want_of_room(on_broker) -> None:
    """While so many requests wait as may be kept: its sender would send it again, and have it twice."""

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await client.send("orders", b"once")
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"once"]
        assert sent.code == 0

    on_broker(talk, limits=Limits(max_waiting_bytes=1))


def test_topics_are_not_made_where_that_is_off(on_broker) -> None:
    """The sender hears that the topic does not exist, and which command makes it."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.send("orders")
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
        assert "rmq topic create orders" in answer.remark
        assert (await client.create_topic("orders")).code == 0
        assert (await client.send("orders")).code == 0

    on_broker(talk, auto_create_topic_enable=False)


@pytest.mark.parametrize("template", ["TBW102", "DefaultCluster", "broker-a", "own"])
def test_no_template_gets_around_that(on_broker, template: str) -> None:
    """Not the one that a run has left in which it was on, nor those that are always there: strangers fill no table of
    topics (S13)."""
    files = MemoryFileSystem()

    async def before(bench) -> None:
        client = await bench.connect()
        assert (await client.create_topic("own", perm=7)).code == 0
        assert (await client.send("made", c=template)).code == 0

    async def then(bench) -> None:
        client = await bench.connect()
        assert (await client.send("new", c=template)).code == ResponseCode.TOPIC_NOT_EXIST

    on_broker(before, files=files)
    on_broker(then, files=files, auto_create_topic_enable=False)


def test_the_broker_picks_a_queue_and_an_id_where_the_sender_did_not(on_broker) -> None:
    """Queue -1 is any queue; a message without UNIQ_KEY gets one, which the sender is told."""

    async def talk(bench) -> None:
        client = await bench.connect()
        answers = [await client.send("orders", e=-1) for _ in range(40)]
        assert {answer.fields["queueId"] for answer in answers} == {"0", "1", "2", "3"}
        assert len({answer.fields["transactionId"] for answer in answers}) == 40

    on_broker(talk)


def test_a_oneway_send_is_stored_and_not_answered(on_broker) -> None:
    """Order with what is sent behind it is kept."""

    async def talk(bench) -> None:
        client = await bench.connect()
        client.connection.send_oneway(RequestCode.SEND_MESSAGE_V2, bench.send_header("orders"), b"oneway")
        await client.send("orders", b"behind")
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"oneway", b"behind"]

    on_broker(talk)


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_a_batch_becomes_ordinary_messages_side_by_side(on_broker, code) -> None:
    """Consecutive offsets, ids joined by commas, and each message with the properties it came with, no others."""

    async def talk(bench) -> None:
        client = await bench.connect()
        body = encode_batch(
            [
                BatchElement(b"A", b"TAGS\x01T\x02UNIQ_KEY\x01ID\x02", 5),
                BatchElement(b"BB"),
                BatchElement(b"CCC", b"KEYS\x01k"),
            ]
        )
        header = bench.send_header("orders", {"UNIQ_KEY": UNIQUE_KEY, "WAIT": "true"}, m=True)
        await client.send("orders", b"before")
        sent = await client.ask(code, header, body)
        assert sent.code == 0
        assert sent.fields["queueOffset"] == "1"
        assert len(sent.fields["msgId"].split(",")) == 3
        assert sent.fields["transactionId"] == UNIQUE_KEY
        records = bench.records(await client.pull("orders", 1))
        assert [(record.body, record.flag, record.queue_offset) for record in records] == [
            (b"A", 5, 1),
            (b"BB", 0, 2),
            (b"CCC", 0, 3),
        ]
        assert [record.property_map() for record in records] == [{"TAGS": "T", "UNIQ_KEY": "ID"}, {}, {"KEYS": "k"}]

    on_broker(talk)


@pytest.mark.parametrize(
    ("topic", "body", "code"),
    [
        ("orders", encode_batch([BatchElement(b"A"), BatchElement(b"B", b"DELAY\x013\x02")]), 3),
        ("orders", encode_batch([BatchElement(b"A")])[:-1], 1),
        ("orders", b"\x00\x00\x00\x05", 1),
        ("%RETRY%g", encode_batch([BatchElement(b"A")]), 13),
        ("orders", b"", 13),
    ],
)
def test_a_batch_is_stored_as_a_whole_or_not_at_all(on_broker, topic, body, code) -> None:
    """One message that cannot be stored, or sizes that do not add up, and none is."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.pull("orders")  # makes group g
        await client.send("%RETRY%g")
        answer = await client.ask(RequestCode.SEND_BATCH_MESSAGE, bench.send_header(topic, m=True), body)
        assert answer.code == code, answer.remark
        held = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader("orders", 0))
        assert held.fields["offset"] == "0"

    on_broker(talk)


def test_each_of_hundreds_at_once_is_told_where_its_message_is(on_broker, monkeypatch) -> None:
    """Sends of many connections, many of them handled together: every answer is the sender's own and true."""
    taken = 0
    take_together = SendTables.take_together

    def counting(self, requests) -> bool:
        nonlocal taken
        done = take_together(self, requests)
        taken += done * sum(len(alike.sizes) for alike in requests)
        return done

    monkeypatch.setattr(SendTables, "take_together", counting)

    async def talk(bench) -> None:
        clients = [await bench.connect() for _ in range(8)]
        told = {}

        async def send(client: int, number: int) -> None:
            unique_key = f"{client:02X}{number:06X}"
            body = b"%s of %d" % (unique_key.encode(), client)
            answer = await clients[client].send("orders", body, {"UNIQ_KEY": unique_key, "TAGS": "T"}, e=number % 4)
            assert answer.fields["transactionId"] == unique_key
            place = int(answer.fields["queueId"]), int(answer.fields["queueOffset"])
            told[place] = body, parse_offset_msg_id(answer.fields["msgId"])[1]

        for round_number in range(40):
            numbers = range(round_number * 20, round_number * 20 + 20)
            await asyncio.gather(*(send(client, number) for client in range(len(clients)) for number in numbers))
        stored = {}
        for queue_id, offset in itertools.product(range(4), range(0, 1600, 32)):
            found = bench.records(await clients[0].pull("orders", offset, queueId=queue_id))
            stored |= {(queue_id, record.queue_offset): (record.body, record.physical_offset) for record in found}
        assert stored == told
        assert len(told) == 8 * 40 * 20
        assert taken > len(told) // 10  # most, on a quick machine: one that stalls takes what has come so far

    on_broker(talk)


def test_a_store_of_rocketmqs_may_have_topics_of_its_system_that_are_sent_to(on_broker) -> None:
    """As rmq_sys_TRACE_DATA_ and a region: one by one and in batches. No send makes one."""
    files = MemoryFileSystem()
    store = files.within("store")
    store.make_root()
    topic = TopicConfig("rmq_sys_TRACE_DATA_eu", readQueueNums=1, writeQueueNums=1, perm=6)
    table = TopicConfigTable(topicConfigTable={topic.topicName: topic})
    JsonTable(store, "config/topics.json").save(table.encode().decode())

    async def talk(bench) -> None:
        client = await bench.connect()
        batch = encode_batch([BatchElement(b"A")])
        for name, code in (
            (topic.topicName, ResponseCode.SUCCESS),
            ("rmq_sys_TRACE_DATA_us", ResponseCode.NO_PERMISSION),
        ):
            header = bench.send_header(name, e=0)
            assert (await client.ask(RequestCode.SEND_MESSAGE_V2, header, b"x")).code == code
            header = bench.send_header(name, e=0, m=True)
            assert (await client.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch)).code == code

    on_broker(talk, files=files)
