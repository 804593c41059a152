"""Records read back as messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.pulling import received as module
from rmqspark.client.pulling.inflate import MAX_INFLATED_BYTES
from rmqspark.client.pulling.property_maps import decoded_properties
from rmqspark.client.pulling.received import received_all
from rmqspark.client.pulling.received_columns import received_batch
from rmqspark.errors import RecordError
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.protocol.records.compression import compress
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import decode_properties, encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch

HOST = pack_host("192.168.1.20", 10911)


def test_a_record_becomes_the_message_that_was_sent() -> None:
    """What a user holds is what the sender gave, with where and when it was stored."""
    record = encode_record(
        topic="t",
        body=compress(b"body"),
        properties=encode_properties({"TAGS": "paid", "KEYS": "1 2", "UNIQ_KEY": "ID", "shop": "7"}),
        queue_id=3,
        flag=4,
        sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB,
        queue_offset=5,
        physical_offset=0x1234,
        born_timestamp_ms=6,
        store_timestamp_ms=7,
        store_host=HOST,
        reconsume_times=8,
    )
    assert received_all(record, "broker-a") == [
        ReceivedMessage(
            "t",
            b"body",
            "paid",
            ["1", "2"],
            {"TAGS": "paid", "KEYS": "1 2", "UNIQ_KEY": "ID", "shop": "7"},
            "ID",
            MessageQueue("t", "broker-a", 3),
            5,
            6,
            7,
            8,
            4,
            "C0A8011400002A9F0000000000001234",
        )
    ]


def test_a_message_without_unique_id_has_the_broker_s() -> None:
    """Messages of foreign senders always have an id."""
    (message,) = received_all(encode_record(topic="t", body=b"x", store_host=HOST), "b")
    assert message.msg_id == message.offset_msg_id == "C0A8011400002A9F0000000000000000"
    assert (message.tags, message.keys, message.properties) == (None, [], {})


@pytest.mark.parametrize("count", [1, 1000])
def test_blanks_alone_separate_keys(count: int) -> None:
    """As in the index of brokers, which finds a message by no part of such a key: a tab, a new line, a blank that does
    not break or is as wide as kanji is a part of one."""
    properties = encode_properties({"KEYS": " M\u00fcller\u00a0GmbH  a\tb\n \u6ce8\u6587\u30001 "})
    records = encode_record(topic="t", body=b"x", properties=properties) * count
    keys = [message.keys for message in received_all(records, "b")]
    assert keys == [["M\u00fcller\u00a0GmbH", "a\tb\n", "\u6ce8\u6587\u30001"]] * count


@pytest.mark.parametrize("kind", [SysFlag.COMPRESSION_ZLIB, SysFlag.COMPRESSION_LZ4, SysFlag.COMPRESSION_ZSTD, 0x400])
@pytest.mark.parametrize("count", [1, 1000])
def test_a_body_that_does_not_inflate_stops_no_reader(kind: int, count: int) -> None:
    """Who may send to a topic could stop all who read it: they get it as it is stored, and what is behind it."""
    stuck = encode_record(topic="t", body=b"no stream", sys_flag=SysFlag.COMPRESSED | kind)
    bodies = [message.body for message in received_all((stuck + encode_record(topic="t", body=b"next")) * count, "b")]
    assert bodies == [b"no stream", b"next"] * count


def test_a_bomb_is_handed_out_as_it_is_stored() -> None:
    """So is what would become too large, and a warning says so once."""
    bomb = compress(bytes(MAX_INFLATED_BYTES + 1))
    stored = encode_record(topic="t", body=bomb, sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB)
    assert [message.body for message in received_all(stored * 2, "b")] == [bomb] * 2


HOSTS = st.sampled_from([HOST, pack_host("10.0.0.1", 1), pack_host("fe80::1", 65535)])
PLAIN = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12)
RECORDS = st.builds(
    lambda raw, compressed, pairs, **fields: encode_record(
        body=compress(raw) if compressed else raw,
        sys_flag=SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB if compressed else 0,
        properties=encode_properties(pairs),
        **fields,
    ),
    raw=st.binary(max_size=40),
    compressed=st.booleans(),
    pairs=st.dictionaries(st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "a", "ß"]), PLAIN, max_size=4),
    topic=st.sampled_from(["t", "t", "t", "other", "ü" * 90]),
    queue_id=st.integers(0, 3),
    flag=st.integers(-5, 5),
    queue_offset=st.integers(0, 2**62),
    physical_offset=st.integers(0, 2**62),
    born_timestamp_ms=st.integers(0, 2**41),
    store_timestamp_ms=st.integers(0, 2**41),
    born_host=HOSTS,
    store_host=HOSTS,
    reconsume_times=st.integers(0, 16),
)


@pytest.mark.property
@given(st.lists(RECORDS, max_size=8))
def test_many_at_once_are_read_like_one_by_one(records: list[bytearray]) -> None:
    """The fast way for large chunks gives exactly the messages of the plain way."""
    chunk = b"".join(records)
    one_by_one = [message for record in records for message in received_all(record, "b")]
    assert received_batch(RecordBatch.scan(chunk), "b") == one_by_one


VALUES = {
    "TAGS": st.sampled_from(["paid", "sent", "ß1"]),
    "KEYS": st.sampled_from(["1 2 3", "42 43", "4\t43", " 007 ", "     "]),
    "UNIQ_KEY": st.integers(0, 99).map(lambda number: f"ID{number:02}"),
    "shop": st.sampled_from(["7", "8", "77"]),
    "WAIT": st.just("true"),
}
NAMES = st.lists(st.sampled_from(list(VALUES)), unique=True)


@st.composite
def of_one_shape(draw: st.DrawFn) -> list[bytearray]:
    """Records such as one producer sends to one queue: equal names in one order, bodies of one length, offsets in a
    row, times that stand still for a while."""
    names, host, topic, body = draw(NAMES), draw(HOSTS), draw(st.sampled_from(["t", "ü" * 90])), draw(st.binary())
    rows = draw(st.lists(st.tuples(st.fixed_dictionaries({name: VALUES[name] for name in names}), st.integers(0, 2))))
    born_ms = 0
    records = []
    for queue_offset, (pairs, later_ms) in enumerate(rows * draw(st.integers(1, 9))):
        born_ms += later_ms if queue_offset % 8 == 0 else 0
        records.append(
            encode_record(
                topic=topic,
                body=body,
                properties=encode_properties(pairs),
                queue_offset=queue_offset,
                born_timestamp_ms=born_ms,
                store_timestamp_ms=queue_offset,
                store_host=host,
            )
        )
    return records


@pytest.mark.property
@given(of_one_shape())
def test_messages_of_one_shape_are_read_like_one_by_one(records: list[bytearray]) -> None:
    """What a chunk's messages have in common is read once, and every message still has all of its own."""
    messages = received_batch(RecordBatch.scan(b"".join(records)), "b")
    assert messages == [message for record in records for message in received_all(record, "b")]
    assert all(type(message.keys) is list for message in messages)
    assert len({id(message.keys) for message in messages}) == len(messages)
    assert len({id(message.properties) for message in messages}) == len(messages)


