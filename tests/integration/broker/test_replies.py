"""Replies to requests of producers: they go to who asked, over its own connection, and then into the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmqspark.broker.handlers.replies import MOST_WAITING_BYTES, MOST_WAITING_BYTES_OF_ONE
from rmqspark.protocol.bodies.client import HeartbeatData, ProducerData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import decode_properties

from .transaction_talk import all_of

pytestmark = pytest.mark.integration

TOPIC = "DefaultCluster_REPLY_TOPIC"
REPLY = {"MSG_TYPE": "reply", "CORRELATION_ID": "c-1", "REPLY_TO_CLIENT": "asker", "TTL": "3000", "UNIQ_KEY": "U1"}


class Asker:
    """A producer that is online, and what is pushed to it, which it answers with `code`, or not at all."""

    def __init__(self, client: Any, code: int | None) -> None:
        self.client = client
        self.pushed: list[tuple[dict[str, str], bytes]] = []
        self._code = code
        self._take = client.connection._take
        client.connection._take = self._note  # the client end only refuses requests otherwise

    @classmethod
    async def on(cls, bench: Any, client_id: str = "asker", *groups: str, code: int | None = 0) -> Asker:
        asker = cls(await bench.connect(), code)
        producers = [ProducerData(group) for group in groups or ("PG",)]
        await asker.client.heartbeat(HeartbeatData(clientID=client_id, producerDataSet=producers))
        return asker

    def _note(self, command: Any, body: memoryview) -> None:
        if command.code != RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT or command.is_response:
            self._take(command, body)
            return
        self.pushed.append((dict(command.fields), bytes(body)))
        if self._code is not None:
            self.client.connection._write(encode_response(command.opaque, self._code))


async def reply(
    bench: Any,
    client: Any,
    code: int = RequestCode.SEND_REPLY_MESSAGE_V2,
    body: bytes = b"pong",
    **properties: str,
) -> Any:
    header = bench.send_header(TOPIC, REPLY | properties, e=-1)
    is_v1 = code == RequestCode.SEND_REPLY_MESSAGE
    return await client.ask(code, header.as_v1() if is_v1 else header, body)


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE_V2, RequestCode.SEND_REPLY_MESSAGE])
def test_a_reply_goes_to_who_asked_and_into_the_log(on_broker, code: int) -> None:
    """With all that its sender said of it; his receipt names its place in the log."""

    async def talk(bench) -> None:
        asker, other = await Asker.on(bench), await Asker.on(bench, "other")
        replier = await bench.connect()
        answer = await reply(bench, replier, code)
        assert (answer.code, answer.fields["queueId"], answer.fields["queueOffset"]) == (0, "0", "0")
        assert answer.fields["transactionId"] == "U1"
        ((fields, body),) = asker.pushed
        assert other.pushed == []
        assert body == b"pong"
        properties = decode_properties(fields.pop("properties").encode())
        assert properties == REPLY | {"PUSH_REPLY_TIME": fields["storeTimestamp"]}
        assert fields.pop("bornHost") == "{}:{}".format(*replier.connection._transport.get_extra_info("sockname")[:2])
        assert fields.pop("storeHost") == bench.broker.address
        del fields["storeTimestamp"]
        assert fields == {
            "producerGroup": "PG",
            "topic": TOPIC,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "queueId": "-1",
            "sysFlag": "0",
            "bornTimestamp": "1700000000000",
            "flag": "0",
            "reconsumeTimes": "0",
            "unitMode": "false",
        }
        (stored,) = await all_of(bench, replier, TOPIC)
        assert (stored.body, decode_properties(stored.properties)["CORRELATION_ID"]) == (b"pong", "c-1")
        assert stored.physical_offset == parse_offset_msg_id(answer.fields["msgId"])[1]

    on_broker(talk)


def test_where_replies_are_not_kept_the_receipt_has_no_place(on_broker) -> None:
    """`storeReplyMessageEnable=false`: RocketMQ's clients read the id 0."""

    async def talk(bench) -> None:
        asker = await Asker.on(bench)
        client = await bench.connect()
        answer = await reply(bench, client)
        assert (answer.code, answer.fields["msgId"], answer.fields["queueOffset"]) == (0, "0", "0")
        assert len(asker.pushed) == 1
        assert await all_of(bench, client, TOPIC) == []

    on_broker(talk, store_reply_message_enable=False)


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({"REPLY_TO_CLIENT": "gone"}, "channel of <gone> not found"),
        ({"REPLY_TO_CLIENT": "refuses"}, "push reply message to refuses fail."),
        ({"REPLY_TO_CLIENT": ""}, "[REPLY_TO_CLIENT] is null"),
    ],
    ids=["nobody", "refused", "unsaid"],
)
def test_what_reaches_nobody_is_an_error_and_kept(on_broker, properties: dict[str, str], remark: str) -> None:
    """As in RocketMQ: who replies learns of it, and the reply is in the log."""

    async def talk(bench) -> None:
        await Asker.on(bench, "refuses", code=ResponseCode.SYSTEM_ERROR)
        client = await bench.connect()
        answer = await reply(bench, client, **properties)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert remark in answer.remark
        assert [record.body for record in await all_of(bench, client, TOPIC)] == [b"pong"]

    on_broker(talk)


