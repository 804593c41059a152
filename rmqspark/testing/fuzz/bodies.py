"""Bodies of requests of every kind, in the shape they should have; what is in them may be anything."""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

from rmqspark.protocol.bodies import queries as bodies_queries
from rmqspark.protocol.bodies import txn as bodies_txn
from rmqspark.protocol.bodies.admin import (
    ResetOffsetBody,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    TopicConfigList,
)
from rmqspark.protocol.bodies.bulk import QueueBudgets, QueuesOfTopics
from rmqspark.protocol.bodies.client import (
    CheckClientConfigBody,
    GroupLeasesBody,
    HeartbeatData,
    LeasedQueues,
    LockBatchBody,
    MessageRequestModeBody,
    QueryAssignmentBody,
)
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicRouteData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.record import encode_record
from rmqspark.testing.fuzz import hostile
from rmqspark.testing.fuzz.shapes import Names, members_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from rmqspark.protocol.bodies.base import Body

BODIES: Final[Mapping[RequestCode, type[Body]]] = {
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientConfigBody,
    RequestCode.LOCK_BATCH_MQ: LockBatchBody,
    RequestCode.UNLOCK_BATCH_MQ: LockBatchBody,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: TopicConfigList,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: SubscriptionGroupList,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.REGISTER_BROKER: RegisterBrokerBody,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: TopicRouteData,
    RequestCode.QUERY_ASSIGNMENT: QueryAssignmentBody,
    RequestCode.SET_MESSAGE_REQUEST_MODE: MessageRequestModeBody,
    RequestCode.RMQ_MEASURE: QueueBudgets,
    RequestCode.RMQ_QUEUE_BOUNDS: QueuesOfTopics,
    RequestCode.RMQ_GROUP_RESETS: ResetOffsetBody,
    RequestCode.RMQ_GROUP_LEASES: GroupLeasesBody,
    RequestCode.RMQ_TXN_DECIDE: bodies_txn.TxnDecision,
    RequestCode.RMQ_TXN_VOTE: bodies_txn.TxnVote,
    RequestCode.RMQ_TXN_COMPLETE: bodies_txn.TxnComplete,
    RequestCode.RMQ_TXN_REPORT_INPUT: bodies_txn.InputRanges,
    RequestCode.RMQ_TXN_GROUP_OFFSETS: LeasedQueues,
    RequestCode.RMQ_QUERY_REPORT: bodies_queries.QueryReport,
}
"""Requests whose body is JSON."""

_PROPERTIES: Final = (
    *(b"", b"KEYS\x01k\x02", b"TAGS\x01paid\x02KEYS\x01a b c\x02UNIQ_KEY\x01u\x02", b"WAIT\x01false\x02"),
    *(
        b"TAGS\x01",
        b"\x01\x02\x01\x02",
        b"DELAY\x013\x02",
        b"DELAY\x01-9\x02",
        b"TIMER_DELIVER_MS\x015\x02",
        b"\xff\xfe\x01\x80\x02",
    ),
    *(b"TRAN_MSG\x01true\x02", b"KEYS\x01" + b"k " * 2000 + b"\x02", b"a" * 5000, b"a\x01b" * 500, b"CLUSTER\x01x\x02"),
)


def body_of(rng: Random, code: int, fields: dict[str, str], names: Names) -> bytes:
    """The body of a request with these fields, some of which are made to fit it."""
    make = _MAKERS.get(code)
    if make is not None:
        return make(rng, fields, names)
    kind = BODIES.get(code)  # type: ignore[call-overload]
    if kind is not None:
        return written(rng, members_of(rng, kind, names))
    return b"" if rng.random() < 0.9 else hostile.noise(rng)


def written(rng: Random, value: Any) -> bytes:
    """JSON, or one of the things fastjson takes for it."""
    data = json.dumps(value, ensure_ascii=rng.random() < 0.7).encode("utf-8", "surrogatepass")
    draw = rng.random()
    if draw < 0.9:
        return data
    if draw < 0.93:
        return data.replace(b'"', b"'")
    if draw < 0.95:
        return data.replace(b",", b",,")
    if draw < 0.97:
        return b"\xef\xbb\xbf" + data
    return data + hostile.noise(rng)


def encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _message(rng: Random, fields: dict[str, str], names: Names) -> bytes:
    if fields.get("m") == "true" or fields.get("batch") == "true":
        return _batch(rng, fields, names)
    if rng.random() < 0.7:
        name = "i" if "b" in fields or "a" in fields else "properties"
        fields[name] = rng.choice(_PROPERTIES).decode("utf-8", "replace")
    return hostile.noise(rng, 120)


