"""Whole buffers of records: what goes in comes out, placed and stamped; what is not right goes in nowhere."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import numpy as np
import pytest

from rmqspark.errors import StoreError
from rmqspark.protocol.bodies.bulk import MAX_MEASURED_QUEUES, QueueBudget, QueueBudgets, QueueExtents
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.row_properties import RowProperties
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader, BulkSendRequestHeader
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader
from rmqspark.protocol.records.body_crcs import body_crcs
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.integration

HOST = bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F])


@dataclass
class Bulk:
    """A bulk of records for queue 0 of `orders`, and the header that goes with it."""

    records: list[bytes]

    @classmethod
    def of(cls, *bodies: bytes, properties: bytes = b"", **fields) -> Bulk:
        common = {"topic": "orders", "properties": properties, "born_timestamp_ms": 5, **fields}
        return cls([bytes(encode_record(body=body, **common)) for body in bodies])

    def body(self, *, even: bool) -> bytes:
        sizes = b"" if even else struct.pack(f">{len(self.records)}i", *map(len, self.records))
        return sizes + b"".join(self.records)

    def request(self, *, even: bool = False, **fields) -> tuple[BulkSendRequestHeader, bytes]:
        body = self.body(even=even)
        size = len(self.records[0]) if even else 0
        header = {"topic": "orders", "queueId": 0, "count": len(self.records), "recordSize": size}
        return BulkSendRequestHeader(**(header | {"bodyCrc32": crc32(body)} | fields)), body


def read_header(offset: int = 0, end: int = 1 << 40, **fields) -> BulkReadRequestHeader:
    values = {"topic": "orders", "queueId": 0, "queueOffset": offset, "endOffset": end}
    return BulkReadRequestHeader(**(values | {"maxCount": 1000, "maxBytes": 1 << 20} | fields))


def split(response) -> list[bytes]:
    count = int(response.fields["count"])
    body = bytes(response.body)
    sizes = struct.unpack_from(f">{count}i", body)
    at, parts = 4 * count, []
    for size in sizes:
        parts.append(body[at : at + size])
        at += size
    assert at == len(body)
    return parts


@pytest.mark.parametrize("even", [True, False])
def test_a_bulk_is_stored_in_order_and_placed(on_broker, even) -> None:
    """Queue and physical offsets, store time and host are filled in; all else is the sender's."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.send("orders", b"before")
        bulk = Bulk.of(*(b"%04d" % number for number in range(50)), properties=b"TAGS\x01T\x02")
        if not even:
            bulk.records += Bulk.of(b"a longer one").records
        sent = await client.ask(RequestCode.RMQ_BULK_SEND, *bulk.request(even=even))
        assert sent.code == 0, sent.remark
        assert (sent.fields["queueOffset"], sent.fields["count"]) == ("1", str(len(bulk.records)))
        records = []
        while len(records) < len(bulk.records):
            records += bench.records(await client.pull("orders", 1 + len(records)))
        assert [record.queue_offset for record in records] == list(range(1, len(records) + 1))
        assert records[0].physical_offset == int(sent.fields["physicalOffset"])
        assert {record.store_timestamp_ms for record in records} == {int(sent.fields["storeTimestamp"])}
        assert {record.store_host[:4] for record in records} == {bytes([127, 0, 0, 1])}
        assert {record.born_timestamp_ms for record in records} == {5}
        read = await client.ask(RequestCode.RMQ_BULK_READ, read_header(1))
        assert read.fields["nextBeginOffset"] == read.fields["maxOffset"] == str(1 + len(records))
        assert b"".join(split(read)) == b"".join(
            [bytes(bench_record) for bench_record in await raw_records(client, 1, len(records))]
        )

    async def raw_records(client, first: int, count: int) -> list[bytes]:
        parts: list[bytes] = []
        while len(parts) < count:
            answer = await client.ask(RequestCode.RMQ_BULK_READ, read_header(first + len(parts), maxCount=7))
            parts += split(answer)
        return parts

    on_broker(talk)


