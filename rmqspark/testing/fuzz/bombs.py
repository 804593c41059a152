"""Small requests that ask a server for much: lengths, counts, nesting, compression and filters that are not what they
claim.

Each bomb is the bytes of one connection. A server answers or closes at once, and needs little more memory for it than
it needs for the bytes themselves.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.protocol.bodies.base import MAX_LOOSE_REQUEST_VALUES, MAX_REQUEST_CONTAINERS, MAX_REQUEST_VALUES
from rmqspark.protocol.bodies.register import MAX_TOPICS, register_crc32
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.headers.bulk import (
    BulkReadRequestHeader,
    BulkSendRequestHeader,
    TopicsReadRequestHeader,
    TopicsSendRequestHeader,
)
from rmqspark.protocol.headers.consume import PullFlag, PullMessageRequestHeader
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
from rmqspark.protocol.records.batch import BatchElement, encode_batch
from rmqspark.protocol.records.record import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

FULL_BODY: Final = 16 * 1024 * 1024 - 4096
"""About the largest body that fits a frame."""

_INT32_EDGES: Final = (-(2**31), -1, 0, 3, 2**24, 2**31 - 1)
_TOPIC_LINE: Final = b"%d 1 1 6 SINGLE_TAG"


class Bomb(NamedTuple):
    """What one connection sends, to which server."""

    name: str
    to_broker: bool
    wire: bytes


def bombs(topic: str) -> Iterator[Bomb]:
    """All of them, made one at a time: some are as large as a frame may be. `topic` exists on the broker."""
    for to_broker in (True, False):
        yield from _lengths(to_broker=to_broker)
        yield from _headers(to_broker=to_broker)
    yield from _counts(topic)
    yield from _filters(topic)
    yield from _json_for_brokers()
    yield from _json_for_name_servers()
    yield from _inflating()
    yield from _as_much_as_allowed()


def _lengths(*, to_broker: bool) -> Iterator[Bomb]:
    for length in _INT32_EDGES:
        yield Bomb(f"frame of {length}", to_broker, struct.pack(">i", length) + bytes(64))
    for header in (1, 0x7FFFFF, 0xFFFFFF):
        for kind in (0, 1, 2, 255):
            wire = struct.pack(">iI", 64, kind << 24 | header) + bytes(60)
            yield Bomb(f"header of {header}, type {kind}", to_broker, wire)
    fixed = struct.pack(">hbhii", 10, 0, 479, 1, 0)
    for remark, fields in ((2**31 - 1, 0), (-1, 0), (0, 2**31 - 1), (0, -1)):
        head = fixed + struct.pack(">ii", remark, fields)
        wire = struct.pack(">iI", 4 + len(head), 1 << 24 | len(head)) + head
        yield Bomb(f"remark of {remark}, fields of {fields}", to_broker, wire)


def _headers(*, to_broker: bool) -> Iterator[Bomb]:
    for name, head in (
        ("nested objects", b'{"code":10,"extFields":' + b'{"a":' * 12_000),
        ("nested arrays", b'{"code":10,"extFields":' + b"[" * 60_000),
        ("nested key objects", b"{" * 60_000),
        ("60,000 members", b"{" + b"'a':0," * 9_000 + b"}"),
        ("60,000 elements", b"{'code':[" + b"0," * 30_000 + b"]}"),
        ("a long number", b'{"code":' + b"9" * 60_000 + b"}"),
        ("a long exponent", b'{"code":1e' + b"9" * 60_000 + b"}"),
        ("many backslashes", b'{"code":"' + b"\\" * 60_000 + b"}"),
        ("many quotes", b"{" + b"'" * 60_000),
        ("1,000 fields", json.dumps({"code": 10, "extFields": {f"k{at}": "" for at in range(1_000)}}).encode()),
    ):
        yield Bomb(f"header: {name}", to_broker, struct.pack(">iI", 4 + len(head), len(head)) + head)


def _counts(topic: str) -> Iterator[Bomb]:
    def bulk(name: str, body: bytes, count: int, record_size: int) -> Bomb:
        header = BulkSendRequestHeader(topic, 0, count, record_size, zlib.crc32(body))
        return Bomb(f"bulk: {name}", True, _request(RequestCode.RMQ_BULK_SEND, header, body))

    for count in (-1, 0, 2**31 - 1):
        for record_size in (-1, 0, 1, 91, 2**31 - 1):
            yield bulk(f"{count} records of {record_size}", bytes(200), count, record_size)
    for queues in (-1, 0, 1, 22, 2**31 - 1):
        for count in (-1, 0, 1, 2**31 - 1):
            body = struct.pack(">iiB1s", count, 0, 1, b"t") * 20
            topics = TopicsSendRequestHeader(queues, count, zlib.crc32(body))
            request = _request(RequestCode.RMQ_TOPICS_SEND, topics, body)
            yield Bomb(f"rows: {count} for each of {queues} queues", True, request)
    body = struct.pack(">iiB1s", 1, 0, 1, b"t") * 1_000_000 + bytes(5_000_052)
    topics = TopicsSendRequestHeader(1_000_000, 1_000_000, zlib.crc32(body))
    yield Bomb("rows: one for each of a million queues", True, _request(RequestCode.RMQ_TOPICS_SEND, topics, body))
    for ranges in (-1, 0, 1, 1_000, 2**31 - 1):
        body = struct.pack(">qqiB", 0, 2**63 - 1, 0, len(topic)) + topic.encode()
        of_topics = TopicsReadRequestHeader(ranges, 2**31 - 1, 2**31 - 1)
        yield Bomb(f"read of {ranges} ranges", True, _request(RequestCode.RMQ_TOPICS_READ, of_topics, body * 1_000))
    yield bulk("sizes that wrap around", struct.pack(">4i", 2**31 - 1, 2**31 - 1, -(2**31), 2) + bytes(400), 4, 0)
    smallest = bytes(encode_record(topic=topic, body=b"x"))
    count = FULL_BODY // len(smallest)
    yield bulk("the most records", smallest * count, count, len(smallest))
    keys = bytes(encode_record(topic=topic, body=b"x", properties=b"KEYS\x01" + b"k " * 16_000 + b"\x02"))
    count = FULL_BODY // len(keys)
    yield bulk("16,000 keys in each record", keys * count, count, len(keys))
    pairs = bytes(encode_record(topic=topic, body=b"x", properties=b"\x01\x02" * 16_000))
    count = FULL_BODY // len(pairs)
    yield bulk("16,000 empty properties in each record", pairs * count, count, len(pairs))

    batch = encode_batch([BatchElement(b"")] * 65_536)
    yield Bomb("batch: the most messages", True, _request(RequestCode.SEND_BATCH_MESSAGE, _send(topic), batch))
    batch = encode_batch([BatchElement(b"")] * 150_000)
    yield Bomb("batch: too many messages", True, _request(RequestCode.SEND_BATCH_MESSAGE, _send(topic), batch))
    batch = encode_batch([BatchElement(b"x", b"KEYS\x01" + b"k " * 16_000 + b"\x02")] * 120)
    yield Bomb("batch: many keys", True, _request(RequestCode.SEND_BATCH_MESSAGE, _send(topic), batch))
    many = 2**31 - 1
    read = BulkReadRequestHeader(topic, 0, 0, 2**63 - 1, many, many)
    yield Bomb("bulk read of all there is", True, _request(RequestCode.RMQ_BULK_READ, read))
    stats = {"consumerGroup": "bomb", "topicList": f"{topic};" * 9_000}
    yield Bomb("one topic 9,000 times", True, b"".join(encode_request(RequestCode.GET_CONSUME_STATS, 1, extra=stats)))


def _filters(topic: str) -> Iterator[Bomb]:
    """Expressions that are deep, long or slow, and messages that are slow to compare."""
    for name, expression in (
        ("brackets", "(" * 8_000 + "a" + ")" * 8_000),
        ("brackets not closed", "(" * 16_000),
        ("negations", "NOT " * 4_000 + "a"),
        ("signs", "-" * 16_000),
        ("equal signs", "a" + " = a" * 4_000),
        ("a list", f"a IN ({','.join(['0'] * 4_000)})".replace("0", "'0'")),
        ("conditions", " OR ".join(["a = 1"] * 1_700)),
        ("60,000 characters", "a = 1 OR " * 6_000 + "a = 1"),
        ("an open comment", "/*" + "*a" * 8_000),
        ("an open text", "'" * 15_999),
    ):
        yield Bomb(f"filter: {name}", True, _pull(topic, expression, "SQL92"))
    yield Bomb("filter: 15,000 tags", True, _pull(topic, "||".join(["a"] * 15_000), "TAG"))
    for name, price in (
        ("digits", "1" * 32_000 + "x"),
        ("hexadecimal digits", "0x" + "1" * 32_000),
        ("digits and dots", "1." * 16_000),
        ("an exponent", "1e" + "9" * 32_000),
    ):
        send = _send(topic, queue_id=3, properties=f"price\x01{price}\x02", is_batch=False)
        yield Bomb(f"filter: {name} in a property", True, _request(RequestCode.SEND_MESSAGE_V2, send, b"x"))
        yield Bomb(f"filter: {name} compared", True, _pull(topic, "price > 1.5", "SQL92"))


def _pull(topic: str, expression: str, kind: str) -> bytes:
    """Of the queue into which these messages, and no others, go."""
    flags = int(PullFlag.SUBSCRIPTION)
    header = PullMessageRequestHeader("bomb", topic, 3, 0, 32, flags, 0, 0, 0, expression, kind)
    return _request(RequestCode.PULL_MESSAGE, header)


def _json_for_brokers() -> Iterator[Bomb]:
    for code, member, element in (
        (RequestCode.HEART_BEAT, "producerDataSet", b"{}"),
        (RequestCode.HEART_BEAT, "consumerDataSet", b"{}"),
        (RequestCode.HEART_BEAT, "consumerDataSet", b"{'groupName':'g'}"),
        (RequestCode.LOCK_BATCH_MQ, "mqSet", b"{}"),
        (RequestCode.UNLOCK_BATCH_MQ, "mqSet", b"{}"),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList", b"{}"),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "groupConfigList", b"{}"),
        (RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, "subscriptionDataSet", b"{}"),
    ):
        yield _repeated(code, member, element, to_broker=True)
    yield _json(RequestCode.HEART_BEAT, b'{"x":' + b"[" * 10**5, "deep arrays", to_broker=True)
    yield _json(RequestCode.HEART_BEAT, b"{'x':[" + b"0," * (FULL_BODY // 2 - 9) + b"]}", "loose zeros", to_broker=True)
    yield _json(RequestCode.HEART_BEAT, b'{"clientID":"' + b"x" * FULL_BODY + b'"}', "a long name", to_broker=True)
    yield _json(
        RequestCode.HEART_BEAT, b"{'clientID':'" + b"\\u0041" * (FULL_BODY // 6) + b"'}", "escapes", to_broker=True
    )
    group = b'{"groupName":"%RETRY","retryQueueNums":2147483647}'.replace(b"%RETRY", b"bomb-g")
    yield _json(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, group, "2,147,483,647 retry queues", to_broker=True)


def _as_much_as_allowed() -> Iterator[Bomb]:
    """Just within what is counted: now it has to be paid for."""
    groups = b",".join([b"{}"] * (MAX_REQUEST_CONTAINERS - 10))
    yield _json(RequestCode.HEART_BEAT, b'{"clientID":"c","consumerDataSet":[%s]}' % groups, "many", to_broker=True)
    topics = b",".join([b"{}"] * (MAX_REQUEST_CONTAINERS - 10))
    yield _json(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, b'{"topicConfigList":[%s]}' % topics, "many", to_broker=True)
    named = b",".join(b'"%d":{}' % number for number in range(MAX_REQUEST_CONTAINERS - 10))
    yield _registration("many", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{' + named + b"}}}")
    zeros = b"0," * (MAX_LOOSE_REQUEST_VALUES - 10)
    yield _json(RequestCode.HEART_BEAT, b"{'x':[" + zeros + b"]}", "many loose values", to_broker=True)
    commas = b"," * (MAX_REQUEST_VALUES - 10)
    yield _json(RequestCode.HEART_BEAT, b"{'x':[" + commas + b"]}", "many loose commas", to_broker=True)
    lines = [_TOPIC_LINE % number for number in range(MAX_TOPICS)]
    pieces = [struct.pack(">i", 2) + b"{}", struct.pack(">i", len(lines))]
    pieces += [struct.pack(">i", len(line)) + line for line in [*lines, b"[]"]]
    yield _registration("many inflated topics", zlib.compress(b"".join(pieces)), compressed=True)


def _json_for_name_servers() -> Iterator[Bomb]:
    yield _repeated(RequestCode.REGISTER_TOPIC_IN_NAMESRV, "queueDatas", b"{}", to_broker=False)
    yield _registration("many filter servers", b'{"filterServerList":[' + b'"a",' * (FULL_BODY // 4 - 50) + b'"a"]}')
    topics = b",".join(b'"%07d":{}' % number for number in range(FULL_BODY // 13))
    yield _registration("many topics", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{' + topics + b"}}}")


def _inflating() -> Iterator[Bomb]:
    yield _registration("zeros", zlib.compress(bytes(1 << 30), 9), compressed=True)
    version = b'{"counter":1}'
    lines = [_TOPIC_LINE % number for number in range(600_000)]
    pieces = [struct.pack(">i", len(version)) + version, struct.pack(">i", len(lines))]
    pieces += [struct.pack(">i", len(line)) + line for line in lines]
    yield _registration("inflated topics", zlib.compress(b"".join(pieces)), compressed=True)
    attributes = b"a 1 1 6 SINGLE_TAG {'x':[" + b"0," * 7_000_000 + b"]}"
    pieces = [struct.pack(">i", len(version)) + version, struct.pack(">i", 1)]
    pieces += [struct.pack(">i", len(attributes)) + attributes]
    yield _registration("inflated attributes", zlib.compress(b"".join(pieces)), compressed=True)


def _repeated(code: RequestCode, member: str, element: bytes, *, to_broker: bool) -> Bomb:
    count = FULL_BODY // (len(element) + 1) - 10
    body = b'{"%s":[%s]}' % (member.encode(), b",".join([element] * count))
    return _json(code, body, f"{count:,} {member} {element.decode()}", to_broker=to_broker)


def _json(code: RequestCode, body: bytes, name: str, *, to_broker: bool) -> Bomb:
    fields = {} if to_broker else {"topic": "bomb"}
    return Bomb(f"{code.name}: {name}", to_broker, b"".join(encode_request(code, 1, body=body, extra=fields)))


def _registration(name: str, body: bytes, *, compressed: bool = False) -> Bomb:
    fields = {
        **{
            "brokerName": "bomb",
            "brokerAddr": "127.0.0.1:1",
            "clusterName": "bomb",
            "haServerAddr": "",
            "brokerId": "0",
        },
        **{"compressed": str(compressed).lower(), "bodyCrc32": str(register_crc32(body))},
    }
    wire = b"".join(encode_request(RequestCode.REGISTER_BROKER, 1, body=body, extra=fields))
    return Bomb(f"registration: {name}", False, wire)


def _send(
    topic: str, *, queue_id: int = 0, properties: str | None = None, is_batch: bool = True
) -> SendMessageRequestHeaderV2:
    return SendMessageRequestHeaderV2("bomb", topic, "TBW102", 4, queue_id, 0, 0, 0, properties, m=is_batch)


def _request(code: RequestCode, header: msgspec.Struct, body: bytes = b"") -> bytes:
    return b"".join(encode_request(code, 1, header, body))