def test_a_message_kept_keeps_no_chunk() -> None:
    """The buffer in which messages came is free as soon as they are made, though they are still held."""
    chunk = bytearray().join(
        encode_record(topic="t", body=b"x" * 100, properties=b"KEYS\x01%d\x02TAGS\x01a\x02" % index)
        for index in range(200)
    )
    messages = received_all(memoryview(chunk), "b")
    chunk.clear()  # BufferError if anybody looked at it
    assert [message.keys for message in messages] == [[str(index)] for index in range(200)]


def test_a_large_chunk_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk over the threshold is decoded by columns, with the same outcome."""
    chunk = b"".join(encode_record(topic="t", body=b"x" * 100, queue_offset=index) for index in range(200))
    plain = module._one_by_one(chunk, "b")
    monkeypatch.setattr(module, "_one_by_one", None)
    assert received_all(chunk, "b") == plain


@pytest.mark.parametrize("count", [1, 200])
def test_a_damaged_body_is_noticed(count: int) -> None:
    """A flipped byte in a body is an error, not a wrong message."""
    chunk = bytearray().join(encode_record(topic="t", body=b"x" * 100) for _ in range(count))
    chunk[100] ^= 1
    with pytest.raises(RecordError, match="checksum"):
        received_all(chunk, "b")


PIECES = st.lists(st.sampled_from([b"a", b"bc", b"\x01", b"\x02", b"\xff", "ß".encode()]), max_size=9).map(b"".join)


@pytest.mark.property
@given(
    st.lists(PIECES, min_size=1)
    | st.lists(st.sampled_from([b"a\x01b\x02cd\x01e", b"a\x01c\x02cd\x01ee"]), min_size=1)
    | st.lists(st.sampled_from([b"\xff\x01b\x02\xfe\x01e\x02", b"\xff\x01c\x02\xfe\x01e\x02"]), min_size=1)
)
def test_odd_properties_are_read_like_one_by_one(encoded: list[bytes]) -> None:
    """Missing ends, empty names and values, bytes that are no text: many records at once give what one gives."""
    chunk = b"".join(encode_record(topic="t", body=b"x", properties=properties) for properties in encoded)
    assert decoded_properties(RecordBatch.scan(chunk), chunk).maps == [
        decode_properties(properties) for properties in encoded
    ]