def column_of(values: Sequence[bytes]) -> Column:
    return Column(np.frombuffer(b"".join(values), np.uint8), np.cumsum([0, *map(len, values)]))


def rows(*bodies: bytes, keys: Sequence[bytes] = (), **fields) -> tuple[BulkSendRequestHeader, bytes]:
    """A bulk for queue 0 of `orders` whose records the broker makes."""
    column, count = column_of(bodies), len(bodies)
    crcs = body_crcs(column.values, column.spans())
    properties = RowProperties.of(count, column_of([b"paid"] * count), column_of(keys)) if keys else None
    bulk = BulkRows(5, HOST, 0, IdRange("A" * 20, 9), crcs, column, properties)
    body = b"".join(part.tobytes() for part in bulk.encode())
    header = {"topic": "orders", "queueId": 0, "count": count, "recordSize": bulk.record_size}
    return BulkSendRequestHeader(**header | {"bodyCrc32": crc32(body)} | fields), body


@pytest.mark.parametrize("keys", [[], [b"k1", b"", b"k3 k4"]], ids=["bodies", "bodies and keys"])
@pytest.mark.parametrize("bodies", [[b"aa", b"bb"], [b"a", b"bbb", b"cc"]])
def test_rows_become_messages(on_broker, bodies, keys) -> None:
    """Bodies, tags and keys are enough: the messages are those of a bulk of their records, with SYNC_FLUSH too."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        records = Bulk(
            [
                bytes(encode_record(topic="orders", body=body, born_timestamp_ms=5, born_host=HOST,
                                    properties=encode_properties(
                                        ({"TAGS": "paid", "KEYS": key.decode()} if keys else {})
                                        | {"UNIQ_KEY": f"{'A' * 20}{number:012X}"}
                                    )))
                for number, (body, key) in enumerate(zip_longest(bodies, keys[: len(bodies)]), 9)
            ]
        )  # fmt: skip
        for request in (rows(*bodies, keys=keys[: len(bodies)]), records.request()):
            sent = await client.ask(RequestCode.RMQ_BULK_SEND, *request)
            assert (sent.code, sent.fields["count"]) == (0, str(len(bodies))), sent.remark
        found = bench.records(await client.pull("orders"))
        assert [record.queue_offset for record in found] == list(range(2 * len(bodies)))
        made, given = found[: len(bodies)], found[len(bodies) :]
        assert [record.body for record in made] == bodies
        where = {"queue_offset": 0, "physical_offset": 0, "store_timestamp_ms": 0}
        assert [msgspec.structs.replace(record, **where) for record in made] == [
            msgspec.structs.replace(record, **where) for record in given
        ]

    on_broker(talk, store={"flush_disk_type": "SYNC_FLUSH"})


@pytest.mark.parametrize(
    ("bulk", "fields", "code"),
    [
        (Bulk.of(b"x"), {"bodyCrc32": 1}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x"), {"count": 0}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x"), {"count": -1}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x"), {"count": 2_000_000_000}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x"), {"recordSize": -5}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x", b"y"), {"recordSize": 93}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x"), {"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        (Bulk.of(b"x"), {"topic": "SELF_TEST_TOPIC"}, ResponseCode.NO_PERMISSION),
        (Bulk.of(b"x"), {"queueId": 4}, ResponseCode.INVALID_PARAMETER),
        (Bulk.of(b"x"), {"queueId": -1}, ResponseCode.INVALID_PARAMETER),
        (Bulk.of(b"x", queue_id=1), {}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x", topic="orderz"), {}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x", sys_flag=4), {}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk.of(b"x", properties=b"DELAY\x013\x02"), {}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        (Bulk.of(b"x", properties=b"TRAN_MSG\x01true\x02"), {}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
        (Bulk([b"no record at all" * 8]), {}, ResponseCode.MESSAGE_ILLEGAL),
        (Bulk([Bulk.of(b"x").records[0] + b"?"]), {}, ResponseCode.MESSAGE_ILLEGAL),
    ],
)
def test_a_bulk_that_is_not_right_is_refused_as_a_whole(on_broker, bulk, fields, code) -> None:
    """Wrong checksum, counts, sizes, queue, topic or flags: an error that says so, and nothing is stored."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        answer = await client.ask(RequestCode.RMQ_BULK_SEND, *bulk.request(**fields))
        assert answer.code == code, answer.remark
        held = await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader("orders", 0))
        assert held.fields["offset"] == "0"
        assert (await client.ask(RequestCode.RMQ_BULK_SEND, *Bulk.of(b"fine").request())).code == 0

    on_broker(talk)


