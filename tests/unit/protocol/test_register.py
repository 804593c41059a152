"""Registrations: every form that a broker of any age may send."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import BodyError
from rmqspark.protocol.bodies.register import MAX_INFLATED_BYTES, decode_register_body, register_crc32
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import VERSION

BODY = RegisterBrokerBody(
    TopicConfigTable(
        {
            "TopicA": TopicConfig("TopicA", 4, 8, 6, attributes={"message.type": "FIFO and more"}),
            "TopicB": TopicConfig("TopicB", 1, 1, 2, "MULTI_TAG"),
        },
        DataVersion(7, 0, 1_700_000_000_000),
    ),
    ["10.0.0.1:1234"],
)


def piece(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def pieces(*, attributes: bool = True, mapping: bool = True) -> bytes:
    """The inside of a compressed registration, as RocketMQ's RegisterBrokerBody.encode lays it out."""
    topics = [b"TopicA 4 8 6 SINGLE_TAG", b"TopicB 1 1 2 MULTI_TAG"]
    if attributes:
        topics = [topics[0] + b' {"message.type":"FIFO and more"}', topics[1] + b" {}"]
    data = piece(b'{"counter":7,"stateVersion":0,"timestamp":1700000000000}')
    data += struct.pack(">i", len(topics)) + b"".join(map(piece, topics)) + piece(b'["10.0.0.1:1234"]')
    return data + (struct.pack(">i", 1) + piece(b'{"bname":"b"}') if mapping else b"")


def decode(body: bytes, *, compressed: bool = True, version: int = VERSION) -> RegisterBrokerBody:
    return decode_register_body(body, compressed=compressed, version=version, crc32=register_crc32(body))


def test_a_plain_registration_is_read() -> None:
    """A 5.x broker, and a 4.x one, register as they do with RocketMQ's name server."""
    assert decode(BODY.encode(), compressed=False) == BODY


def test_a_compressed_registration_is_read() -> None:
    """A broker with compressedRegister registers the same topics as one without."""
    assert decode(zlib.compress(pieces())) == BODY
    assert decode(zlib.compress(pieces(mapping=False)), version=399) == BODY


def test_topics_without_attributes_have_none() -> None:
    """A 4.x broker's compressed registration is read."""
    table = decode(zlib.compress(pieces(attributes=False, mapping=False)), version=399).topicConfigSerializeWrapper
    assert table.topicConfigTable["TopicA"] == TopicConfig("TopicA", 4, 8, 6)


def test_an_ancient_broker_sends_only_its_topics() -> None:
    """A broker older than 3.0.11, whose body is the topic table alone, can register."""
    table = BODY.topicConfigSerializeWrapper
    body = decode_register_body(table.encode(), compressed=False, version=36, crc32=0)
    assert body == RegisterBrokerBody(table)


def test_no_body_registers_no_topics() -> None:
    """A registration without a body is one of a broker without topics."""
    assert decode_register_body(b"", compressed=False, version=VERSION, crc32=0) == RegisterBrokerBody()


def test_a_checksum_is_a_crc_32_without_its_sign() -> None:
    """RocketMQ's name servers compute it too: of these digits it is 0xCBF43926."""
    assert register_crc32(b"123456789") == 0x4BF43926


def test_a_wrong_checksum_is_refused_in_rocketmqs_words() -> None:
    """A registration that was damaged on its way is refused; a checksum of 0 asks for no check."""
    body = BODY.encode()
    with pytest.raises(BodyError, match="crc32 not match"):
        decode_register_body(body, compressed=False, version=VERSION, crc32=register_crc32(body) ^ 1)
    assert decode_register_body(body, compressed=False, version=VERSION, crc32=0) == BODY


def counted(count: int) -> bytes:
    return piece(b"{}") + struct.pack(">i", count)


WRONG = {
    "no zlib": b"hello",
    "cut off": zlib.compress(pieces())[:-6],
    "empty inside": zlib.compress(b""),
    "a negative length": zlib.compress(struct.pack(">i", -1)),
    "a length beyond the end": zlib.compress(struct.pack(">i", 100) + b"{}"),
    "more topics than bytes": zlib.compress(counted(2**31 - 1) + bytes(100)),
    "a negative count": zlib.compress(counted(-1)),
    "a topic with too few words": zlib.compress(counted(1) + piece(b"Topic 1 2 6") + bytes(40)),
    "a topic with words for numbers": zlib.compress(counted(1) + piece(b"T one 2 6 SINGLE_TAG") + piece(b"[]")),
    "attributes that are a list": zlib.compress(counted(1) + piece(b"T 1 2 6 SINGLE_TAG []") + piece(b"[]")),
    "filter servers that are none": zlib.compress(counted(0) + piece(b"{}")),
    "a bomb": zlib.compress(bytes(MAX_INFLATED_BYTES + 1)),
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_registration_is_refused(body: bytes) -> None:
    """A malformed or exploding registration fails alone, within bounds of memory."""
    with pytest.raises(BodyError):
        decode(body)


@pytest.mark.property
@given(st.data(), st.booleans(), st.sampled_from([VERSION, 399, 36]))
def test_any_bytes_are_a_registration_or_an_error(data: st.DataObject, compressed: bool, version: int) -> None:
    """Spoilt registrations are read or refused in one way, compressed or not."""
    inside = bytearray(pieces() if compressed else BODY.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        inside[data.draw(st.integers(0, len(inside) - 1))] = data.draw(st.integers(0, 255))
    body = bytes(inside[: data.draw(st.integers(0, len(inside)))])
    for candidate in (zlib.compress(body) if compressed else body, data.draw(st.binary(max_size=60))):
        with suppress(BodyError):
            decode(candidate, compressed=compressed, version=version)
