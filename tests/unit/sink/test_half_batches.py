"""The rows of an attempt as half batches."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from zlib_ng.zlib_ng import crc32

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.errors import InvalidArgument, NotSupported
from rmqspark.model import MessageQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.record_builder import EncodedRecords
from rmqspark.protocol.records.unique_keys import IdRange, unique_keys
from rmqspark.sink.rows.checksum import RowChecksum
from rmqspark.sink.rows.hashes import add_bodies
from rmqspark.sink.rows.rows import Rows, column
from rmqspark.sink.transactions.attempt import Attempt
from rmqspark.sink.transactions.half_batches import HalfBatches, key_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.headers.txn import TxnHalfRequestHeader

ATTEMPT = Attempt("T", "run-1", 7, 2, "11-ab", epoch=4)
A0, B0 = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0)


class Broker:
    """Notes what it is sent."""

    name = "a"

    def __init__(self, transactions: int = 1) -> None:
        self.able = Capabilities(transactions=transactions)
        self.sent: list[tuple[TxnHalfRequestHeader, bytes]] = []

    def capabilities(self) -> Capabilities:
        return self.able

    def submit(self, code: int, header: Any, body: Sequence[memoryview], *, timeout_ms: int) -> Future[Any]:
        assert code == RequestCode.RMQ_TXN_HALF
        self.sent.append((header, b"".join(body)))
        return Future()


def records(*values: bytes) -> EncodedRecords:
    return EncodedRecords(
        np.frombuffer(bytearray(b"".join(values)), np.uint8), np.array([len(value) for value in values], np.int32)
    )


def test_halves_are_numbered_and_counted_for_each_broker() -> None:
    """What the driver needs for the vote is known without asking: halves, rows, bytes and a digest per broker."""
    halves, broker = HalfBatches(ATTEMPT), Broker()
    sends = [
        halves.pack(A0, records(b"aa", b"bb")),
        halves.pack(B0, records(b"c")),
        halves.pack(A0, records(b"d", b"eee")),
    ]
    for send in (*sends, sends[0]):  # the last one again, as after a lost answer
        send.submit(broker)  # type: ignore[arg-type]
    assert [(header.sequence, header.queueId, header.count) for header, _ in broker.sent] == [
        (0, 0, 2),
        (0, 0, 1),
        (1, 0, 2),
        (0, 0, 2),
    ]
    header, body = broker.sent[2]
    assert (header.transactionalId, header.epoch, header.version, header.partition, header.attempt) == (
        "T",
        4,
        7,
        2,
        "11-ab",
    )
    assert (header.recordSize, header.bodyCrc32, body[:8]) == (0, crc32(body), b"\0\0\0\1\0\0\0\3")
    held = halves.held["a"]
    assert (held.partition, held.attempt) == (2, "11-ab")
    assert (held.halves, held.rows, held.bytes) == (2, 4, 4 + len(body))
    assert held.digest == crc32(b"aabb") + crc32(body)
    assert halves.held["b"].halves == 1


def test_a_row_keeps_its_id() -> None:
    """Written again, by whatever attempt and run, a row has the same UNIQ_KEY; other rows have others."""
    again = Attempt("T", "run-2", 7, 2, "99-cd", epoch=5)
    batches = [pa.record_batch({"body": pa.array([b"x"] * count)}) for count in (3, 4)]

    def ids(attempt: Attempt, cuts: Sequence[Any]) -> list[bytes]:
        halves, found = HalfBatches(attempt), b""
        for batch in cuts:
            ids = halves.ids(0, batch.num_rows)
            halves.note(batch, Rows(batch, "t", ids, "none"))
            found += unique_keys(ids.prefix, ids.sequences(batch.num_rows)).values.tobytes()
        return [found[first : first + 32] for first in range(0, len(found), 32)]

    assert ids(ATTEMPT, batches) == ids(again, batches[::-1])
    assert len(set(ids(ATTEMPT, batches))) == 7
    prefixes = {key_prefix(Attempt(name, "", version, partition, ""))
                for name in ("T", "U") for version in (1, 11) for partition in (1, 11)}  # fmt: skip
    assert len(prefixes) == 8
    for prefix in prefixes:
        with pytest.raises(InvalidArgument):  # as RocketMQ's tools tell the two kinds of ids apart
            parse_offset_msg_id(f"{prefix}000000000000")


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_the_checksum_is_of_the_bodies_as_they_were_given(compression: str) -> None:
    """A batch run again under another `compression` has the same checksum."""
    bodies = [b"a", b"b" * 10_000, b"c" * 5_000]
    batch = pa.record_batch({"body": pa.array(bodies)})
    halves = HalfBatches(ATTEMPT)
    halves.note(batch, Rows(batch, "t", halves.ids(0, 3), compression))
    expected = RowChecksum()
    add_bodies(expected, column(batch.column("body")))
    assert halves.total == expected
    assert halves.total.rows == 3


@pytest.mark.parametrize("columns", [{}, {"keys": pa.array(["k"])}], ids=["bodies", "bodies and keys"])
def test_an_older_broker(columns: dict[str, Any]) -> None:
    """It holds what it knows; rows with keys in columns are refused before they are sent, with the way out."""
    rows = Rows(pa.record_batch({"body": pa.array([b"a"]), **columns}), "t", IdRange("0" * 20, 0), "none")
    bulk = rows.bulk(A0, 0, 1, born_timestamp_ms=1, born_host=bytes(8), out=None)
    send, broker = HalfBatches(ATTEMPT).pack(A0, bulk), Broker()
    if columns:
        with pytest.raises(NotSupported, match="tags, keys and sharding keys"):
            send.submit(broker)  # type: ignore[arg-type]
        broker.able = Capabilities(transactions=1, bulk_send=2)
    send.submit(broker)  # type: ignore[arg-type]
    assert len(broker.sent) == 1


def test_a_queue_on_a_stock_broker() -> None:
    """One stock broker among the target's is one too many."""
    with pytest.raises(NotSupported, match="deliveryGuarantee=at-least-once"):
        HalfBatches(ATTEMPT).pack(A0, records(b"x")).submit(Broker(transactions=0))  # type: ignore[arg-type]
