"""The record: how a message lies in the commit log, in pull replies, in replication and in bulk sends.

All integers big-endian (spec: storage, section 2; RocketMQ's MessageExtEncoder and MessageDecoder):

    size         4      of the whole record, this field included
    magic        4      V1 or V2: how wide the topic's length is
    body crc     4      CRC-32 of the body as stored, without its sign bit
    queue id     4
    flag         4      the user's
    queue offset 8      place in the consume queue
    physical offset 8   place of this record in the log
    sys flag     4      SysFlag
    born         8      milliseconds
    born host    8 | 20 address and 32-bit port, 20 if SysFlag.BORN_HOST_V6
    stored       8      milliseconds, set by the broker that appends
    store host   8 | 20 20 if SysFlag.STORE_HOST_V6
    reconsumed   4      times
    prepared     8      physical offset of the half message, for committed ones
    body         4 + n
    topic        1 + n  in V1, 2 + n in V2
    properties   2 + n  see properties.py

Everything up to the length of the body is the *head*: 88 bytes, 12 more for each IPv6 host. Lengths are signed in
RocketMQ; a negative one is an error here. Queue offset, physical offset, store timestamp and store host are known only
when the record gets its place: `patch_record` writes them into a finished record.

This file handles one record at a time; `record_batch.py` and `record_builder.py` handle buffers full of them.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from zlib_ng.zlib_ng import crc32

from rmqspark.errors import InvalidMessage, RecordError
from rmqspark.protocol.records.message_id import ZERO_HOST
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, decode_properties

if TYPE_CHECKING:
    Buffer = bytes | bytearray | memoryview

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194

SIZE_AT: Final = 0
MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
# With IPv4 hosts; each IPv6 host moves what lies behind it by WIDER_HOST.
STORE_TIMESTAMP_AT: Final = 56
STORE_HOST_AT: Final = 64
RECONSUME_TIMES_AT: Final = 72
PREPARED_OFFSET_AT: Final = 76
BODY_LENGTH_AT: Final = 84
HEAD_BYTES: Final = 88
WIDER_HOST: Final = 12

MIN_RECORD_BYTES: Final = HEAD_BYTES + 1 + 2  # IPv4, V1, nothing in it
BLANK_BYTES: Final = 8
MAX_V1_TOPIC_BYTES: Final = 127
MAX_TOPIC_BYTES: Final = 32767
CRC_MASK: Final = 0x7FFFFFFF


class SysFlag:
    """Bits of a record's sys flag (RocketMQ's MessageSysFlag)."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    PREPARED = 0x4
    COMMITTED = 0x8
    ROLLED_BACK = 0xC
    TRANSACTION_MASK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    HOSTS_MASK = 0x30
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80
    COMPRESSION_LZ4 = 0x100
    COMPRESSION_ZSTD = 0x200
    COMPRESSION_ZLIB = 0x300
    COMPRESSION_MASK = 0x700