def test_bulks_and_single_sends_keep_the_order_they_were_sent_in(on_broker) -> None:
    """Though single sends are gathered and bulks are not."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        sends = []
        for number in range(10):
            sends.append(client.send("orders", b"s%d" % number))
            sends.append(client.ask(RequestCode.RMQ_BULK_SEND, *Bulk.of(b"b%d" % number).request()))
        assert {answer.code for answer in await asyncio.gather(*sends)} == {0}
        records = bench.records(await client.pull("orders"))
        assert [record.body for record in records] == [
            part for number in range(10) for part in (b"s%d" % number, b"b%d" % number)
        ]

    on_broker(talk)


@pytest.mark.parametrize(
    ("header", "offsets", "next_offset"),
    [
        (read_header(), range(20), 20),
        (read_header(5, 9), range(5, 9), 9),
        (read_header(5, maxCount=3), range(5, 8), 8),
        (read_header(5, maxCount=0), range(5, 6), 6),
        (read_header(5, maxBytes=1), range(5, 6), 6),
        (read_header(20), range(0), 20),
        (read_header(5, 5), range(0), 5),
        (read_header(tags="even"), range(0, 20, 2), 20),
        (read_header(tags="nobody"), range(0), 20),
    ],
)
def test_a_bulk_read_brings_a_range_as_far_as_its_limits_allow(on_broker, header, offsets, next_offset) -> None:
    """By offsets, count, bytes and tags; at least one message if there is any; it never waits."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        for number in range(20):
            await client.send("orders", b"%d" % number, {"TAGS": "odd" if number % 2 else "even"})
        answer = await client.ask(RequestCode.RMQ_BULK_READ, header)
        assert answer.code == 0
        parts = split(answer)
        assert [int.from_bytes(part[20:28], "big") for part in parts] == list(offsets)
        assert int(answer.fields["nextBeginOffset"]) == next_offset
        assert (answer.fields["minOffset"], answer.fields["maxOffset"]) == ("0", "20")

    on_broker(talk)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (read_header(-1), ResponseCode.PULL_OFFSET_MOVED),
        (read_header(topic="unknown"), ResponseCode.TOPIC_NOT_EXIST),
        (read_header(topic="writeonly"), ResponseCode.NO_PERMISSION),
        (read_header(queueId=4), ResponseCode.INVALID_PARAMETER),
        (read_header(tags="||"), ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
def test_bulk_reads_that_cannot_be_are_refused(on_broker, header, code) -> None:
    """Below the first message with the header filled, so that the reader knows where to go on."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.create_topic("writeonly", perm=2)
        await client.send("orders")
        answer = await client.ask(RequestCode.RMQ_BULK_READ, header)
        assert answer.code == code
        if code == ResponseCode.PULL_OFFSET_MOVED:
            assert (answer.fields["nextBeginOffset"], answer.fields["maxOffset"]) == ("0", "1")

    on_broker(talk)


def test_budgets_of_bytes_are_measured(on_broker) -> None:
    """Many queues in one request, each answered exactly; a queue that is not there is empty."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        for _ in range(3):
            await client.send("orders")
        read = await client.ask(RequestCode.RMQ_BULK_READ, read_header())
        size = int.from_bytes(read.body[:4], "big")

        async def measured(*budgets: tuple[str, int, int, int, int]) -> list[tuple[int, int, int]]:
            asked = QueueBudgets([QueueBudget(*budget) for budget in budgets]).encode(standard=True)
            answer = QueueExtents.decode((await client.ask(RequestCode.RMQ_MEASURE, None, asked)).body)
            return [(each.nextOffset, each.bytes, each.nextBytes) for each in answer.queues]

        assert await measured(
            ("orders", 0, 0, 3, 2 * size), ("orders", 0, 1, 3, 9 * size), ("nowhere", 1, 4, 9, 9)
        ) == [
            (2, 2 * size, size),
            (3, 2 * size, 0),
            (4, 0, 0),
        ]
        assert await measured(("orders", 0, -5, 1 << 62, -1), ("orders", -1, 0, 3, 9)) == [(0, 0, size), (0, 0, 0)]
        assert await measured() == []
        crowd = QueueBudgets([QueueBudget("orders", 0, 0, 1, 1)] * (MAX_MEASURED_QUEUES + 1)).encode(standard=True)
        refused = await client.ask(RequestCode.RMQ_MEASURE, None, crowd)
        assert (refused.code, "1000 are allowed" in refused.remark) == (ResponseCode.INVALID_PARAMETER, True)

    on_broker(talk)


def test_a_bulk_wakes_pulls_that_wait(on_broker) -> None:
    """By its tags, as single messages do."""

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        pull = asyncio.ensure_future(client.pull("orders", subscription="paid", wait_ms=60_000))
        await client.settle()
        await client.ask(RequestCode.RMQ_BULK_SEND, *Bulk.of(b"a", properties=b"TAGS\x01open\x02").request())
        await client.settle()
        assert not pull.done()
        await client.ask(RequestCode.RMQ_BULK_SEND, *Bulk.of(b"b", properties=b"TAGS\x01paid\x02").request())
        assert [record.body for record in bench.records(await pull)] == [b"b"]

    on_broker(talk)


def test_a_broker_says_what_it_can_do_and_which_store_it_has(on_broker) -> None:
    """The same store says the same id, whatever became of the process."""
    seen = []

    async def talk(bench) -> None:
        client = await bench.connect()
        answer = await client.ask(RequestCode.RMQ_CAPABILITIES)
        seen.append(CapabilitiesBody.decode(answer.body))

    on_broker(talk)
    (body,) = seen
    assert (body.product, body.incarnation) == ("rmqspark", 1)
    assert body.capabilities == {
        "bulkSend": 2,
        "bulkRead": 2,
        "transactions": 1,
        "measure": 1,
        "groups": 1,
        "topicsSend": 1,
        "topicsRead": 1,
        "queueBounds": 1,
        "delays": 1,
        "metrics": 1,
    }
    assert len(body.storeId) == 32
    assert (body.delayLevels, body.maxDelaySec) == (18, 259_200)


def test_a_bulk_answered_under_sync_flush_survives_power_loss(on_broker) -> None:
    """As a single send does: the answer waits for the disk."""
    files = MemoryFileSystem()

    async def before(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        sends = [client.ask(RequestCode.RMQ_BULK_SEND, *Bulk.of(*[b"%d" % n] * 9).request()) for n in range(9)]
        assert {answer.code for answer in await asyncio.gather(*sends)} == {0}
        files.crash()

    async def after(bench) -> None:
        client = await bench.connect()
        read = await client.ask(RequestCode.RMQ_BULK_READ, read_header())
        assert [part[88:89] for part in split(read)] == [b"%d" % n for n in range(9) for _ in range(9)]

    with suppress(StoreError):  # its files are gone: it ends as it can
        on_broker(before, files=files, store={"flush_disk_type": "SYNC_FLUSH"})
    on_broker(after, files=files)