@pytest.mark.parametrize("asks", [{"DELAY": "3"}, {"TRAN_MSG": "true", "PGROUP": "PG"}, {"TIMER_DELAY_SEC": "3"}])
def test_a_reply_that_is_to_wait_is_refused(on_broker, asks: dict[str, str]) -> None:
    """The one who asked waits for it now; nothing of it is stored or pushed."""

    async def talk(bench) -> None:
        asker = await Asker.on(bench)
        client = await bench.connect()
        answer = await reply(bench, client, **asks)
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "A reply goes at once." in answer.remark
        assert asker.pushed == []

    on_broker(talk)


def test_the_connection_that_was_heard_last_gets_the_replies(on_broker) -> None:
    """One that was lost is perhaps still known; once it is gone, the other gets them."""

    async def talk(bench) -> None:
        first, second = await Asker.on(bench), await Asker.on(bench)
        client = await bench.connect()
        await reply(bench, client)
        assert (len(first.pushed), len(second.pushed)) == (0, 1)
        await second.client.connection.close()
        while (await reply(bench, client)).code:
            await client.settle()
        assert (len(first.pushed), len(second.pushed)) == (1, 1)

    on_broker(talk)


def test_an_asker_that_does_not_answer_holds_little_memory(on_broker) -> None:
    """What is too much for one, or for all together, is refused as busy at once and not kept; it is room for others
    again when those who wait are gone."""

    async def talk(bench) -> None:
        client, size = await bench.connect(), 3 << 20
        most = MOST_WAITING_BYTES_OF_ONE // size
        silent = [await Asker.on(bench, f"silent-{number}", code=None) for number in range(5)]

        def send(number: int) -> asyncio.Task[Any]:
            return asyncio.create_task(reply(bench, client, body=bytes(size), REPLY_TO_CLIENT=f"silent-{number}"))

        async def waiting(count: int) -> None:
            while sum(len(asker.pushed) for asker in silent) < count:
                await client.settle()

        replies = [send(number) for number in range(5) for _ in range(most)][: MOST_WAITING_BYTES // size]
        await waiting(len(replies))
        for number in (0, 4):
            refused = await send(number)
            assert refused.code == ResponseCode.SYSTEM_BUSY
        await silent[0].client.connection.close()
        assert "has ended" in (await replies[0]).remark
        replies.append(send(4))
        await waiting(len(replies))
        for asker in silent[1:]:
            await asker.client.connection.close()
        assert {answer.code for answer in await asyncio.gather(*replies)} == {ResponseCode.SYSTEM_ERROR}

    on_broker(talk)
