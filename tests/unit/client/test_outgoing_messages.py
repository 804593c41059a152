"""What a message looks like on the wire before it is sent."""

from __future__ import annotations

import os
import random
import zlib

import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.identity import MessageIds
from rmqspark.client.sending.outgoing import SendConfig, outgoing, outgoing_batch
from rmqspark.errors import InvalidMessage, InvalidName
from rmqspark.model import Message
from rmqspark.protocol.records.batch import decode_batch
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.protocol.records.record import SysFlag
from rmqspark.testing.manual_clock import ManualClock

CONFIG = SendConfig()
COMPRESSED = SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB


def test_a_message_carries_what_stock_clients_send() -> None:
    """Tags, keys, WAIT and UNIQ_KEY travel as properties, the user's own beside them."""
    message = Message("t", b"body", tags="paid", keys=["1", "2"], properties={"shop": "7"}, flag=3, delay_level=2)
    ready = outgoing(message, "ID", CONFIG, shard="customer-7")
    assert (ready.body, ready.sys_flag, ready.flag) == (b"body", 0, 3)
    assert decode_properties(ready.properties.encode()) == {
        "shop": "7",
        "KEYS": "1 2",
        "TAGS": "paid",
        "__SHARDINGKEY": "customer-7",
        "DELAY": "2",
        "WAIT": "true",
        "UNIQ_KEY": "ID",
    }


@pytest.mark.parametrize(
    ("message", "property_"),
    [
        (Message("t", b"x", deliver_time_ms=1_700_000_000_000), "TIMER_DELIVER_MS\x011700000000000\x02"),
        (Message("t", b"x", delay_ms=90_000), "TIMER_DELAY_MS\x0190000\x02"),
    ],
)
def test_a_message_waits_until_a_time_or_for_a_while(message: Message, property_: str) -> None:
    """The time is the sender's, the while is counted by the broker's clock."""
    assert property_ in outgoing(message, "ID", CONFIG).properties


def test_a_bare_string_is_one_key() -> None:
    """keys="42" means the key 42, not 4 and 2."""
    assert "KEYS\x0142\x02" in outgoing(Message("t", b"x", keys="42"), "ID", CONFIG).properties


def test_a_key_may_have_whatever_is_no_blank() -> None:
    """As in RocketMQ's clients, and Spark's sink: brokers find the message by it."""
    ready = outgoing(Message("t", b"x", keys=["M\u00fcller\u00a0GmbH", "a\tb"]), "ID", CONFIG)
    assert decode_properties(ready.properties.encode())["KEYS"] == "M\u00fcller\u00a0GmbH a\tb"


def test_a_tag_may_end_in_what_subscriptions_do_not_take_away() -> None:
    """RocketMQ takes blanks of ASCII from the ends of tags that someone subscribes to, and no others."""
    ready = outgoing(Message("t", b"x", tags="\u3000paid\u00a0"), "ID", CONFIG)
    assert decode_properties(ready.properties.encode())["TAGS"] == "\u3000paid\u00a0"


def test_large_bodies_are_compressed() -> None:
    """Bodies from 4096 bytes on travel as zlib, smaller ones as they are."""
    large, small = b"a" * 4096, b"a" * 4095
    assert outgoing(Message("t", small), "ID", CONFIG)[::2] == (small, 0)
    ready = outgoing(Message("t", large), "ID", CONFIG)
    assert ready.sys_flag == COMPRESSED
    assert zlib.decompress(ready.body) == large
    off = SendConfig(compress_msg_body_over_howmuch=0)
    assert outgoing(Message("t", large), "ID", off)[::2] == (large, 0)


