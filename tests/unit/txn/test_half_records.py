"""Half messages and op records as bytes, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidMessage, InvalidName
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES, encode_properties
from rmqspark.protocol.records.record import Record, decode_record, encode_record
from rmqspark.txn.half_messages import half_operations
from rmqspark.txn.half_messages.half_message import (
    HalfMessage,
    committed_draft,
    immunity_ms,
    question,
    resumed_draft,
    set_aside_draft,
)
from rmqspark.txn.half_messages.half_operations import (
    OperationQueue,
    decode_operation,
    encode_operation,
    operation_draft,
)

VECTOR = json.loads(
    (Path(__file__).parents[2] / "golden" / "half_message_operation" / "three_offsets.json").read_text()
)
HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
PROPERTIES = {
    "TRAN_MSG": "true",
    "PGROUP": "PG",
    "UNIQ_KEY": "U1",
    "KEYS": "k1 k2",
    "TAGS": "TagA",
    "REAL_TOPIC": "orders",
    "REAL_QID": "3",
}


def record_of(topic: str = HALF_TOPIC, *, behind: bytes = b"", **properties: str | None) -> Record:
    """A record in the half queue; `behind` its properties may stand anything that a sender wrote."""
    changed = {name: value for name, value in (PROPERTIES | properties).items() if value is not None}
    return decode_record(
        encode_record(
            topic=topic,
            body=b"half",
            properties=encode_properties(changed) + behind,
            flag=7,
            sys_flag=0x301,
            queue_offset=5,
            physical_offset=4096,
            born_timestamp_ms=11,
            born_host=HOST,
            store_timestamp_ms=12,
            reconsume_times=2,
        )
    )


@pytest.mark.golden
def test_an_operation_is_the_vector() -> None:
    """Offsets with a comma behind each, as RocketMQ 5 writes them."""
    offsets = VECTOR["meaning"]["half_queue_offsets"]
    assert encode_operation(offsets).hex() == VECTOR["wire"]
    assert decode_operation(bytes.fromhex(VECTOR["wire"])) == offsets


@pytest.mark.parametrize(
    ("body", "offsets"),
    [(b"5", [5]), (b"", []), (b",,", []), (b"5,x,-1, 6,7,", [5, 7]), (b"9" * 30, []), ("٣".encode(), [])],
)
def test_operations_of_others_are_read_with_care(body: bytes, offsets: list[int]) -> None:
    """RocketMQ 4 wrote one offset and no comma; what is no offset names none."""
    assert decode_operation(body) == offsets


@given(st.lists(st.integers(0, 2**62)))
def test_operations_come_back(offsets: list[int]) -> None:
    """Any offsets at all."""
    assert decode_operation(encode_operation(offsets)) == offsets


def test_an_operation_record() -> None:
    """What an Apache broker expects to find in the op queue."""
    draft = operation_draft([5], now_ms=99, host=HOST)
    record = decode_record(draft.record)
    assert (draft.topic, draft.queue_id, draft.index_keys) == (OP_HALF_TOPIC, 0, ())
    assert (record.body, record.born_timestamp_ms, record.born_host) == (b"5,", 99, HOST)
    assert record.property_map() == {"TAGS": "d", "WAIT": "true"}
    assert draft.tags_code == ord("d")


def test_how_far_operations_are_needed() -> None:
    """Up to the first that names a half message which is open or may still come."""
    queue = OperationQueue(10)
    assert queue.first_needed(100) == 10
    for op_offset, named in [(10, [0]), (11, [1, 4]), (13, [2])]:
        queue.add(op_offset, named)
    assert [queue.first_needed(first_open) for first_open in (0, 1, 4, 5)] == [10, 11, 11, 14]


def test_what_is_known_of_operations_does_not_grow_while_a_half_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many, more are needed than had to be, never fewer; and when the half has ended it is as it was."""
    monkeypatch.setattr(half_operations, "_MOST_KNOWN", 10)
    queue = OperationQueue(0)
    for number in range(1_000):
        queue.add(number, [number + 1])
        assert queue.first_needed(0) == 0
        assert len(queue._rising) <= 10
    needed = [queue.first_needed(first_open) for first_open in range(1, 1_001)]
    assert needed == sorted(needed)
    assert all(op_offset <= named_in for named_in, op_offset in enumerate(needed))
    assert queue.first_needed(1_001) == 1_000


