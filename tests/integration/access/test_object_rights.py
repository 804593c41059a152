"""Whoever has rights of some topics and groups reaches no others, however they are named (S19)."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from zlib import crc32

import pytest

from rmqspark.protocol.bodies.access_control import UserInfo
from rmqspark.protocol.bodies.client import (
    ConsumerData,
    GroupLeasesBody,
    HeartbeatData,
    LeasedQueue,
    LockBatchBody,
    ProducerData,
    Queue,
    SubscriptionData,
)
from rmqspark.protocol.bodies.txn import InputRange, InputRanges, TxnDecision
from rmqspark.protocol.bulk.topic_ranges import TopicRange, encode_ranges
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.access_control import DeleteAclRequestHeader, UserRequestHeader
from rmqspark.protocol.headers.admin import GetConsumeStatsRequestHeader
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader, BulkSendRequestHeader, TopicsReadRequestHeader
from rmqspark.protocol.headers.consume import (
    ConsumeMessageDirectlyRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    GroupLeasesRequestHeader,
    PullFlag,
    PullMessageRequestHeader,
    QueryMessageRequestHeader,
    UpdateConsumerOffsetRequestHeader,
    ViewMessageRequestHeader,
)
from rmqspark.protocol.headers.produce import EndTransactionRequestHeader, SendMessageRequestHeaderV2
from rmqspark.protocol.headers.txn import TxnDecideRequestHeader, TxnInputsRequestHeader
from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import decode_record, encode_record
from rmqspark.remoting.access import Credentials

from .samples import sample

pytestmark = pytest.mark.integration

ANN, EVE = Credentials("ann", "ann-secret"), Credentials("eve", "eve-secret")
HERS = {"Topic_hers": "All", "Group_hers": "All", "Group_spark-hers": "All"}
HALF = {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "C0A8010A1F9018B4AAC25E0BE0F50007"}


def place(sent: Any) -> int:
    return parse_offset_msg_id(sent.fields["msgId"])[1]


def pull(topic: str, group: str) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(group, topic, 0, 0, 32, 4, 0, 0, 0, "*")


def heartbeat(topic: str, group: str) -> bytes:
    consumer = ConsumerData(group, subscriptionDataSet=[SubscriptionData(topic)])
    return HeartbeatData("c", [], [consumer]).encode()


def bulk(real_topic: str) -> tuple[BulkSendRequestHeader, bytes]:
    """A message that is to wait a second for its topic."""
    properties = encode_properties({"DELAY": "1", "REAL_TOPIC": real_topic, "REAL_QID": "0"})
    body = bytes(encode_record(topic=SCHEDULE_TOPIC, body=b"x", properties=properties))
    return BulkSendRequestHeader(SCHEDULE_TOPIC, 0, 1, len(body), crc32(body)), body


def recall(topic: str) -> SendMessageRequestHeaderV2:
    """Says to a topic of hers that a message of another is not to be delivered when its time has come."""
    properties = encode_properties({"TIMER_DEL_UNIQKEY": f"{topic}+{HALF['UNIQ_KEY']}", "TIMER_DELAY_MS": "60000"})
    return SendMessageRequestHeaderV2("PG", "hers", "TBW102", 4, 0, 0, 1, 0, properties.decode())


def reach(topic: str, group: str, there: dict[str, int | str]) -> dict[str, tuple[int, Any, bytes]]:
    """Requests that reach a topic, a group, or a message of them, by every way there is."""
    code, both = RequestCode, {"topic": topic, "consumerGroup": group, "queueId": 0}
    committed = InputRange(group, topic, "broker-a", 0, 0, 1)
    return {
        "pull": (code.PULL_MESSAGE, pull(topic, "hers"), b""),
        "pull for the group": (code.PULL_MESSAGE, pull("hers", group), b""),
        "pull what it retries": (code.PULL_MESSAGE, pull(f"%RETRY%{group}", "hers"), b""),
        "lite pull": (code.LITE_PULL_MESSAGE, pull(topic, "hers"), b""),
        "subscribe": (code.HEART_BEAT, None, heartbeat(topic, "hers")),
        "join": (code.HEART_BEAT, None, heartbeat("hers", group)),
        "commit": (code.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader(**both, commitOffset=1), b""),
        "lock": (code.LOCK_BATCH_MQ, None, LockBatchBody("hers", "c", [Queue(topic, "broker-a", 0)]).encode()),
        "lock for the group": (code.LOCK_BATCH_MQ, None, LockBatchBody(group, "c", []).encode()),
        "lease": (
            code.RMQ_GROUP_LEASES,
            GroupLeasesRequestHeader("hers", "c"),
            GroupLeasesBody(take=[LeasedQueue(topic, "broker-a", 0)]).encode(),
        ),
        "send back": (code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequestHeader(there["sent"], "hers", 1), b""),
        "view": (code.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(there["sent"], "hers"), b""),
        "view what waits": (code.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(there["delayed"], "hers"), b""),
        "have it consumed": (
            code.CONSUME_MESSAGE_DIRECTLY,
            ConsumeMessageDirectlyRequestHeader("hers", "c", there["id"]),
            b"",
        ),
        "end": (
            code.END_TRANSACTION,
            EndTransactionRequestHeader("PG", 0, there["half"], 12, "id", topic="hers"),
            b"",
        ),
        "bulk read": (code.RMQ_BULK_READ, BulkReadRequestHeader(topic, 0, 0, 1, 1, 1), b""),
        "bulk read for the group": (
            code.RMQ_BULK_READ,
            BulkReadRequestHeader("hers", 0, 0, 1, 1, 1, group=group),
            b"",
        ),
        "read among others": (
            code.RMQ_TOPICS_READ,
            TopicsReadRequestHeader(2, 10, 1000),
            encode_ranges([TopicRange("hers", 0, 0, 1), TopicRange(topic, 0, 0, 1)]),
        ),
        "send to where it waits": (code.RMQ_BULK_SEND, *bulk(topic)),
        "take back what waits": (code.SEND_MESSAGE_V2, recall(topic), b"0"),
        "statistics among others": (
            code.GET_CONSUME_STATS,
            GetConsumeStatsRequestHeader("hers", topicList=f"hers;{topic}"),
            b"",
        ),
        "move forward with a batch": (
            code.RMQ_TXN_DECIDE,
            TxnDecideRequestHeader("spark-hers", "r", 1, 0),
            TxnDecision(inputs=[committed]).encode(standard=True),
        ),
        "what a query read": (code.RMQ_TXN_INPUTS, TxnInputsRequestHeader("q-1", 0), b""),
    }


async def populated(cluster: Any, topic: str, group: str) -> dict[str, int | str]:
    """A message of the topic, one that waits, a half one, and a query that has read it."""
    await cluster.root.create_topic(topic)
    sent = await cluster.root.send(topic, b"secret")
    delayed = await cluster.root.send(topic, b"secret", properties={"DELAY": "5"})
    half = await cluster.root.send(topic, b"secret", properties=HALF, f=4)
    read = InputRanges([InputRange(group, topic, "broker-a", 0, 0, 1)]).encode(standard=True)
    await cluster.root.done(RequestCode.RMQ_TXN_REPORT_INPUT, TxnInputsRequestHeader("q-1", 0), read)
    return {"sent": place(sent), "delayed": place(delayed), "half": place(half), "id": sent.fields["msgId"]}


def test_no_way_leads_to_others(guarded) -> None:
    """Each of these requests names something of hers besides, which does not help."""

    async def talk(cluster) -> None:
        there = await populated(cluster, "theirs", "theirs")
        await cluster.root.create_topic("hers")
        ann = await cluster.made(ANN, **HERS)
        answers = {way: await ann.ask(*request) for way, request in reach("theirs", "theirs", there).items()}
        refused = {way: answer.code == 16 and "to access" in (answer.remark or "") for way, answer in answers.items()}
        assert refused == dict.fromkeys(answers, True)

    guarded(talk)


def test_every_way_leads_to_her_own(guarded) -> None:
    """The same requests about what she has rights of are not refused."""

    async def talk(cluster) -> None:
        there = await populated(cluster, "hers", "hers")
        ann = await cluster.made(ANN, **HERS)
        answers = {way: await ann.ask(*request) for way, request in reach("hers", "hers", there).items()}
        assert [(way, answer.remark) for way, answer in answers.items() if "to access" in (answer.remark or "")] == []

    guarded(talk)


@pytest.mark.parametrize(
    ("how", "authorizes"),
    [
        ("right taken", True),
        ("user disabled", True),
        ("user deleted", True),
        ("user disabled", False),
        ("user deleted", False),
    ],
)
def test_a_pull_that_is_held_brings_nothing_once_its_user_may_not_read(guarded, how: str, authorizes: bool) -> None:
    """It was let in when it came, and may be held for as long as its client likes."""

    async def talk(cluster) -> None:
        ann = await cluster.made(ANN, **HERS)
        await cluster.root.create_topic("hers")
        held = asyncio.ensure_future(
            ann.ask(
                RequestCode.PULL_MESSAGE,
                PullMessageRequestHeader(
                    "hers", "hers", 0, 0, 32, PullFlag.SUSPEND | PullFlag.SUBSCRIPTION, 0, 60_000, 0
                ),
            )
        )
        await asyncio.sleep(0)  # it is under way
        await ann.done(RequestCode.RMQ_CAPABILITIES)
        assert not held.done()
        name = ANN.access_key
        match how:
            case "right taken":
                await cluster.root.done(RequestCode.AUTH_DELETE_ACL, DeleteAclRequestHeader(f"User:{name}"))
            case "user disabled":
                off = UserInfo(None, "disable").encode()
                await cluster.root.done(RequestCode.AUTH_UPDATE_USER, UserRequestHeader(name), off)
            case _:
                await cluster.root.done(RequestCode.AUTH_DELETE_USER, UserRequestHeader(name))
        assert (await cluster.root.send("hers", b"not for her")).code == 0
        answer = await held
        assert (answer.code, bytes(answer.body)) == (ResponseCode.NO_PERMISSION, b"")

    guarded(talk, authorization_enabled=authorizes)


@pytest.mark.parametrize("authorizes", [True, False])
def test_a_false_checksum_cuts_off_nobody_elses_messages(guarded, authorizes: bool) -> None:
    """Recovery takes a message with one for a torn tail, with all that others have sent behind it: who has rights of
    some topics gets none in."""

    async def talk(cluster) -> None:
        ann = await cluster.made(ANN, **HERS)
        await cluster.root.create_topic("hers")
        body = bytes(encode_record(topic="hers", body=b"true", properties=b"")).replace(b"true", b"else")
        answer = await ann.ask(
            RequestCode.RMQ_BULK_SEND, BulkSendRequestHeader("hers", 0, 1, len(body), crc32(body)), body
        )
        assert answer.code == (ResponseCode.MESSAGE_ILLEGAL if authorizes else ResponseCode.SUCCESS)

    guarded(talk, authorization_enabled=authorizes)


def test_only_brokers_say_who_coordinates(guarded) -> None:
    """A queue waits for the coordinator that its lease names, when that has run out: a member could name a dead one,
    and no other would ever get it."""

    async def talk(cluster) -> None:
        await cluster.root.create_topic("hers")
        ann = await cluster.made(ANN, **HERS)
        body = GroupLeasesBody(take=[LeasedQueue("hers", "broker-a", 0)]).encode()
        names = None, "broker-a"
        headers = [GroupLeasesRequestHeader("hers", "c", coordinator=name) for name in names]
        answers = [await ann.ask(RequestCode.RMQ_GROUP_LEASES, header, body) for header in headers]
        assert [answer.code for answer in answers] == [ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION]
        assert (await cluster.root.ask(RequestCode.RMQ_GROUP_LEASES, headers[1], body)).code == ResponseCode.SUCCESS

    guarded(talk)


def test_a_retry_topic_takes_what_its_group_sends(guarded) -> None:
    """Whatever producer group is said; RocketMQ goes by that."""

    async def talk(cluster) -> None:
        ann = await cluster.made(ANN, **HERS)
        await ann.send("hers")
        refused = await ann.send("%RETRY%theirs", a="hers")
        assert (refused.code, "Group:theirs" in refused.remark) == (ResponseCode.NO_PERMISSION, True)
        assert "to access" not in ((await ann.send("%RETRY%hers", a="theirs")).remark or "")

    guarded(talk)


def test_a_key_with_the_hash_of_anothers_brings_nothing(guarded) -> None:
    """Of the index one learns nothing about topics one may not read."""
    collision = "hersBB", "hersAa"  # one hash

    async def talk(cluster) -> None:
        assert java_hash(collision[0]) == java_hash(collision[1])
        for topic in collision:
            await cluster.root.create_topic(topic)
        await cluster.root.send(collision[0], b"secret", properties={"KEYS": "k"})
        await cluster.root.send(collision[1], b"hers", properties={"KEYS": "k"})
        ann = await cluster.made(ANN, **{f"Topic_{collision[1]}": "Sub"})

        async def found(topic: str) -> list[bytes]:
            header = QueryMessageRequestHeader(topic, "k", 32, 0, 1 << 62)
            answer = await ann.ask(RequestCode.QUERY_MESSAGE, header)
            records, at = [], 0
            while at < len(answer.body):
                records.append(decode_record(answer.body, at))
                at += records[-1].size
            return [record.body for record in records]

        while not await found(collision[1]):  # the index is written behind the answer
            pass
        assert await found(collision[1]) == [b"hers"]
        assert await found(collision[0]) == []

    guarded(talk)


class Producer:
    """A producer of group PG that notes what the broker asks it."""

    def __init__(self, talk: Any) -> None:
        self.talk = talk
        self.asked: list[str] = []
        self.often = asyncio.Event()
        self._take = talk.connection._take
        talk.connection._take = self._note  # the client's end only answers requests otherwise

    async def connect(self, client_id: str) -> None:
        body = HeartbeatData(client_id, [ProducerData("PG")], []).encode()
        await self.talk.done(RequestCode.HEART_BEAT, None, body)

    def _note(self, command: Any, body: memoryview) -> None:
        if command.code == RequestCode.CHECK_TRANSACTION_STATE and not command.is_response:
            self.asked.append(command.fields["topic"])
            if len(self.asked) == 4:
                self.often.set()
        self._take(command, body)


def test_half_messages_are_shown_to_who_may_send_such(guarded) -> None:
    """Anybody can say that he is a producer of a group; RocketMQ shows him the group's messages then."""

    async def talk(cluster) -> None:
        await cluster.root.create_topic("hers")
        ann, eve = Producer(await cluster.made(ANN, Topic_hers="Pub")), Producer(await cluster.made(EVE))
        await ann.connect("ann")
        await eve.connect("eve")
        assert (await ann.talk.send("hers", b"secret", properties=HALF, f=4)).code == 0
        async with asyncio.timeout(60):
            await ann.often.wait()
        assert (set(ann.asked), eve.asked) == ({"hers"}, [])

    guarded(talk, transaction_time_out=0, transaction_check_interval=1)