_HEADS: Final = tuple(
    Struct(f">iIIiiqqiq{born}sq{store}siqi") for store in (8, 20) for born in (8, 20)
)  # by sys flag bits 0x30 >> 4
HEAD: Final = _HEADS[0]
"""The head of a record with IPv4 hosts."""
SIZE_MAGIC: Final = Struct(">iI")
SIZE_MAGIC_PLACE: Final = Struct(f">iI{PHYSICAL_OFFSET_AT - 8}xq")
"""Of a record: its size and magic, and where in the log it says it is."""
_IPV4_HOST_BYTES: Final = 8
_HOSTS_MASK: Final = SysFlag.HOSTS_MASK
_WITHOUT_HOSTS: Final = ~SysFlag.HOSTS_MASK
_LOW_SYS_FLAG_AT: Final = SYS_FLAG_AT + 3
_LOW_MAGIC_AT: Final = MAGIC_AT + 3
_LOW_MAGIC_V1: Final = MAGIC_V1 & 0xFF
_INT32: Final = Struct(">i")
_PLACE: Final = Struct(">qq")
_STORED: Final = Struct(">q8s")
_STORED_V6: Final = Struct(">q20s")
_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One record, every field as stored; hosts are host fields (`message_id.unpack_host`), properties encoded."""

    topic: str
    body: bytes
    properties: bytes = b""
    queue_id: int = 0
    flag: int = 0
    sys_flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    born_timestamp_ms: int = 0
    born_host: bytes = ZERO_HOST
    store_timestamp_ms: int = 0
    store_host: bytes = ZERO_HOST
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    size: int = 0

    def property_map(self) -> dict[str, str]:
        """The properties as RocketMQ would read them."""
        return decode_properties(self.properties)


def body_crc(body: Buffer) -> int:
    """The checksum a record stores for its body: CRC-32 without the sign bit."""
    return crc32(body) & CRC_MASK


def encode_record(
    *,
    topic: str,
    body: Buffer,
    properties: bytes = b"",
    queue_id: int = 0,
    flag: int = 0,
    sys_flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    born_timestamp_ms: int = 0,
    born_host: bytes = ZERO_HOST,
    store_timestamp_ms: int = 0,
    store_host: bytes = ZERO_HOST,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytearray:
    """The record's bytes; checksum, version and the host bits of `sys_flag` follow from the other arguments.

    Raises InvalidMessage where topic or properties are too long for their length fields. Names and sizes that a broker
    accepts are `names.py`'s business.
    """
    magic, named = topic_field(topic)
    if len(properties) > MAX_PROPERTIES_BYTES:
        raise InvalidMessage(
            f"The properties take {len(properties)} bytes; a record has room for {MAX_PROPERTIES_BYTES}."
        )
    hosts = (len(born_host) > 8) + 2 * (len(store_host) > 8)
    head = _HEADS[hosts]
    sys_flag = sys_flag & ~_HOSTS_MASK | hosts << 4
    body_length = len(body)
    fixed = head.pack(
        head.size + body_length + len(named) + 2 + len(properties),
        magic,
        crc32(body) & CRC_MASK,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp_ms,
        born_host,
        store_timestamp_ms,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body_length,
    )
    return bytearray().join((fixed, body, named, _INT16.pack(len(properties)), properties))


def encode_unplaced(
    topic: str,
    body: Buffer,
    properties: bytes,
    queue_id: int,
    flag: int,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    reconsume_times: int,
) -> bytearray:
    """What `encode_record` makes of these fields, for messages that clients send one by one: at half its cost, which
    is that of naming and defaulting what is not known yet.

    Raises InvalidMessage as it does.
    """
    body_length, properties_length = len(body), len(properties)
    if len(born_host) > _IPV4_HOST_BYTES or properties_length > MAX_PROPERTIES_BYTES:
        return encode_record(
            topic=topic,
            body=body,
            properties=properties,
            queue_id=queue_id,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
            reconsume_times=reconsume_times,
        )
    magic, named = topic_field(topic)
    fixed = HEAD.pack(
        HEAD_BYTES + body_length + len(named) + 2 + properties_length,
        magic,
        crc32(body) & CRC_MASK,
        queue_id,
        flag,
        0,
        0,
        sys_flag & _WITHOUT_HOSTS,
        born_timestamp_ms,
        born_host,
        0,
        ZERO_HOST,
        reconsume_times,
        0,
        body_length,
    )
    return bytearray().join((fixed, body, named, _INT16.pack(properties_length), properties))


@lru_cache(maxsize=4096)
def topic_field(topic: str) -> tuple[int, bytes]:
    """The magic of records of this topic, and the topic with its length in front."""
    encoded = topic.encode()
    if len(encoded) <= MAX_V1_TOPIC_BYTES:
        return MAGIC_V1, _INT8.pack(len(encoded)) + encoded
    if len(encoded) <= MAX_TOPIC_BYTES:
        return MAGIC_V2, _INT16.pack(len(encoded)) + encoded
    raise InvalidMessage(f"The topic takes {len(encoded)} bytes; a record has room for {MAX_TOPIC_BYTES}.")


class _Parts(NamedTuple):
    """Where the variable parts of one record lie; `hosts` is which of `_HEADS` it has."""

    size: int
    hosts: int
    body_at: int
    body_end: int
    topic_at: int
    topic_end: int
    properties_at: int


def _measure(buffer: Buffer, offset: int) -> _Parts:
    """Finds the parts of the record at `offset`. `room` is what is left for them; each length is checked against it
    before the next one is read.
    """
    available = len(buffer) - offset
    if offset < 0 or available < MIN_RECORD_BYTES:
        raise RecordError(f"At byte {offset}: {max(available, 0)} bytes are too few for a record.")
    size, magic = SIZE_MAGIC.unpack_from(buffer, offset)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise RecordError(f"At byte {offset}: magic {magic:#010x} is no record's.")
    hosts = _INT32.unpack_from(buffer, offset + SYS_FLAG_AT)[0] >> 4 & 3
    topic_width = _INT8 if magic == MAGIC_V1 else _INT16
    body_at = offset + _HEADS[hosts].size
    room = offset + size - body_at - topic_width.size - _INT16.size
    if room < 0 or size > available:
        raise RecordError(f"At byte {offset}: a record of {size} bytes where {available} are left.")

    (body_length,) = _INT32.unpack_from(buffer, body_at - 4)
    if not 0 <= body_length <= room:
        raise RecordError(f"At byte {offset}: a body of {body_length} bytes in a record of {size}.")
    room -= body_length
    body_end = body_at + body_length
    (topic_length,) = topic_width.unpack_from(buffer, body_end)
    if not 0 <= topic_length <= room:
        raise RecordError(f"At byte {offset}: a topic of {topic_length} bytes in a record of {size}.")
    room -= topic_length
    topic_at = body_end + topic_width.size
    topic_end = topic_at + topic_length
    (properties_length,) = _INT16.unpack_from(buffer, topic_end)
    if properties_length != room:
        raise RecordError(f"At byte {offset}: properties of {properties_length} bytes where {room} are left.")
    return _Parts(size, hosts, body_at, body_end, topic_at, topic_end, topic_end + _INT16.size)


def properties_of(record: Buffer) -> Buffer:
    """The encoded properties of one record, which is not checked."""
    at: int = _HEADS[record[_LOW_SYS_FLAG_AT] >> 4 & 3].size
    at += _INT32.unpack_from(record, at - 4)[0]
    at += 3 + record[at] if record[_LOW_MAGIC_AT] == _LOW_MAGIC_V1 else 4 + _INT16.unpack_from(record, at)[0]
    return record[at:]


def check_record(buffer: Buffer, offset: int = 0, *, check_crc: bool = True) -> int:
    """Verifies sizes, magic and (unless told otherwise) the body's checksum; returns the record's size.

    Raises RecordError. What recovery asks of every record (spec: storage, section 2.3).
    """
    parts = _measure(buffer, offset)
    if check_crc:
        _verify_crc(buffer, offset, parts)
    return parts.size


def _verify_crc(buffer: Buffer, offset: int, parts: _Parts) -> None:
    """RocketMQ does not look at the checksum of an empty body."""
    if parts.body_at == parts.body_end:
        return
    stored = int.from_bytes(buffer[offset + BODY_CRC_AT : offset + BODY_CRC_AT + 4], "big")
    actual = body_crc(memoryview(buffer)[parts.body_at : parts.body_end])
    if stored != actual:
        raise RecordError(f"At byte {offset}: body checksum {actual:#010x}, {stored:#010x} is stored.")


def decode_record(buffer: Buffer, offset: int = 0, *, check_crc: bool = True) -> Record:
    """The record that begins at `offset`; bytes after it are not looked at. Raises RecordError.

    Topic bytes that are not UTF-8 become U+FFFD, as in RocketMQ.
    """
    parts = _measure(buffer, offset)
    if check_crc:
        _verify_crc(buffer, offset, parts)
    (_, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp_ms, born_host,
     store_timestamp_ms, store_host, reconsume_times, prepared_transaction_offset, _
    ) = _HEADS[parts.hosts].unpack_from(buffer, offset)  # fmt: skip
    return Record(
        topic=str(buffer[parts.topic_at : parts.topic_end], "utf-8", "replace"),
        body=bytes(buffer[parts.body_at : parts.body_end]),
        properties=bytes(buffer[parts.properties_at : offset + parts.size]),
        queue_id=queue_id,
        flag=flag,
        sys_flag=sys_flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        born_timestamp_ms=born_timestamp_ms,
        born_host=born_host,
        store_timestamp_ms=store_timestamp_ms,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        body_crc=crc,
        size=parts.size,
    )


def patch_record(
    buffer: bytearray | memoryview,
    at: int,
    *,
    queue_offset: int,
    physical_offset: int,
    store_timestamp_ms: int,
    store_host: bytes,
) -> None:
    """Writes into the record at `at` what it learns when it is appended.

    The store host must be as wide as the one the record was encoded with; anything else would shift its body.
    """
    sys_flag = _INT32.unpack_from(buffer, at + SYS_FLAG_AT)[0]
    wide = bool(sys_flag & SysFlag.STORE_HOST_V6)
    if len(store_host) != (20 if wide else 8):
        raise ValueError(f"a store host of {len(store_host)} bytes does not fit this record")
    _PLACE.pack_into(buffer, at + QUEUE_OFFSET_AT, queue_offset, physical_offset)
    stored = _STORED_V6 if wide else _STORED
    stored.pack_into(buffer, at + store_timestamp_at(sys_flag), store_timestamp_ms, store_host)


def store_timestamp_at(sys_flag: int) -> int:
    """Where the store timestamp stands in a record with these host bits."""
    return STORE_TIMESTAMP_AT + (WIDER_HOST if sys_flag & SysFlag.BORN_HOST_V6 else 0)


def blank_record(remaining: int) -> bytes:
    """The eight bytes that close a log file with `remaining` bytes left (spec: storage, section 2.1)."""
    return SIZE_MAGIC.pack(remaining, MAGIC_BLANK)
