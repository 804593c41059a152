"""A broker as a participant of exactly-once transactions: half batches in, votes, completions; and what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from rmqspark.protocol.bodies.txn import (
    AuditedBatches,
    BrokersSeen,
    HeldAttempt,
    OutputRanges,
    TxnDecision,
    TxnVote,
)
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader
from rmqspark.protocol.headers.txn import (
    TxnAbortRequestHeader,
    TxnAuditRequestHeader,
    TxnDecideRequestHeader,
    TxnFindRequestHeader,
    TxnPrepareRequestHeader,
    TxnVoteRequestHeader,
)
from rmqspark.protocol.names import HALF_BATCH_TOPIC, HIDDEN_TOPICS
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.participant.output_ranges import most_bytes

from .half_batch_talk import T, bodies, close, complete, decide, half, half_of_rows, hand_out, held, hold, ready, vote
from .transaction_talk import eventually

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("durable", [False, True])
def test_the_way_of_a_batch(on_broker, flush, durable) -> None:
    """Sent, voted for, completed: then it is readable, once, and a reader that waited is told."""

    async def talk(bench) -> None:
        client, reader = await ready(bench), await bench.connect()
        waiting = asyncio.ensure_future(reader.pull("orders", wait_ms=60_000))
        requests = [
            half(b"1", b"2"),
            half(b"3", b"444", sizes=True, sequence=1),
            half_of_rows(b"5", b"6", sequence=2),
            half_of_rows(b"7", b"888", sequence=3),
        ]
        places = [await hold(client, request) for request in requests]
        assert [await hold(client, request) for request in requests] == places
        assert not await vote(client, held(*requests))
        assert not waiting.done()
        for _ in range(2):
            answer = await complete(client, held(*requests), durable=durable)
            outputs = OutputRanges.decode(answer.body).outputs
            assert [(each.topic, each.brokerName, each.fromOffset, each.toOffset) for each in outputs] == [
                ("orders", "broker-a", 0, 8)
            ]
        assert [record.body for record in bench.records(await waiting)][:1] == [b"1"]
        assert await bodies(bench, client) == [b"1", b"2", b"3", b"444", b"5", b"6", b"7", b"888"]

    on_broker(talk, store={"flush_disk_type": flush})


def test_over_restarts(on_broker) -> None:
    """Restarts between half batches, vote and completion change nothing of what comes out."""
    files = MemoryFileSystem()
    request = half(*(b"%03d" % number for number in range(500)))
    place: list[int] = []

    async def send(bench) -> None:
        client = await ready(bench)
        place.append(await hold(client, request))

    async def vote_for_it(bench) -> None:
        client = await bench.connect()
        assert await hold(client, request) == place[0]
        assert not await vote(client, held(request))

    async def finish(bench) -> None:
        client = await bench.connect()
        answer = await complete(client, held(request), durable=True)
        assert answer.code == 0, answer.remark

    async def look(bench) -> None:
        client = await bench.connect()
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic="orders", queueId=0))
        assert answer.fields["offset"] == "500"
        assert (await complete(client, held(request))).code == 0
        assert (await client.ask(RequestCode.RMQ_TXN_HALF, *request)).code == ResponseCode.RMQ_TXN_FENCED
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic="orders", queueId=0))
        assert answer.fields["offset"] == "500"

    for life in (send, vote_for_it, finish, look):
        on_broker(life, files=files)
        files.crash()  # closed, it has nothing to lose


def test_dropped(on_broker) -> None:
    """What is dropped never becomes readable, and its run may write no more of it."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await hold(client, half(b"1"))
        close(bench)
        assert (await complete(client, outcome="DROP")).code == 0
        answer = await client.ask(RequestCode.RMQ_TXN_HALF, *half(b"1"))
        assert (answer.code, "Nothing more is taken" in answer.remark) == (ResponseCode.RMQ_TXN_FENCED, True)
        assert "0 half batches are held instead of 1" in await vote(client, held(half(b"1")))
        hand_out(bench, epoch=2)
        again = half(b"1", epoch=2)
        await hold(client, again)
        assert not await vote(client, held(again), epoch=2)
        assert (await complete(client, held(again), epoch=2)).code == 0
        assert await bodies(bench, client) == [b"1"]

    on_broker(talk)


