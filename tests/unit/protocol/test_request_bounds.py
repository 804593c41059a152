"""How much may be in a request before anything is made of it."""

from __future__ import annotations

import struct
import zlib

import pytest

from rmqspark.errors import BodyError, HeaderError
from rmqspark.protocol import fastjson
from rmqspark.protocol.bodies.base import MAX_LOOSE_REQUEST_BYTES, MAX_REQUEST_CONTAINERS, MAX_REQUEST_VALUES
from rmqspark.protocol.bodies.client import HeartbeatData
from rmqspark.protocol.bodies.register import MAX_TOPICS, decode_register_body
from rmqspark.protocol.bodies.route import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import VERSION
from rmqspark.protocol.commands.command import decode_command, split_frame


@pytest.mark.parametrize(
    "body",
    [
        b'{"producerDataSet":[%s]}' % b",".join([b"{}"] * MAX_REQUEST_CONTAINERS),
        b'{"x":[%s]}' % b",".join([b"0"] * (MAX_REQUEST_VALUES + 1)),
        b'{"x":%s' % (b"[" * (MAX_REQUEST_CONTAINERS + 1)),
    ],
    ids=["objects", "numbers", "nesting"],
)
def test_small_json_that_would_be_large_in_memory_is_refused(body: bytes) -> None:
    """A request of a few hundred kilobytes cannot make a server allocate a hundred times as much."""
    with pytest.raises(BodyError, match="values"):
        HeartbeatData.decode_request(body)


def test_as_much_as_is_allowed_is_read() -> None:
    """The limits are for bombs: a request just within them is read like any other."""
    body = b'{"clientID":"c","producerDataSet":[%s]}' % b",".join([b"{}"] * (MAX_REQUEST_CONTAINERS - 2))
    assert len(HeartbeatData.decode_request(body).producerDataSet) == MAX_REQUEST_CONTAINERS - 2


def test_a_broker_with_the_most_topics_registers() -> None:
    """A broker with 30,000 topics is within what a name server takes."""
    topics = {f"topic-{number}": TopicConfig(topicName=f"topic-{number}") for number in range(30_000)}
    body = RegisterBrokerBody(TopicConfigTable(topics)).encode()
    read = decode_register_body(body, compressed=False, version=VERSION, crc32=0)
    assert read.topicConfigSerializeWrapper.topicConfigTable == topics


def test_large_bodies_are_json_to_the_letter() -> None:
    """fastjson's liberties cost time to read, so only bodies of ordinary size may take them."""
    assert HeartbeatData.decode_request(b"{'clientID':'c'}").clientID == "c"
    with pytest.raises(BodyError, match="HeartbeatData"):
        HeartbeatData.decode_request(b"{'clientID':'%s'}" % (b"c" * MAX_LOOSE_REQUEST_BYTES))


def test_loose_values_are_counted_on_all_levels() -> None:
    """No way of nesting hides from the limit."""
    text = b"{a:[1,2,{b:3}],c:[[4]]}"
    assert fastjson.loads(text, max_values=8) == {"a": [1, 2, {"b": 3}], "c": [[4]]}
    with pytest.raises(BodyError, match="more values"):
        fastjson.loads(text, max_values=7)


def test_a_header_of_thousands_of_values_is_given_up() -> None:
    """64 KiB of header cannot keep a server busy for a tenth of a second."""
    head = b"{" + b"'a':0," * 9_000 + b"}"
    with pytest.raises(HeaderError, match="more values"):
        decode_command(split_frame(struct.pack(">I", len(head)) + head))


def test_compressed_topics_are_counted_before_they_are_read() -> None:
    """A registration of a megabyte cannot inflate into half a million topics."""
    version = b'{"counter":1}'
    body = zlib.compress(struct.pack(">i", len(version)) + version + struct.pack(">i", MAX_TOPICS + 1))
    with pytest.raises(BodyError, match=f"{MAX_TOPICS} are allowed"):
        decode_register_body(body, compressed=True, version=VERSION, crc32=0)


def test_compressed_attributes_are_counted_too() -> None:
    """Fourteen kilobytes of compressed registration cannot inflate into twelve seconds of work."""
    version = b'{"counter":1}'
    topic = b"t 1 1 6 SINGLE_TAG {'x':[" + b"0," * 7_000_000 + b"]}"
    pieces = struct.pack(">i", len(version)) + version + struct.pack(">ii", 1, len(topic)) + topic
    with pytest.raises(BodyError, match="values"):
        decode_register_body(zlib.compress(pieces), compressed=True, version=VERSION, crc32=0)
