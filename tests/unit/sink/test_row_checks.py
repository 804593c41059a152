"""Rows that a task refuses, by number and column."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rmqspark.errors import InvalidMessage
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.properties import MAX_PROPERTIES_BYTES
from rmqspark.protocol.records.unique_keys import UNIQUE_KEY_PAIR_BYTES, IdRange
from rmqspark.sink.rows.checks import check_bodies, check_rows, check_texts, check_topics
from rmqspark.sink.rows.rows import Rows

TEXTS = pa.list_(pa.string())
MAP = pa.map_(pa.string(), pa.string())
QUEUE = MessageQueue("t", "broker-a", 0)


def batch(**columns: Any) -> Any:
    (given,) = columns.values()
    return pa.record_batch({"body": pa.array([b"x"] * len(given), pa.binary()), **columns})


@pytest.mark.parametrize(
    ("bodies", "story"),
    [
        ([b"a", None], "Row 11 .* column 'body' is null"),
        ([b"a", b""], "Row 11 .* column 'body' is empty"),
        ([b"a", bytes((4 << 20) + 1)], "Row 11 .* column 'body' has 4194305 bytes, over the limit"),
    ],
)
def test_bodies_that_no_broker_takes(bodies: list[bytes | None], story: str) -> None:
    """A null, empty or too large body is an error that names row and column."""
    with pytest.raises(InvalidMessage, match=story):
        check_bodies(pa.record_batch({"body": pa.array(bodies, pa.binary())}), first_row=10)


@pytest.mark.parametrize("list_of", [pa.list_, pa.large_list])
def test_a_key_with_a_blank_in_it_is_refused(list_of) -> None:
    """It would be read as two keys; the producer refuses it, too."""
    keys = pa.array([["skipped x"], None, ["k1", "k2"], ["k3", "x y"], ["z z"]], list_of(pa.string())).slice(1)
    with pytest.raises(InvalidMessage, match="Row 12 .* column 'keys' has a key with a blank in it, 'x y'"):
        check_rows(batch(keys=keys), first_row=10)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["k1 k2", "", None]),
        pa.array([["k1", "", None], [], None], TEXTS),
        pa.array([["a b"], ["c"]], TEXTS).slice(1),
        pa.array([], TEXTS),
    ],
)
def test_keys_as_a_topic_has_them_pass(keys: Any) -> None:
    """The source's column, and what split() makes of it."""
    check_rows(batch(keys=keys), 0)


@pytest.mark.parametrize("pair", [("k", ""), ("", "x")])
def test_a_property_that_would_vanish_is_refused(pair: tuple[str, str]) -> None:
    """One with an empty name or value is no property in a record; the producer refuses it, too."""
    maps = pa.array([[("", "")], None, [("a", "b")], [("a", "b"), pair]], MAP).slice(1)
    with pytest.raises(InvalidMessage, match=f"Row 12 .* column 'properties' has the property '{pair[0]}' with an em"):
        check_rows(batch(properties=maps), first_row=10)


def test_properties_that_are_null_or_reserved_pass() -> None:
    """They are left out, as documented."""
    pairs = [[("a", None), ("TAGS", ""), ("__RMQ.TRANSIENT.x", "")], None, []]
    check_rows(batch(properties=pa.array(pairs, MAP)), 0)
    check_rows(batch(properties=pa.array([[("", "")], [("a", "b")], [("", "")]], MAP).slice(1, 1)), 0)


@pytest.mark.parametrize(
    ("topics", "story"),
    [
        (["a", None], "Row 11 .* column 'topic' is null"),
        (["a", "a", ""], "Row 12 .* column 'topic' is ''"),
        (["a", "a b", "c d"], "Row 11 .* column 'topic' is 'a b'.*not allowed"),
        (["a", "%RETRY%billing"], "Row 11 .* column 'topic' is '%RETRY%billing'.*consumers of its group send back"),
    ],
)
def test_rows_that_name_no_topic(topics: list[str | None], story: str) -> None:
    """A null, empty or malformed topic is an error that names row and column."""
    with pytest.raises(InvalidMessage, match=story):
        check_topics(pa.array(topics).dictionary_encode(), first_row=10)