BAD_HALVES = [
    pytest.param(half(b"1", bodyCrc32=5), ResponseCode.MESSAGE_ILLEGAL, "checksum", id="false checksum"),
    pytest.param(half(b"1", queue_id=3), ResponseCode.MESSAGE_ILLEGAL, "not of queue 0", id="another queue"),
    pytest.param(half(b"1", sys_flag=8), ResponseCode.MESSAGE_ILLEGAL, "system flags", id="committed already"),
    pytest.param(half(b"1", sys_flag=4), ResponseCode.MESSAGE_ILLEGAL, "system flags", id="a half message"),
    pytest.param(
        half_of_rows(b"1", count=2), ResponseCode.MESSAGE_ILLEGAL, "not made of rows", id="more rows than are there"
    ),
    pytest.param(
        half_of_rows(b"x" * 300_000, topic="t" * 128), ResponseCode.TOPIC_NOT_EXIST, "", id="rows for no topic"
    ),
    pytest.param(half(b"1", recordSize=92), ResponseCode.MESSAGE_ILLEGAL, "", id="wrong sizes"),
    pytest.param(half(b"1", count=2), ResponseCode.MESSAGE_ILLEGAL, "cannot hold", id="too many"),
    pytest.param(
        half(b"1", count=1 << 30, recordSize=0), ResponseCode.MESSAGE_ILLEGAL, "cannot hold", id="far too many"
    ),
    pytest.param(
        half(b"1", properties=encode_properties({"DELAY": "3"})),
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        "DELAY",
        id="a delayed one",
    ),
    pytest.param(half(b"1", topic="refunds"), ResponseCode.TOPIC_NOT_EXIST, "refunds", id="no such topic"),
    pytest.param(half(b"1", topic=HALF_BATCH_TOPIC), ResponseCode.TOPIC_NOT_EXIST, "", id="a topic of ours"),
    pytest.param(half(b"1", queueId=99), ResponseCode.INVALID_PARAMETER, "no 99", id="no such queue"),
    pytest.param(
        half(b"1", transactionalId="../x\x01"), ResponseCode.INVALID_PARAMETER, "", id="a name with separators"
    ),
    pytest.param(half(b"1", transactionalId="x" * 300), ResponseCode.INVALID_PARAMETER, "", id="an endless name"),
    pytest.param(half(b"1", attempt=""), ResponseCode.INVALID_PARAMETER, "attempt", id="no attempt"),
    pytest.param(half(b"1", epoch=0), ResponseCode.INVALID_PARAMETER, "Epochs begin at 1", id="epoch 0"),
    pytest.param(half(b"1", version=-1), ResponseCode.INVALID_PARAMETER, "", id="a negative version"),
    pytest.param(half(b"1", sequence=-5), ResponseCode.INVALID_PARAMETER, "", id="a negative sequence"),
]


@pytest.mark.parametrize(("request_", "code", "story"), BAD_HALVES)
def test_half_batches_that_are_refused(on_broker, request_, code, story) -> None:
    """A half batch that is not right is refused in words, and nothing of it is stored."""

    async def talk(bench) -> None:
        client = await ready(bench)
        stored = bench.broker._parts.flusher._store.end_offset
        answer = await client.ask(RequestCode.RMQ_TXN_HALF, *request_)
        assert (answer.code, story in answer.remark) == (code, True), answer.remark
        assert await hold(client, half(b"good")) == stored
        assert not await vote(client, held(half(b"good")))

    on_broker(talk)


