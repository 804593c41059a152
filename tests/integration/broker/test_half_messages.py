"""Transactions of stock producers: half messages, their ends, and the question that brings them about."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.protocol.batch import BatchElement, encode_batch
from rmqspark.protocol.bodies import HeartbeatData, ProducerData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers import (
    EndTransactionRequestHeader,
    QueryConsumerOffsetRequestHeader,
)
from rmqspark.protocol.headers_admin import ResumeCheckHalfMessageRequestHeader
from rmqspark.protocol.message_id import offset_msg_id, parse_offset_msg_id
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.record import decode_record
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from rmqspark.protocol.record import Record
    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration

UNIQUE_KEY = "C0A8010A1F9018B4AAC25E0BE0F50007"
HALF = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": UNIQUE_KEY, "TAGS": "TagA", "KEYS": "k1", "WAIT": "true"}
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
DECISIONS = {COMMIT: "committed", ROLLBACK: "rolled back"}


async def send_half(client: Any, topic: str = "orders", body: bytes = b"half", **properties: str) -> Response:
    answer = await client.send(topic, body, HALF | properties, e=2, f=4, h=7)
    assert answer.code == 0, answer.remark
    return answer


def end_header(sent: Response, decision: int, **fields: Any) -> EndTransactionRequestHeader:
    return EndTransactionRequestHeader(
        **{
            "producerGroup": "PG",
            "tranStateTableOffset": int(sent.fields["queueOffset"]),
            "commitLogOffset": parse_offset_msg_id(sent.fields["msgId"])[1],
            "commitOrRollback": decision,
            "msgId": UNIQUE_KEY,
        }
        | fields
    )


async def end(client: Any, sent: Response, decision: int, **fields: Any) -> Response:
    return await client.ask(RequestCode.END_TRANSACTION, end_header(sent, decision, **fields))


async def all_of(bench: Any, client: Any, topic: str, queue_id: int = 0) -> list[Record]:
    """What is in a queue; none where it does not exist."""
    answer = await client.pull(topic, queueId=queue_id)
    return bench.records(answer) if answer.code == 0 else []


async def eventually(holds: Any) -> None:
    """Returns once `holds`, a coroutine function, says so."""
    async with asyncio.timeout(10):
        is_so = False
        while not is_so:
            await asyncio.sleep(0.01)
            is_so = await holds()


async def committed_offsets(client: Any) -> list[int]:
    """How far CID_RMQ_SYS_TRANS is with half and op queue."""
    offsets = []
    for topic in (HALF_TOPIC, OP_HALF_TOPIC):
        header = QueryConsumerOffsetRequestHeader("CID_RMQ_SYS_TRANS", topic, 0)
        answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
        offsets.append(int(answer.fields["offset"]) if answer.code == 0 else -1)
    return offsets


async def settled(client: Any, *, half: int, operations: int | None) -> None:
    """Waits until the offsets of both queues are as they should be."""

    async def are_there() -> bool:
        offsets = await committed_offsets(client)
        return offsets[0] == half and operations in (None, offsets[1])

    await eventually(are_there)


async def some(bench: Any, client: Any, topic: str) -> bool:
    return bool(await all_of(bench, client, topic))


class Asked:
    """A producer of group PG that is online and notes what it is asked."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.questions: list[tuple[dict[str, str], Record]] = []
        self._take = client.connection._take
        client.connection._take = self._note  # the client end only answers requests otherwise

    @classmethod
    async def on(cls, bench: Any) -> Asked:
        asked = cls(await bench.connect())
        await asked.client.heartbeat(HeartbeatData(clientID="c", producerDataSet=[ProducerData("PG")]))
        return asked

    def _note(self, command: Any, body: memoryview) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and not command.is_response:
            self.questions.append((dict(command.fields), decode_record(bytes(body))))
        self._take(command, body)

    async def times(self, count: int) -> None:
        """Waits for that many questions."""

        async def enough() -> bool:
            return len(self.questions) >= count

        await eventually(enough)
        assert len(self.questions) == count


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


def test_the_producer_is_asked_and_its_answer_counts(on_broker) -> None:
    """After six seconds a producer of the group gets the message under its own topic, with all that an end needs."""
    clock = ManualClock()

    async def talk(bench) -> None:
        asked = await Asked.on(bench)
        client = asked.client
        sent = await send_half(client)
        await settled(client, half=0, operations=0)
        clock.advance(seconds=6)
        await asked.times(1)
        ((fields, message),) = asked.questions
        assert fields["tranStateTableOffset"] == "0"
        assert fields["offsetMsgId"] == sent.fields["msgId"]
        assert (fields["msgId"], fields["transactionId"]) == (UNIQUE_KEY, UNIQUE_KEY)
        assert (message.topic, message.queue_id, message.body) == ("orders", 2, b"half")
        assert message.property_map()["TRANSACTION_CHECK_TIMES"] == "1"
        answer = await end(client, sent, COMMIT, fromTransactionCheck=True)
        assert answer.code == 0
        assert len(await all_of(bench, client, "orders", 2)) == 1
        clock.advance(seconds=120)
        await settled(client, half=1, operations=1)
        assert len(asked.questions) == 1

    on_broker(talk, clock=clock)


