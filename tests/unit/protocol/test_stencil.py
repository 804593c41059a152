"""Headers that are one read before but for a few values."""

from __future__ import annotations

import pytest

from rmqspark.protocol.commands.by_length import ByLength
from rmqspark.protocol.commands.command import JSON, ROCKETMQ, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.stencil import (
    Spot,
    cut,
    field_spot,
    find,
    opaque_spot,
    opaque_value,
    other,
    property_spot,
    read_opaque,
)


def header_of(serialize_type: int, opaque: int, **fields: str) -> bytes:
    serialize = "JSON" if serialize_type == JSON else "ROCKETMQ"
    frame = b"".join(encode_request(310, opaque, serialize=serialize, extra=fields))
    return bytes(split_frame(frame[4:]).header)


@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_a_stencil_shows_the_values_of_another_header(serialize_type: int) -> None:
    """Wherever in the header they stand, in either serialization."""
    properties = "TAGS\x01t\x02UNIQ_KEY\x01{}\x02WAIT\x01true"
    first, second = (
        header_of(serialize_type, opaque, a="group", b=topic, e="1", i=properties.format(key))
        for opaque, topic, key in ((17, "orders", "A1"), (42, "prices", "B2"))
    )
    spots = {
        "opaque": opaque_spot(first, serialize_type, 17),
        "topic": field_spot(serialize_type, "b", "orders"),
        "key": property_spot(serialize_type, "UNIQ_KEY", "A1"),
    }
    places = find(first, spots)
    assert places is not None
    assert {name: first[start:stop] for name, (start, stop) in places.items()} == {
        name: spot.value for name, spot in spots.items()
    }
    unpack_from, between = cut(first, sorted(places.values()))
    found = unpack_from(memoryview(b"ahead" + second), 5)
    assert found[::2] == between
    assert set(found[1::2]) == {opaque_value(serialize_type, 42), b"prices", b"B2"}
    changed = header_of(serialize_type, 42, a="group", b="prices", e="2", i=properties.format("B2"))
    assert unpack_from(memoryview(changed), 0)[::2] != between


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"b=1 c=2", "one is not there"),
        (b"a=1 b=1 a=1", "one is there twice"),
        (b"b=a=1", "one is within the other"),
    ],
)
def test_what_is_not_plainly_in_its_place_is_not_found(header: bytes, why: str) -> None:
    """Then no stencil can be cut."""
    assert find(header, {"a": Spot(b"a=", b"1"), "b": Spot(b"b=", header[2:5] if b"b=a" in header else b"1")}) is None


@pytest.mark.parametrize("opaque", [0, 7, -1, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("serialize_type", [JSON, ROCKETMQ])
def test_an_opaque_is_read_as_it_is_written(serialize_type: int, opaque: int) -> None:
    """And it is written as in a header."""
    value = opaque_value(serialize_type, opaque)
    assert read_opaque(serialize_type, value) == opaque
    assert value in header_of(serialize_type, opaque)


def test_the_other_value_is_of_the_same_kind() -> None:
    """Digits stay digits and make no number shorter; all that can change does."""
    assert other(b"0189") == b"1291"
    assert other(b"azAZ-_") == b"baBA-_"


def test_however_many_lengths_there_are_memory_is_bounded() -> None:
    """The newest of one length are found first, and some hundred lengths are kept."""
    made: ByLength[int] = ByLength()
    for n in range(6):
        made.remember(5, n)
    assert made[5] == [5, 4, 3, 2]
    for length in range(600):
        made.remember(length, 0)
    assert made.total <= 1024