def test_half_messages_are_not_shown_to_who_is_no_user_any_more(guarded) -> None:
    """Where users have no rights of their own, too: until its heartbeats are missed, his connection is a producer's."""

    async def talk(cluster) -> None:
        await cluster.root.create_topic("hers")
        eve, ann = Producer(await cluster.made(EVE)), Producer(await cluster.made(ANN))
        await eve.connect("eve")
        await ann.connect("ann")
        await cluster.root.done(RequestCode.AUTH_DELETE_USER, UserRequestHeader(EVE.access_key))
        assert (await ann.talk.send("hers", b"secret", properties=HALF, f=4)).code == 0
        async with asyncio.timeout(60):
            await ann.often.wait()
        assert eve.asked == []

    guarded(talk, authorization_enabled=False, transaction_time_out=0, transaction_check_interval=1)


NO_BODIES = (b"", b"{", b"[]", b"null", b'{"queues":[null]}', b"\xff" * 64, bytes(300))


def test_a_body_that_is_none_is_no_fault(guarded) -> None:
    """Whatever the guard has to look for in a body: what cannot be read is refused, as it is without a guard."""

    async def talk(cluster) -> None:
        ann = await cluster.made(ANN, **HERS)
        faults = []
        for code in RequestCode:
            header, body = sample(code, 0, "")
            for mangled in (*NO_BODIES, body[:-1], body[3:]):
                answer = await ann.ask(code, header, mangled)
                if re.match(r"[A-Za-z]+(Error|Exception): ", answer.remark or ""):
                    faults.append((code.name, mangled[:20], answer.remark))
        assert faults == []

    guarded(talk)