def test_a_body_that_would_grow_is_sent_as_it_is() -> None:
    """Random bytes near the limit are not refused for what deflate makes of them."""
    noise = random.Random(1).randbytes(4 * 1024 * 1024)
    assert outgoing(Message("t", noise), "ID", CONFIG)[::2] == (noise, 0)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message("t", b""), "empty"),
        (Message("t", "text"), "bytes, not str. Encode"),  # type: ignore[arg-type]
        (Message("t", None), "bytes, not NoneType"),  # type: ignore[arg-type]
        (Message("t", bytes(4 * 1024 * 1024 + 1)), "over the limit"),
        (Message("t", b"x", properties={"TAGS": "x"}), "reserved"),
        (Message("t", b"x", properties={"a": "b\x02c"}), "0x01 or 0x02"),
        (Message("t", b"x", properties={"a": "x" * 32768}), "room for 32767"),
        (Message("t", b"x", keys=["a b"]), "blank"),
        (Message("t", b"x", keys=[""]), "empty"),
        (Message("t", b"x", tags="a || b"), "one tag"),
        (Message("t", b"x", tags="a\0"), "one tag"),
        (Message("t", b"x", delay_level=19), "1 to 18"),
        (Message("t", b"x", delay_level=-1), "1 to 18"),
        (Message("t", b"x", delay_level=1, deliver_time_ms=1_700_000_000_000), "delay_level and deliver_time_ms excl"),
        (Message("t", b"x", deliver_time_ms=1_700_000_000_000, delay_ms=1), "deliver_time_ms and delay_ms exclude"),
        (Message("t", b"x", deliver_time_ms=-1), "cannot be -1"),
        (Message("t", b"x", deliver_time_ms=1_700_000_000), "looks like seconds"),
        (Message("t", b"x", deliver_time_ms=1_700_000_000_000_000), "looks like micro- or nanoseconds"),
        (Message("t", b"x", delay_ms=-1), "not -1"),
        (Message("t", b"x", delay_ms=1 << 62), "how long a message waits"),
    ],
)
def test_what_no_broker_takes_is_refused_before_it_is_sent(message: Message, reason: str) -> None:
    """A message that cannot be stored is an error at once, which says why."""
    with pytest.raises(InvalidMessage, match=reason):
        outgoing(message, "ID", CONFIG)


def test_views_of_bytes_are_bodies_too() -> None:
    """What holds bytes is sent as these bytes, and measured in bytes."""
    assert outgoing(Message("t", bytearray(b"ab")), "ID", CONFIG).body == b"ab"
    wide = memoryview(b"abcd").cast("I")
    assert outgoing(Message("t", wide), "ID", CONFIG).body == b"abcd"  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", ["", "a b", "x" * 128, "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_topics_that_cannot_be_sent_to_are_refused(topic: str) -> None:
    """Illegal names and the brokers' own topics are refused."""
    with pytest.raises(InvalidName):
        outgoing(Message(topic, b"x"), "ID", CONFIG)


def test_each_message_of_a_batch_keeps_its_own_id() -> None:
    """The wrapper carries WAIT alone, for brokers of 5.3 append its properties to every message of the batch."""
    messages = [Message("t", b"1", tags="a", flag=4), Message("t", b"2", keys=["k"])]
    ready = outgoing_batch(messages, ["ID1", "ID2"], CONFIG)
    assert ready.properties == "WAIT\x01true\x02"
    first, second = decode_batch(ready.body)
    assert (bytes(first.body), first.flag, bytes(second.body)) == (b"1", 4, b"2")
    assert decode_properties(first.properties) == {"TAGS": "a", "UNIQ_KEY": "ID1"}
    assert decode_properties(second.properties) == {"KEYS": "k", "UNIQ_KEY": "ID2"}


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one"),
        ([Message("t", b"x"), Message("u", b"x")], "same topic"),
        ([Message("t", b"x"), Message("t", b"x", wait_stored=False)], "same wait_stored"),
        ([Message("t", b"x", delay_level=1)], "no delay_level"),
        ([Message("t", b"x", delay_ms=1)], "no delay_ms"),
        ([Message("%RETRY%g", b"x")], "no batches"),
        ([Message("t", bytes(3 << 20)), Message("t", bytes(2 << 20))], "over the limit"),
    ],
)
def test_what_cannot_travel_together_is_refused(messages: list[Message], reason: str) -> None:
    """A batch has one topic, one WAIT, no delays, and at most 4 MiB."""
    with pytest.raises(InvalidMessage, match=reason):
        outgoing_batch(messages, [str(index) for index in range(len(messages))], CONFIG)


def test_a_forked_process_gives_ids_of_its_own() -> None:
    """It has its parent's counters, and both may send in the same millisecond."""
    with ClusterClient("127.0.0.1:1", clock=ManualClock()) as cluster:
        ids = MessageIds(cluster)
        ids.next()
        read, write = os.pipe()
        if (child := os.fork()) == 0:
            os.write(write, ids.next().encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 32).decode() != ids.next()
        os.close(read)
        os.close(write)