def _batch(rng: Random, fields: dict[str, str], names: Names) -> bytes:
    del fields, names
    count = rng.choice((0, 1, 2, 3, 20))
    elements = [BatchElement(hostile.noise(rng), rng.choice(_PROPERTIES), rng.randrange(9)) for _ in range(count)]
    return encode_batch(elements)


def bulk_records(rng: Random, topic: str, queue_id: int, *, equal: bool) -> list[bytes]:
    """Records as a bulk send carries them, some of them not allowed in one."""
    count = rng.choice((1, 1, 2, 3, 17))
    body, properties = hostile.noise(rng), rng.choice(_PROPERTIES)
    records = []
    for _ in range(count):
        if not equal:
            body, properties = hostile.noise(rng), rng.choice(_PROPERTIES)
        odd = rng.random() < 0.05
        records.append(
            bytes(
                encode_record(
                    topic=topic if not odd else encodable(hostile.text(rng))[:9000],
                    body=body,
                    properties=properties,
                    queue_id=queue_id,
                    sys_flag=rng.choice((0, 0x301, 0x4, 0x8, 0x40, 0x80)) if odd else 0,
                    born_host=bytes(20) if odd and rng.random() < 0.5 else bytes(8),
                    reconsume_times=rng.randrange(3),
                )
            )
        )
    return records


def _bulk(rng: Random, fields: dict[str, str], names: Names) -> bytes:
    topic = fields.setdefault("topic", names.topics[0])
    if rng.random() < 0.3:
        return _bulk_of_rows(rng, fields)
    equal = rng.random() < 0.5
    queue_id = rng.randrange(4)
    records = bulk_records(rng, encodable(topic)[:3000], queue_id, equal=equal)
    if rng.random() < 0.2:
        records[0] = hostile.mutated(rng, records[0])
    body = b"".join(records)
    if not equal:
        body = b"".join(struct.pack(">i", len(record)) for record in records) + body
    return _described(rng, fields, body, queue_id, len(records), len(records[0]) if equal else 0)


def _bulk_of_rows(rng: Random, fields: dict[str, str]) -> bytes:
    with_properties = rng.random() < 0.5
    rows, count = _rows(rng, with_properties=with_properties)
    return _described(rng, fields, rows, rng.randrange(4), count, -2 if with_properties else -1)


def _topic_rows(rng: Random, fields: dict[str, str], names: Names) -> bytes:
    rows, count = _rows(rng)
    queues = [
        (names.topics[0], rng.choice((1, count, -1, 2**31 - 1)), rng.randrange(4)) for _ in range(rng.randrange(3))
    ]
    queues.append((rng.choice(names.topics), count - sum(rows for _, rows, _ in queues), rng.choice((0, 1, 5, -1))))
    encoded = [(encodable(topic).encode()[:255], rows, queue_id) for topic, rows, queue_id in queues]
    ahead = b"".join(
        struct.pack(">iiB", max(-(2**31), rows), queue_id, len(topic)) + topic for topic, rows, queue_id in encoded
    )
    if rng.random() < 0.97:
        fields["queues"] = str(len(queues))
    return _described(rng, fields, ahead + rows, 0, count, -1)


def _topic_ranges(rng: Random, fields: dict[str, str], names: Names) -> bytes:
    edges = (0, 1, 7, -1, 2**63 - 1, -(2**63))
    ranges = [
        (rng.choice(edges), rng.choice(edges), rng.choice((0, 1, 5, -1)), encodable(rng.choice(names.topics)).encode())
        for _ in range(rng.choice((1, 1, 2, 20)))
    ]
    encoded = [
        struct.pack(">qqiB", start, end, queue_id, len(topic[:255])) + topic[:255]
        for start, end, queue_id, topic in ranges
    ]
    if rng.random() < 0.9:
        fields.update(ranges=str(len(ranges)), maxCount=str(rng.choice((1, 100, -1))), maxBytes=str(1 << 20))
    body = b"".join(encoded)
    return hostile.mutated(rng, body) if rng.random() < 0.1 else body