def test_rocketmq_8158_commits_after_the_question(on_broker) -> None:
    """Producer and check-back both commit: one message. In RocketMQ the question makes a second half of it, which can
    be committed, too; and what the producer says late stops the questions."""
    clock = ManualClock()

    async def talk(bench) -> None:
        asked = await Asked.on(bench)
        client = asked.client
        sent = await send_half(client)
        clock.advance(seconds=6)
        await asked.times(1)
        assert (await end(client, sent, COMMIT)).code == 0  # late, with the offsets of the send
        question, _ = asked.questions[0]
        again = end_header(
            sent, COMMIT, fromTransactionCheck=True, commitLogOffset=int(question["commitLogOffset"]),
            tranStateTableOffset=int(question["tranStateTableOffset"]),
        )  # fmt: skip
        assert (await client.ask(RequestCode.END_TRANSACTION, again)).code == 0
        assert len(await all_of(bench, client, "orders", 2)) == 1
        rolled_back = await end(client, sent, ROLLBACK, fromTransactionCheck=True)
        assert rolled_back.code == ResponseCode.TRANSACTION_FAILED
        for _ in range(20):
            clock.advance(seconds=60)
            await asyncio.sleep(0)
        await settled(client, half=1, operations=1)
        assert len(asked.questions) == 1
        assert await all_of(bench, client, CHECK_MAX_TIME_TOPIC) == []

    on_broker(talk, clock=clock)


def test_what_nobody_knows_is_set_aside_and_can_be_resumed(on_broker) -> None:
    """After the questions allowed the message waits for an operator; resumed, it is asked for again, and delivered
    once, however often it is resumed."""
    clock = ManualClock()

    async def talk(bench) -> None:
        asked = await Asked.on(bench)
        client = asked.client
        sent = await send_half(client)
        clock.advance(seconds=6)
        for times in (1, 2, 3):
            await asked.times(times)
            clock.advance(seconds=60)
        await eventually(lambda: some(bench, client, CHECK_MAX_TIME_TOPIC))
        (aside,) = await all_of(bench, client, CHECK_MAX_TIME_TOPIC)
        assert aside.body == b"half"
        assert aside.property_map()["REAL_TOPIC"] == "orders"
        late = await end(client, sent, COMMIT)
        assert (late.code, "set aside" in late.remark) == (ResponseCode.TRANSACTION_FAILED, True)

        host = parse_offset_msg_id(sent.fields["msgId"])[0]
        resume = ResumeCheckHalfMessageRequestHeader(CHECK_MAX_TIME_TOPIC, offset_msg_id(host, aside.physical_offset))
        assert (await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume)).code == 0
        twice = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume)
        assert twice.code == ResponseCode.TRANSACTION_FAILED
        await settled(client, half=1, operations=None)
        clock.advance(seconds=6)
        await asked.times(4)
        question, _ = asked.questions[-1]
        header = end_header(sent, COMMIT, commitLogOffset=int(question["commitLogOffset"]), tranStateTableOffset=1)
        assert (await client.ask(RequestCode.END_TRANSACTION, header)).code == 0
        assert len(await all_of(bench, client, "orders", 2)) == 1
        again = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume)
        assert (again.code, "committed" in again.remark) == (ResponseCode.TRANSACTION_FAILED, True)

    on_broker(talk, clock=clock, transaction_check_max=3)


def test_rocketmq_544_and_8311_a_time_of_its_own_before_the_first_question(on_broker) -> None:
    """CHECK_IMMUNITY_TIME_IN_SECONDS puts the first question off, and no question is counted that was not put: RocketMQ
    could miss the message, or set it aside unasked."""
    clock = ManualClock()

    async def talk(bench) -> None:
        asked = await Asked.on(bench)
        await send_half(asked.client, CHECK_IMMUNITY_TIME_IN_SECONDS="600")
        await settled(asked.client, half=0, operations=0)
        other = await send_half(asked.client, body=b"other")
        clock.advance(seconds=599)
        await asked.times(1)
        assert asked.questions.pop()[1].body == b"other"
        assert (await end(asked.client, other, ROLLBACK)).code == 0
        clock.advance(seconds=1)
        await asked.times(1)
        assert asked.questions[0][1].property_map()["TRANSACTION_CHECK_TIMES"] == "1"

    on_broker(talk, clock=clock, transaction_check_max=2)


def test_a_kill_forgets_no_transaction(on_broker) -> None:
    """What was open is open after a restart, what ended has ended, and the offsets tell an Apache broker the same."""
    files = MemoryFileSystem()
    clock = ManualClock()

    async def before(bench) -> Response:
        client = await bench.connect()
        ended, opened, later = [await send_half(client, body=b"%d" % number) for number in range(3)]
        assert (await end(client, ended, COMMIT)).code == 0
        assert (await end(client, later, COMMIT)).code == 0
        await settled(client, half=1, operations=1)
        return opened

    async def after(bench, opened: Response) -> None:
        asked = await Asked.on(bench)
        clock.advance(seconds=6)
        await asked.times(1)
        assert asked.questions[0][1].body == b"1"
        assert (await end(asked.client, opened, COMMIT)).code == 0
        assert [record.body for record in await all_of(bench, asked.client, "orders", 2)] == [b"0", b"2", b"1"]
        await settled(asked.client, half=3, operations=3)

    opened = on_broker(before, files=files, clock=clock)
    on_broker(lambda bench: after(bench, opened), files=files, clock=clock)
