"""Rows for many queues in one request: each queue gets its own, or none gets any."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest

from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_rows import TopicRun, encode_runs
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import TopicsSendRequestHeader
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.unique_keys import IdRange

pytestmark = pytest.mark.integration

HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])
BODIES = [b"a", b"bb", b"ccc", b"dddd"]
RUNS = [TopicRun("orders", 1, 1), TopicRun("payments", 0, 2), TopicRun("orders", 0, 1)]


def request(runs: list[TopicRun] = RUNS, sys_flag: int = 0, **fields: int) -> tuple[TopicsSendRequestHeader, bytes]:
    column = Column(np.frombuffer(b"".join(BODIES), np.uint8), np.cumsum([0, *map(len, BODIES)]))
    crcs = body_crcs(column.values, column.spans())
    rows = BulkRows(5, HOST, sys_flag, IdRange("A" * 20, 9), crcs, column)
    body = encode_runs(runs) + b"".join(part.tobytes() for part in rows.encode())
    header = {"queues": len(runs), "count": len(BODIES), "bodyCrc32": crc32(body)}
    return TopicsSendRequestHeader(**(header | fields)), body


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_each_queue_gets_its_rows(on_broker, flush) -> None:
    """In their order, twice if sent twice, behind what was there; whoever waits for one of the queues is woken."""

    async def talk(bench) -> None:
        client, reader = await bench.connect(), await bench.connect()
        for topic in ("orders", "payments"):
            await client.create_topic(topic)
        await client.send("orders", b"first")
        for _ in range(2):
            sent = await client.ask(RequestCode.RMQ_TOPICS_SEND, *request())
            assert (sent.code, sent.fields["count"]) == (0, "4"), sent.remark
        bodies = {
            (topic, queue_id): [
                (record.queue_offset, record.topic, record.body, record.properties)
                for record in bench.records(await reader.pull(topic, queueId=queue_id))
            ]
            for topic, queue_id in (("orders", 0), ("orders", 1), ("payments", 0))
        }
        ids = [f"{'A' * 20}{number:012X}" for number in range(9, 13)]
        assert [each[2] for each in bodies["orders", 0]] == [b"first", b"dddd", b"dddd"]
        assert [each[:3] for each in bodies["orders", 1]] == [(0, "orders", b"a"), (1, "orders", b"a")]
        assert [each[:3] for each in bodies["payments", 0]] == [
            (offset, "payments", body) for offset, body in enumerate([b"bb", b"ccc"] * 2)
        ]
        assert all(ids[1 + number % 2].encode() in each[3] for number, each in enumerate(bodies["payments", 0]))

    on_broker(talk, store={"flush_disk_type": flush})


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (request(bodyCrc32=1), ResponseCode.MESSAGE_ILLEGAL),
        (request(count=3), ResponseCode.MESSAGE_ILLEGAL),
        (request(queues=2), ResponseCode.MESSAGE_ILLEGAL),
        (request(sys_flag=4), ResponseCode.MESSAGE_ILLEGAL),
        (request([*RUNS[:1], TopicRun("orders", 1, 3)]), ResponseCode.MESSAGE_ILLEGAL),
        (request([*RUNS[:2], TopicRun("unknown", 0, 1)]), ResponseCode.TOPIC_NOT_EXIST),
        (request([*RUNS[:2], TopicRun("SELF_TEST_TOPIC", 0, 1)]), ResponseCode.NO_PERMISSION),
        (request([*RUNS[:2], TopicRun("orders", 4, 1)]), ResponseCode.INVALID_PARAMETER),
    ],
)
def test_what_is_not_right_for_one_queue_is_stored_in_none(on_broker, sent, code) -> None:
    """A wrong checksum, count, flag, topic or queue: an error that says so, and all queues are as they were."""

    async def talk(bench) -> None:
        client = await bench.connect()
        for topic in ("orders", "payments"):
            await client.create_topic(topic)
        answer = await client.ask(RequestCode.RMQ_TOPICS_SEND, *sent)
        assert answer.code == code, answer.remark
        for topic, queue_id in (("orders", 0), ("orders", 1), ("payments", 0)):
            held = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic, queue_id))
            assert held.fields["offset"] == "0"
        assert (await client.ask(RequestCode.RMQ_TOPICS_SEND, *request())).code == 0

    on_broker(talk)
