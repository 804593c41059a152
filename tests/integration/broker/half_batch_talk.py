"""What coordinators and writers of half batches say to a broker, which is the coordinator itself."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

import numpy as np

from rmqspark.clock import SystemClock
from rmqspark.protocol.bodies.txn import (
    AttemptName,
    HeldAttempt,
    TxnComplete,
    TxnDecision,
    TxnVote,
)
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import AS_ROWS, BulkRows
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import (
    TxnCompleteRequestHeader,
    TxnHalfRequestHeader,
    TxnVoteRequestHeader,
)
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.txn.coordinator.events import Decided, EpochClosed, RunOpened, VersionBegun

T = "spark-1"


def half(*bodies: bytes, sizes: bool = False, **fields: Any) -> tuple[TxnHalfRequestHeader, bytes]:
    """A HALF request for queue 0 of `orders`."""
    record_fields = {name: fields.pop(name) for name in ("properties", "sys_flag", "queue_id") if name in fields}
    records = [bytes(encode_record(topic="orders", body=body, **record_fields)) for body in bodies]
    body = b"".join(records)
    if sizes:
        body = struct.pack(f">{len(records)}i", *map(len, records)) + body
    header = {
        "transactionalId": T,
        "epoch": 1,
        "version": 0,
        "partition": 0,
        "attempt": "a",
        "sequence": 0,
        "topic": "orders",
        "queueId": 0,
        "count": len(records),
        "recordSize": 0 if sizes else len(records[0]),
        "bodyCrc32": crc32(body),
    }
    return TxnHalfRequestHeader(**header | fields), body


def half_of_rows(*bodies: bytes, **fields: Any) -> tuple[TxnHalfRequestHeader, bytes]:
    """The same, for messages without properties: the broker makes their records."""
    column = Column(np.frombuffer(b"".join(bodies), np.uint8), np.cumsum([0, *map(len, bodies)]))
    rows = BulkRows(5, bytes(8), 0, IdRange("0" * 20, 0), body_crcs(column.values, column.spans()), column)
    body = b"".join(part.tobytes() for part in rows.encode())
    return half(*bodies, **fields | {"recordSize": AS_ROWS, "bodyCrc32": crc32(body)})[0], body


def held(*requests: tuple[TxnHalfRequestHeader, bytes]) -> HeldAttempt:
    """What a driver says of these halves of one attempt."""
    header = requests[0][0]
    return HeldAttempt(
        header.partition,
        header.attempt,
        len(requests),
        sum(each.count for each, _ in requests),
        sum(len(body) for _, body in requests),
        sum(each.bodyCrc32 for each, _ in requests),
    )


async def ready(bench: Any) -> Any:
    """A client, a topic to write to, and a run that may."""
    client = await bench.connect()
    await client.create_topic("orders")
    hand_out(bench, epoch=1)
    return client


def hand_out(bench: Any, *, epoch: int) -> None:
    """The coordinator, which is the same broker, allows a run to write versions up to 9."""
    coordination = bench.broker._parts.coordination
    uptime_ms = coordination.uptime.now_ms()
    coordination.journal.record([RunOpened(T, "q", f"run-{epoch}", epoch, uptime_ms), VersionBegun(T, 9, uptime_ms)])


def decide(bench: Any, *attempts: HeldAttempt, version: int = 0) -> None:
    """The coordinator has it in its ledger that these attempts of epoch 1 count."""
    decision = TxnDecision("q", {"broker-a": list(attempts)}, rows=sum(each.rows for each in attempts))
    now_ms = SystemClock().now_ms()
    bench.broker._parts.coordination.journal.record([Decided(T, 1, version, decision, now_ms, "driver", 0)])


def close(bench: Any, *, version: int = 0) -> None:
    """The coordinator has closed epoch 1."""
    now_ms = SystemClock().now_ms()
    bench.broker._parts.coordination.journal.record([EpochClosed(T, 1, version, now_ms, "driver")])


async def hold(client: Any, request: tuple[TxnHalfRequestHeader, bytes]) -> int:
    answer = await client.ask(RequestCode.RMQ_TXN_HALF, *request)
    assert answer.code == 0, answer.remark
    return int(answer.fields["physicalOffset"])


async def vote(
    client: Any, *attempts: HeldAttempt, epoch: int = 1, version: int = 0, coordinator: str | None = None
) -> str:
    header = TxnVoteRequestHeader(T, epoch, version, -1, coordinator)
    answer = await client.ask(RequestCode.RMQ_TXN_VOTE, header, TxnVote(list(attempts)).encode(standard=True))
    assert answer.code == 0, answer.remark
    return "" if answer.fields["yes"] == "true" else str(answer.remark)


async def complete(client: Any, *attempts: HeldAttempt, outcome: str = "COMMIT", **fields: Any) -> Any:
    header = TxnCompleteRequestHeader(
        **{"transactionalId": T, "epoch": 1, "version": 0, "outcome": outcome, "durable": False} | fields
    )
    body = TxnComplete([AttemptName(each.partition, each.attempt) for each in attempts]).encode(standard=True)
    return await client.ask(RequestCode.RMQ_TXN_COMPLETE, header, body)


async def bodies(bench: Any, client: Any, topic: str = "orders") -> list[bytes]:
    answer = await client.pull(topic)
    return [record.body for record in bench.records(answer)] if answer.code == 0 else []
