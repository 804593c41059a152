"""Half messages that nobody ends: questions, what is set aside, restarts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import StoreError
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import ResumeCheckHalfMessageRequestHeader
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.message_id import offset_msg_id, parse_offset_msg_id
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import BODY_LENGTH_AT, HEAD_BYTES, decode_record
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.half_messages.half_message import HalfMessage, committed_draft

from .transaction_talk import (
    COMMIT,
    ROLLBACK,
    UNIQUE_KEY,
    Asked,
    all_of,
    end,
    end_header,
    eventually,
    send_half,
    settled,
    some,
)

if TYPE_CHECKING:
    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration
# However far a test moves the clock, the producer has not been silent for too long.
ONLINE = {"client_expired_time": 86_400_000}


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

    on_broker(talk, clock=clock, transaction_check_max=3, **ONLINE)


@pytest.mark.parametrize(
    "odd", ["a\x01b\x01c\x02", "a\x01" + "x" * 32_540 + "\x02"], ids=["0x01 in a value", "no room"]
)
def test_whatever_a_half_message_holds_it_is_asked_about_and_ends(on_broker, odd: str) -> None:
    """Properties that nobody may write anew, or that leave no room for the count of questions: what was acknowledged
    is asked about, committed, and set aside, like any other."""
    clock = ManualClock()

    async def talk(bench) -> None:
        asked = await Asked.on(bench)
        client = asked.client
        i = encode_properties({"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": UNIQUE_KEY}).decode() + odd
        sent = [await client.send("orders", b"%d" % number, i=i) for number in range(2)]
        assert [answer.code for answer in sent] == [0, 0]
        await settled(client, half=0, operations=0)
        clock.advance(seconds=6)
        await asked.times(2)
        assert (await end(client, sent[0], COMMIT)).code == 0
        (message,) = await all_of(bench, client, "orders")
        assert odd.encode() in message.properties
        clock.advance(seconds=60)
        await eventually(lambda: some(bench, client, CHECK_MAX_TIME_TOPIC))
        (aside,) = await all_of(bench, client, CHECK_MAX_TIME_TOPIC)
        assert (aside.body, odd.encode() in aside.properties) == (b"1", True)
        await settled(client, half=2, operations=None)

    on_broker(talk, clock=clock, transaction_check_max=1, **ONLINE)


def test_without_an_index_nothing_is_resumed(on_broker) -> None:
    """Nobody could say whether the message was committed or resumed since, and it would be delivered twice."""
    clock = ManualClock()

    async def talk(bench) -> None:
        client = await bench.connect()
        sent = await send_half(client)
        await settled(client, half=0, operations=0)
        clock.advance(seconds=6)
        await eventually(lambda: some(bench, client, CHECK_MAX_TIME_TOPIC))
        (aside,) = await all_of(bench, client, CHECK_MAX_TIME_TOPIC)
        host = parse_offset_msg_id(sent.fields["msgId"])[0]
        resume = ResumeCheckHalfMessageRequestHeader(CHECK_MAX_TIME_TOPIC, offset_msg_id(host, aside.physical_offset))
        refused = await client.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, resume)
        assert (refused.code, "index" in refused.remark) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, True)
        assert len(await all_of(bench, client, HALF_TOPIC)) == 1

    on_broker(talk, clock=clock, transaction_check_max=0, store={"message_index_enable": False})


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

    on_broker(talk, clock=clock, transaction_check_max=2, **ONLINE)


def test_rocketmq_9500_and_1568_one_bad_half_message_holds_up_nobody(on_broker) -> None:
    """A half message that cannot be read any more, its record being broken, fails alone: the others are asked for, the
    offsets move on, and it is marked when its questions are used up. In RocketMQ an exception ends the whole round,
    every round."""
    clock, files = ManualClock(), MemoryFileSystem()

    async def talk(bench) -> None:
        asked = await Asked.on(bench)
        bad = await send_half(asked.client, body=b"bad")
        clock.advance(seconds=6)
        await asked.times(1)
        log = files.open(f"store/commitlog/{0:020d}")
        log.pwrite(b"B", parse_offset_msg_id(bad.fields["msgId"])[1] + HEAD_BYTES)
        log.close()
        good = await send_half(asked.client, body=b"good")
        clock.advance(seconds=60)
        await asked.times(2)
        assert asked.questions[1][1].body == b"good"
        assert (await end(asked.client, good, COMMIT)).code == 0
        await settled(asked.client, half=2, operations=2)
        assert await all_of(bench, asked.client, CHECK_MAX_TIME_TOPIC) == []

    on_broker(talk, clock=clock, files=files, transaction_check_max=1)


@pytest.mark.parametrize(
    ("topic", "asked_about"), [(HALF_TOPIC, {"good", "later"}), (OP_HALF_TOPIC, {"bad", "good", "later"})]
)
def test_a_broker_starts_over_a_record_with_a_flipped_bit(on_broker, topic: str, asked_about: set[str]) -> None:
    """In the length of the body of a half message, or of an op record: that one is passed over, and the others are
    asked about, those that come later, too."""
    clock, files = ManualClock(), MemoryFileSystem()

    async def before(bench) -> int:
        client = await bench.connect()
        await send_half(client, body=b"bad")
        await send_half(client, body=b"good")
        ended = await send_half(client, body=b"ended")
        assert (await end(client, ended, COMMIT)).code == 0
        return (await all_of(bench, client, topic))[0].physical_offset

    async def after(bench) -> None:
        asked = await Asked.on(bench)
        await send_half(asked.client, body=b"later")
        await settled(asked.client, half=int(topic == HALF_TOPIC), operations=None)
        clock.advance(seconds=6)
        await asked.times(len(asked_about))
        assert {message.body.decode() for _, message in asked.questions} == asked_about

    damaged = on_broker(before, files=files, clock=clock)
    log = files.open(f"store/commitlog/{0:020d}")
    log.pwrite(b"\x40", damaged + BODY_LENGTH_AT + 2)
    log.close()
    on_broker(after, files=files, clock=clock)


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


def test_a_sender_does_not_say_how_often_he_was_asked(on_broker) -> None:
    """He sends on what he was asked about once, with its id and count: two transactions, and after a restart no copy of
    one. Questions are counted from the first on."""
    clock, files = ManualClock(), MemoryFileSystem()

    async def before(bench) -> Response:
        client = await bench.connect()
        first = await send_half(client, body=b"first")
        second = await send_half(client, body=b"second", TRANSACTION_CHECK_TIMES="15")
        assert (await end(client, first, COMMIT)).code == 0
        return second

    async def after(bench) -> None:
        asked = await Asked.on(bench)
        clock.advance(seconds=6)
        await asked.times(1)
        assert asked.questions[0][1].property_map()["TRANSACTION_CHECK_TIMES"] == "1"
        assert (await end(asked.client, second, COMMIT)).code == 0
        assert [record.body for record in await all_of(bench, asked.client, "orders", 2)] == [b"first", b"second"]

    second = on_broker(before, files=files, clock=clock)
    on_broker(after, files=files, clock=clock)


def test_a_power_loss_between_message_and_mark_delivers_nothing_twice(on_broker) -> None:
    """The message is in the log, the op record behind it is not: the broker marks the half when it starts, asks nobody,
    and takes no second commit."""
    files = MemoryFileSystem()

    async def before(bench) -> Response:
        return await send_half(await bench.connect())

    async def after(bench) -> None:
        asked = await Asked.on(bench)
        (operation,) = await all_of(bench, asked.client, OP_HALF_TOPIC)
        assert operation.body == b"0,"
        answer = await end(asked.client, sent, COMMIT)
        assert answer.code == ResponseCode.TRANSACTION_FAILED
        await settled(asked.client, half=1, operations=1)
        assert len(await all_of(bench, asked.client, "orders", 2)) == 1
        assert asked.questions == []

    sent = on_broker(before, files=files)
    config = StoreConfig(mapped_file_size_commit_log=16 << 20, max_hash_slot_num=1000, max_index_num=4000)
    store = MessageStore.open("store", config, files=files, clock=SystemClock(), entropy=SystemEntropy())
    record = decode_record(store.records.at(parse_offset_msg_id(sent.fields["msgId"])[1]))
    store.append([committed_draft(HalfMessage.of(record), record, 2)])
    store.close()
    on_broker(after, files=files)


def test_ends_outlast_a_power_loss(on_broker) -> None:
    """With SYNC_FLUSH an end that was answered is known after the power is lost; it is not asked for again."""
    files = MemoryFileSystem()
    sent: list[Response] = []

    async def before(bench) -> None:
        client = await bench.connect()
        sent.extend([await send_half(client, body=b"%d" % number) for number in range(4)])
        assert (await end(client, sent[1], COMMIT)).code == 0
        assert (await end(client, sent[2], ROLLBACK)).code == 0
        files.crash()

    async def after(bench) -> None:
        client = await bench.connect()
        assert [record.body for record in await all_of(bench, client, "orders", 2)] == [b"1"]
        codes = [(await end(client, half, COMMIT)).code for half in sent]
        assert codes == [0, ResponseCode.TRANSACTION_FAILED, ResponseCode.TRANSACTION_FAILED, 0]
        assert [record.body for record in await all_of(bench, client, "orders", 2)] == [b"1", b"0", b"3"]

    store = {"flush_disk_type": "SYNC_FLUSH"}
    with suppress(StoreError):  # its files are gone: it ends as it can
        on_broker(before, files=files, store=store)
    on_broker(after, files=files, store=store)