def test_what_contradicts_itself_is_logged_once(on_broker) -> None:
    """A damaged half batch, and another one under a name that is taken: operators see the first of each kind."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await hold(client, half(b"1"))
        with capture_logs() as logs:
            for request in (half(b"2", sequence=1, bodyCrc32=5), half(b"3")) * 3:
                assert (await client.ask(RequestCode.RMQ_TXN_HALF, *request)).code != 0
        assert [(each["error"], each["log_level"]) for each in logs if each["event"] == "refused"] == [
            ("RecordError", "warning"),
            ("TransactionError", "warning"),
        ]

    on_broker(talk)


def test_topic_that_may_not_be_written(on_broker) -> None:
    """What was decided waits while its topic is read-only, and is completed when it may be written again."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await hold(client, half(b"1"))
        assert not await vote(client, held(half(b"1")))
        await client.create_topic("orders", perm=4)
        answer = await client.ask(RequestCode.RMQ_TXN_HALF, *half(b"2", version=1))
        assert (answer.code, "may not be written" in answer.remark) == (ResponseCode.NO_PERMISSION, True)
        assert (await complete(client, held(half(b"1")))).code == ResponseCode.NO_PERMISSION
        assert await bodies(bench, client) == []
        await client.create_topic("orders", perm=6)
        assert (await complete(client, held(half(b"1")))).code == 0
        assert await bodies(bench, client) == [b"1"]

    on_broker(talk)


def test_a_topic_that_is_deleted_and_made_anew(on_broker) -> None:
    """What was voted for goes with it; what was not is refused by name, and then written to the next topic."""

    async def talk(bench) -> None:
        client = await ready(bench)
        voted, following, again = half(b"1"), half(b"2", version=1), half(b"2", version=1, attempt="b")
        await hold(client, voted)
        assert not await vote(client, held(voted))
        await make_anew(client)
        answer = await complete(client, held(voted))
        assert [(each.toOffset, each.deleted) for each in OutputRanges.decode(answer.body).outputs] == [(0, 1)]
        await hold(client, following)
        await make_anew(client)
        assert "'orders' was deleted" in await vote(client, held(following), version=1)
        await hold(client, again)
        assert not await vote(client, held(again), version=1)
        assert (await complete(client, held(again), version=1)).code == 0
        assert await bodies(bench, client) == [b"2"]

    on_broker(talk)


async def make_anew(client: Any) -> None:
    answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader("orders"))
    assert answer.code == 0, answer.remark
    await client.create_topic("orders")


def test_more_than_a_broker_holds(on_broker) -> None:
    """Beyond its bound a broker answers busy, which clients may try again."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await hold(client, half(b"1"))
        answer = await client.ask(RequestCode.RMQ_TXN_HALF, *half(b"2", sequence=1))
        assert (answer.code, "max_half_batches" in answer.remark) == (ResponseCode.SYSTEM_BUSY, True)

    on_broker(talk, max_half_batches=1)


def test_decisions_that_are_refused(on_broker) -> None:
    """A decision for what is not there, and one that is neither COMMIT nor DROP, are refused; nothing is done."""

    async def talk(bench) -> None:
        client = await ready(bench)
        decide(bench, held(half(b"1")))
        answer = await complete(client, held(half(b"1")))
        assert (answer.code, "does not hold" in answer.remark) == (ResponseCode.TRANSACTION_FAILED, True)
        assert (await complete(client, outcome="PERHAPS")).code == ResponseCode.INVALID_PARAMETER
        assert await bodies(bench, client) == []

    on_broker(talk)


def test_own_topics_are_nobodys(on_broker) -> None:
    """Nobody reads, sends to, or deletes the topics in which transactions are kept."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await hold(client, half(b"1"))
        for topic in HIDDEN_TOPICS:
            read = BulkReadRequestHeader(topic=topic, queueId=0, queueOffset=0, endOffset=9, maxCount=9, maxBytes=9_999)
            assert (await client.ask(RequestCode.RMQ_BULK_READ, read)).code != 0
            assert (await client.pull(topic)).code != 0
            assert (await client.send(topic)).code != 0
            assert (await client.create_topic(topic)).code != 0

    on_broker(talk)


def test_a_run_that_was_cut_off_can_write_nothing(on_broker) -> None:
    """From the first half batch of the run that took over, here or never: the coordinator says who may write."""

    async def talk(bench) -> None:
        client = await ready(bench)
        hand_out(bench, epoch=2)
        answer = await client.ask(RequestCode.RMQ_TXN_HALF, *half(b"zombie"))
        assert (answer.code, "Nothing more is taken" in answer.remark) == (ResponseCode.RMQ_TXN_FENCED, True)
        await hold(client, half(b"1", epoch=2))
        assert (await client.ask(RequestCode.RMQ_TXN_HALF, *half(b"zombie"))).code == ResponseCode.RMQ_TXN_FENCED

    on_broker(talk)