def test_texts_that_are_no_unicode() -> None:
    """Spark's strings may be any bytes: whichever is wrong with a row is said, and never that Python cannot read it."""
    odd = pa.array([b"a", b"\xff", b"\xff \x01"], pa.binary()).view(pa.string())
    with pytest.raises(InvalidMessage, match="Row 11 .* column 'topic' is '\ufffd'.*not allowed"):
        check_topics(odd.dictionary_encode(), first_row=10)
    offsets = pa.array([0, 1, 2, 3], pa.int32())
    lists, maps = pa.ListArray.from_arrays(offsets, odd), pa.MapArray.from_arrays(offsets, odd, odd)
    for columns in ({"tags": odd}, {"keys": lists}, {"properties": maps}):
        rows = pa.record_batch({"body": pa.array([b"x"] * 3, pa.binary()), **columns})
        with pytest.raises(InvalidMessage, match="Row 12 .* contains byte 0x01 or 0x02: '\ufffd "):
            check_texts(rows, first_row=10)
    with pytest.raises(InvalidMessage, match="Row 12 .* a key with a blank in it, '\ufffd "):
        check_rows(batch(keys=lists), first_row=10)


@pytest.mark.parametrize(
    ("columns", "story"),
    [
        ({"tags": pa.array(["a", None, "b\x01c"])}, r"Row 12 .* column 'tags' contains byte 0x01 or 0x02: 'b\\x01c'"),
        ({"keys": pa.array([[], ["k", "x\x02"], ["\x01"]], TEXTS)}, "Row 11 .* column 'keys' contains byte"),
        ({"properties": pa.array([[("\x02", "v")], None, []], MAP)}, "Row 10 .* column 'properties' contains byte"),
        (
            {"shardingKey": pa.array(["a", "é" * 20_000, "b"])},
            "Row 11 .* column 'shardingKey' has 40001 bytes; .*32767",
        ),
        (
            {"tags": pa.array(["x" * 20_000, "a", "x" * 16_000]), "keys": pa.array(["k", "k", "k" * 17_000])},
            "Row 12 .* column 'keys' has 17001 bytes; all properties of a record have room for 32767",
        ),
    ],
)
def test_texts_that_no_record_holds(columns: dict[str, Any], story: str) -> None:
    """The error names the row and the column, in the order in which Spark gave the rows."""
    rows = pa.record_batch({"body": pa.array([b"x"] * 3, pa.binary()), **columns})
    with pytest.raises(InvalidMessage, match=story):
        check_texts(rows, first_row=10)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("tags", lambda size: pa.array(["a", "t" * (size - 6)])),
        ("keys", lambda size: pa.array(["a", "k" * (size - 6)])),
        ("keys", lambda size: pa.array([["a"], ["k" * 10, None, "", "k" * (size - 17)]], TEXTS)),
        ("shardingKey", lambda size: pa.array(["", "s" * (size - 15)])),
        ("properties", lambda size: pa.array([[("a", "b")], [("n" * 10, "v" * (size - 12)), ("z", None)]], MAP)),
    ],
)
def test_texts_of_one_byte_too_many(column: str, values: Any) -> None:
    """Beside its unique id a record has room for 32725 bytes of properties, names and separators included."""
    room = MAX_PROPERTIES_BYTES - UNIQUE_KEY_PAIR_BYTES
    last, first_too_large = batch(**{column: values(room)}), batch(**{column: values(room + 1)})
    check_texts(last, first_row=10)
    assert int(rows_of(last).sizes.max()) > room
    with pytest.raises(InvalidMessage):
        rows_of(first_too_large).bulk(QUEUE, 0, 2, born_timestamp_ms=1, born_host=bytes(8), out=None)
    with pytest.raises(InvalidMessage, match=f"Row 11 .* column '{column}' has 327.. bytes; .*32767"):
        check_texts(first_too_large, first_row=10)


def rows_of(rows: Any) -> Rows:
    return Rows(rows, "t", IdRange("0" * 20, 0), "none")


def test_texts_that_do_not_travel_are_not_looked_at() -> None:
    """Reserved names, and null values: they are left out."""
    pairs = [[("KEYS", "a\x01"), ("k", None), ("l", "v")]]
    check_texts(batch(properties=pa.array(pairs, MAP)), 0)