def _rows(rng: Random, *, with_properties: bool = False) -> tuple[bytes, int]:
    """What a bulk of rows has in its body, and how many they are."""
    bodies_of_rows = [hostile.noise(rng) for _ in range(rng.choice((1, 2, 17)))]
    equal = len({*map(len, bodies_of_rows)}) == 1
    shared = struct.pack(
        ">q8si20sqi",
        rng.choice((0, 5, -1)),
        bytes(8),
        rng.choice((0, 0, 0, 0x301, 0x4)),
        rng.choice((b"A" * 20, b"0123456789ABCDEF0123", bytes(20))),
        rng.choice((0, 1 << 47, (1 << 48) - 1, -1)),
        len(bodies_of_rows[0]) if equal else 0,
    )
    count = len(bodies_of_rows)
    lengths = b"" if equal else struct.pack(f">{count}i", *map(len, bodies_of_rows))
    crcs = struct.pack(f">{count}I", *(zlib.crc32(body) & 0x7FFFFFFF for body in bodies_of_rows))
    properties = _properties_of_rows(rng, count) if with_properties else b""
    return shared + lengths + crcs + properties + b"".join(bodies_of_rows), count


def _properties_of_rows(rng: Random, count: int) -> bytes:
    """Tags, keys and sharding keys: equally long, of any lengths, or none."""
    columns = [[hostile.noise(rng)[: rng.choice((0, 3, 300))] for _ in range(count)] for _ in range(3)]
    differing = [len({*map(len, column)}) > 1 for column in columns]
    widths = [-1 if differs else len(column[0]) for column, differs in zip(columns, differing, strict=True)]
    lengths = [len(value) for column, differs in zip(columns, differing, strict=True) if differs for value in column]
    values = b"".join(value for column in columns for value in column)
    if rng.random() < 0.7:  # else most have a separator somewhere
        values = values.replace(b"\x01", b"1").replace(b"\x02", b"2")
    return struct.pack(f">3i{len(lengths)}H", *widths, *lengths) + values


def _described(rng: Random, fields: dict[str, str], body: bytes, queue_id: int, count: int, record_size: int) -> bytes:
    """The body, perhaps broken, and mostly the right header for it."""
    if rng.random() < 0.1:
        body = hostile.mutated(rng, body)
    right = {
        "queueId": str(queue_id),
        "count": str(count),
        "recordSize": str(record_size),
        "bodyCrc32": str(zlib.crc32(body)),
    }
    fields.update({name: value for name, value in right.items() if rng.random() < 0.97})
    return body


def _registration(rng: Random, fields: dict[str, str], names: Names) -> bytes:
    table = members_of(rng, RegisterBrokerBody, names)
    compressed = rng.random() < 0.4
    body = _compressed(rng, table) if compressed else written(rng, table)
    if rng.random() < 0.9:
        fields["compressed"] = "true" if compressed else "false"
        fields["bodyCrc32"] = str(zlib.crc32(body) & 0x7FFFFFFF) if rng.random() < 0.8 else "0"
    return body


def _compressed(rng: Random, table: dict[str, Any]) -> bytes:
    wrapper = table.get("topicConfigSerializeWrapper") or {}
    topics = wrapper.get("topicConfigTable") if isinstance(wrapper, dict) else None
    lines = [f"{encodable(str(name))} 4 4 6 SINGLE_TAG" for name in topics] if isinstance(topics, dict) else []
    if lines and rng.random() < 0.3:
        lines[0] = rng.choice((lines[0] + ' {"+a":"b"}', lines[0] + " [1,2", "x", "", "a -1 99999999999 6 T {}"))
    pieces = [b'{"counter":1,"stateVersion":0,"timestamp":5}', *(line.encode() for line in lines), b'["h:1"]']
    encoded = [struct.pack(">i", len(piece)) + piece for piece in pieces]
    encoded.insert(1, struct.pack(">i", len(lines) if rng.random() < 0.9 else hostile.integer(rng) & 0x7FFFFFFF))
    inflated = b"".join(encoded)
    return zlib.compress(hostile.mutated(rng, inflated) if rng.random() < 0.3 else inflated)


_MAKERS: Final[Mapping[int, Callable[[Random, dict[str, str], Names], bytes]]] = {
    RequestCode.SEND_MESSAGE: _message,
    RequestCode.SEND_MESSAGE_V2: _message,
    RequestCode.SEND_REPLY_MESSAGE: _message,
    RequestCode.SEND_REPLY_MESSAGE_V2: _message,
    RequestCode.SEND_BATCH_MESSAGE: _batch,
    RequestCode.RMQ_BULK_SEND: _bulk,
    RequestCode.RMQ_TOPICS_SEND: _topic_rows,
    RequestCode.RMQ_TOPICS_READ: _topic_ranges,
    RequestCode.RMQ_TXN_HALF: _bulk,
    RequestCode.REGISTER_BROKER: _registration,
}