def test_half_batches_of_a_version_from_the_future(on_broker) -> None:
    """What no attempt was allowed to write is gone after a check-back, also while its run goes on."""

    async def talk(bench) -> None:
        client = await ready(bench)
        future, kept = half(b"1", version=10), half(b"2", version=9)
        await hold(client, kept)
        await hold(client, future)

        async def is_gone() -> bool:
            return "0 half batches" in await vote(client, HeldAttempt(0, "a", halves=2), version=10)

        await eventually(is_gone)
        assert not await vote(client, held(kept), version=9)

    on_broker(talk, transaction_time_out=1)


LIST_BYTES = most_bytes((("orders", queue) for queue in range(40)), "broker-a")


@pytest.mark.parametrize("room", [LIST_BYTES - 1, LIST_BYTES], ids=["the participant's no", "the coordinator's"])
def test_more_queues_than_a_decision_can_tell_of(on_broker, room) -> None:
    """A batch for too many queues is refused in words before anything is readable; one for fewer is committed."""

    async def talk(bench) -> None:
        client = await ready(bench)
        await client.create_topic("orders", queues=40)

        async def decide(epoch: int, queues: int) -> Any:
            prepare = TxnPrepareRequestHeader(T, f"run-{epoch}", 0, 0, "a")
            assert (await client.ask(RequestCode.RMQ_TXN_PREPARE, prepare)).fields["epoch"] == str(epoch)
            requests = [
                half(b"1", epoch=epoch, sequence=queue, queue_id=queue, queueId=queue) for queue in range(queues)
            ]
            for request in requests:
                await hold(client, request)
            decision = TxnDecision("q", {"broker-a": [held(*requests)]}, rows=queues)
            header = TxnDecideRequestHeader(T, f"run-{epoch}", epoch, 0)
            return await client.ask(RequestCode.RMQ_TXN_DECIDE, header, decision.encode(standard=True))

        refused = await decide(1, 40)
        assert refused.code != 0 or refused.fields["outcome"] == "REFUSED"
        assert "fewer topics or queues" in refused.remark
        abort = await client.ask(RequestCode.RMQ_TXN_ABORT, TxnAbortRequestHeader(T, "run-1", 1, 0))
        assert abort.fields["outcome"] == "FENCED"
        assert await bodies(bench, client) == []
        assert (await decide(2, 20)).fields["outcome"] == "COMMITTED"
        assert await bodies(bench, client) == [b"1"]
        told = (await client.ask(RequestCode.RMQ_TXN_AUDIT, TxnAuditRequestHeader(9))).body
        (batch,) = AuditedBatches.decode(told).batches
        assert (batch.rows, len(batch.outputs)) == (20, 20)

    on_broker(talk, store={"max_message_size": 4_096 + room})


def test_who_asks_for_votes_is_remembered_for_a_yes_alone(on_broker) -> None:
    """Each broker ever seen has to be asked before a new id is adopted: a made-up one would stop them all."""

    async def talk(bench) -> None:
        client = await ready(bench)

        async def seen() -> list[str]:
            answer = await client.ask(RequestCode.RMQ_TXN_FIND, TxnFindRequestHeader(T))
            return BrokersSeen.decode(answer.body).brokers

        assert await vote(client, HeldAttempt(0, "a", 1, 1), coordinator="ghost")
        assert await vote(client, coordinator="ghost")
        assert await seen() == []
        request = half(b"1")
        await hold(client, request)
        header = TxnVoteRequestHeader(T, 1, 0, -1, "x" * 300)
        refused = await client.ask(RequestCode.RMQ_TXN_VOTE, header, TxnVote([held(request)]).encode(standard=True))
        assert "not one of this cluster" in refused.remark
        assert not await vote(client, held(request), coordinator="broker-z")
        assert await seen() == ["broker-z"]

    on_broker(talk)
