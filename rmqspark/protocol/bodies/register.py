"""The body of REGISTER_BROKER: its checksum, its forms by version, and the compressed one (spec: requests, section 3).

RocketMQ's RegisterBrokerBody and TopicConfig. A compressed body is a zlib stream of length-prefixed pieces, each of
them JSON or, for topics, words separated by blanks.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NoReturn

import msgspec

from rmqspark.errors import BodyError
from rmqspark.protocol import fastjson
from rmqspark.protocol.bodies.base import MAX_LOOSE_REQUEST_VALUES, check_extent
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import Version
from rmqspark.protocol.learned import learned

MAX_INFLATED_BYTES: Final = 16 * 1024 * 1024
"""As much as a body could hold that was not compressed: compression buys bandwidth, not room."""

MAX_TOPICS: Final = 100_000
"""Topics of one compressed registration: each is taken apart by itself."""

_MAX_ATTRIBUTES: Final = 256  # of one topic
_INT32: Final = struct.Struct(">i")
_TOPIC_WORDS: Final = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
_SMALLEST_TOPIC_BYTES: Final = _INT32.size + len("t 1 1 6 SINGLE_TAG")


def register_crc32(body: bytes | bytearray | memoryview) -> int:
    """The `bodyCrc32` of a registration: CRC-32 of the body as sent, without its sign bit."""
    return zlib.crc32(body) & 0x7FFFFFFF


def decode_register_body(
    body: bytes | bytearray | memoryview, *, compressed: bool, version: int, crc32: int
) -> RegisterBrokerBody:
    """Reads a registration from a broker of that wire version, after testing `crc32` unless it is 0.

    No body at all registers no topics. Raises BodyError.
    """
    if crc32 and crc32 != register_crc32(body):
        raise BodyError("crc32 not match")  # RocketMQ's words
    if not len(body):
        return RegisterBrokerBody()
    if compressed:
        return _decode_inflated(_inflate(body), version)
    if version < Version.V3_0_11:
        return RegisterBrokerBody(TopicConfigTable.decode_request(body))
    return RegisterBrokerBody.decode_request(body)


def _inflate(body: bytes | bytearray | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        inflated = inflater.decompress(body, MAX_INFLATED_BYTES)
    except zlib.error as error:
        raise BodyError(f"A compressed registration cannot be inflated: {error}.") from error
    if not inflater.eof:
        raise BodyError(f"A compressed registration is cut off, or inflates beyond {MAX_INFLATED_BYTES} bytes.")
    return inflated


def _decode_inflated(data: bytes, version: int) -> RegisterBrokerBody:
    """What follows the filter servers, the mappings of static topics since 5.0, is left unread: there are none here."""
    check_extent(data)
    pieces = _Pieces(data)
    data_version = DataVersion.decode_request(pieces.take())
    topics = [_parse_topic(pieces.take()) for _ in range(pieces.count(_SMALLEST_TOPIC_BYTES))]
    servers = fastjson.loads(pieces.take(), max_values=MAX_LOOSE_REQUEST_VALUES)
    if not isinstance(servers, list) or not all(isinstance(server, str) for server in servers):
        raise BodyError("The filter servers of a registration are no list of addresses.")
    table = TopicConfigTable({topic.topicName: topic for topic in topics}, data_version)
    return RegisterBrokerBody(table, servers)


def _parse_topic(line: memoryview) -> TopicConfig:
    """`name readQueues writeQueues perm filterType attributes`; 4.x brokers have no attributes."""
    words = str(line, "utf-8", "replace").split(" ", len(_TOPIC_WORDS))
    if len(words) < len(_TOPIC_WORDS):
        _fail_topic(words)
    members = dict(zip(_TOPIC_WORDS, words, strict=False))
    try:
        return msgspec.convert(
            {**members, "attributes": _parse_attributes(words[len(_TOPIC_WORDS) :])}, learned(TopicConfig), strict=False
        )
    except msgspec.ValidationError:
        _fail_topic(words)


def _parse_attributes(rest: list[str]) -> dict[str, str]:
    if not rest or not rest[0].strip():
        return {}
    attributes = fastjson.loads(rest[0].encode(), max_values=_MAX_ATTRIBUTES)
    if not isinstance(attributes, dict):
        raise BodyError(f"The attributes {rest[0][:80]!r} of a registered topic are no object.")
    return {str(name): str(value) for name, value in attributes.items()}


def _fail_topic(words: list[str]) -> NoReturn:
    raise BodyError(f"A registered topic reads {' '.join(words)[:80]!r}.")


class _Pieces:
    """Takes length-prefixed pieces off the front, every length checked against what is left."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def take(self) -> memoryview:
        return self._slice(self._int32())

    def count(self, smallest_bytes: int) -> int:
        """A number of topics that take at least so many bytes each."""
        count = self._int32()
        if count > MAX_TOPICS:
            raise BodyError(f"A registration of {count} topics; {MAX_TOPICS} are allowed.")
        if not 0 <= count * smallest_bytes <= len(self._data) - self._at:
            raise BodyError(f"A registration claims {count} topics, more than it has room for.")
        return count

    def _int32(self) -> int:
        value: int = _INT32.unpack(self._slice(_INT32.size))[0]
        return value

    def _slice(self, size: int) -> memoryview:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise BodyError(f"A registration claims {size} bytes where {len(self._data) - self._at} are left.")
        piece = self._data[self._at : end]
        self._at = end
        return piece