def test_a_half_message_knows_where_it_belongs() -> None:
    """And who sent it, when, how often an Apache broker asked for it, and how long it is to be left alone."""
    half = HalfMessage.of(record_of(TRANSACTION_CHECK_TIMES="2", CHECK_IMMUNITY_TIME_IN_SECONDS="30"))
    assert half == HalfMessage(5, 4096, 12, ("PG", "U1", 11), "orders", 3, 2, 30_000)
    assert half.is_copy


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"REAL_TOPIC": None}, InvalidMessage),
        ({"REAL_QID": None}, InvalidMessage),
        ({"REAL_QID": "-1"}, InvalidMessage),
        ({"REAL_QID": "4294967296"}, InvalidMessage),
        ({"REAL_QID": "x"}, InvalidMessage),
        ({"PGROUP": None}, InvalidMessage),
        ({"REAL_TOPIC": "../etc"}, InvalidName),
        ({"topic": "orders"}, InvalidMessage),
    ],
)
def test_what_is_no_half_message(changed: dict[str, str | None], error: type[Exception]) -> None:
    """A file may hold anything; no path is made of it."""
    with pytest.raises(error):
        HalfMessage.of(record_of(**changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"), [(None, None), ("30", 30_000), ("0", 0), ("-1", None), ("soon", None), ("9" * 40, None)]
)
def test_immunity(text: str | None, expected: int | None) -> None:
    """Seconds; what is negative or no number means the broker's own time, as in RocketMQ."""
    assert immunity_ms({} if text is None else {"CHECK_IMMUNITY_TIME_IN_SECONDS": text}) == expected


def test_the_committed_message() -> None:
    """All that its sender gave it, for its own queue, and the place of its half."""
    record = record_of()
    draft = committed_draft(HalfMessage.of(record), record, 3)
    message = decode_record(draft.record)
    assert (draft.topic, draft.queue_id, draft.index_keys) == ("orders", 3, ("U1", "k1", "k2"))
    assert (message.topic, message.queue_id, message.body, message.flag) == ("orders", 3, b"half", 7)
    assert (message.sys_flag, message.prepared_transaction_offset) == (0x309, 4096)
    assert (message.born_timestamp_ms, message.born_host, message.reconsume_times) == (11, HOST, 2)
    assert message.property_map().items() == PROPERTIES.items() - {("REAL_TOPIC", "orders"), ("REAL_QID", "3")}


def test_set_aside_and_resumed() -> None:
    """It keeps what it needs to be asked for again, and begins its checks anew then."""
    aside = decode_record(set_aside_draft(record_of(), 15).record)
    assert (aside.topic, aside.queue_id, aside.body) == (CHECK_MAX_TIME_TOPIC, 0, b"half")
    assert aside.property_map() == PROPERTIES | {"TRANSACTION_CHECK_TIMES": "15"}
    resumed = HalfMessage.of(decode_record(resumed_draft(aside).record))
    assert (resumed.checks, resumed.is_copy) == (0, False)
    assert resumed.identity == HalfMessage.of(record_of()).identity


def test_the_question() -> None:
    """The producer sees its own topic and queue, and the offsets its answer has to name."""
    record = record_of()
    asked = decode_record(question(HalfMessage.of(record), record, 3))
    assert (asked.topic, asked.queue_id, asked.body) == ("orders", 3, b"half")
    assert (asked.queue_offset, asked.physical_offset, asked.sys_flag) == (5, 4096, 0x301)
    assert asked.property_map()["TRANSACTION_CHECK_TIMES"] == "3"


FULL = MAX_PROPERTIES_BYTES - len(encode_properties(PROPERTIES))


@pytest.mark.parametrize(
    "behind",
    [b"a\x01b\x01c\x02", b"a\x01b", b"\x01\x02\x02nothing\x02", b"a\x01\xff\x02a\x01last\x02", b"a" * FULL],
    ids=["0x01 in a value", "no end", "no pairs", "no UTF-8, and twice", "no room"],
)
def test_whatever_a_half_message_holds_it_can_be_ended(behind: bytes) -> None:
    """What was acknowledged is committed, asked about, set aside and resumed, with what its sender wrote as it is."""
    record = record_of(behind=behind)
    half = HalfMessage.of(record)
    aside = decode_record(set_aside_draft(record, 15).record)
    made = [
        decode_record(committed_draft(half, record, half.real_queue_id).record),
        decode_record(question(half, record, 3)),
        aside,
        decode_record(resumed_draft(aside).record),
    ]
    assert all(behind in message.properties for message in made)
    counted = {} if len(behind) == FULL else {"TRANSACTION_CHECK_TIMES": "15"}
    assert aside.property_map() == record.property_map() | counted
    assert HalfMessage.of(made[-1]).checks == 0
