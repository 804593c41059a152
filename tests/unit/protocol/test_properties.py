"""Properties: how RocketMQ reads them, whatever they contain."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.records.properties import (
    RESERVED_NAMES,
    check_user_properties,
    decode_properties,
    encode_properties,
    join_properties,
    without_properties,
)

from .record_strategies import loose_properties

BOTH_WAYS = [
    ({}, b""),
    ({"TAGS": "a"}, b"TAGS\x01a\x02"),
    ({"TAGS": "a", "k": "v w"}, b"TAGS\x01a\x02k\x01v w\x02"),
    ({"名": "值"}, "名\x01值\x02".encode()),
]

ONLY_READ = [
    (b"TAGS\x01a", {"TAGS": "a"}),  # some 4.x producers leave out the last separator
    (b"a\x01b\x02\x02\x02c\x01d\x02", {"a": "b", "c": "d"}),
    (b"a\x01\x02c\x01d\x02", {"c": "d"}),
    (b"\x01b\x02c\x01d\x02", {"c": "d"}),
    (b"novalue\x02c\x01d\x02", {"c": "d"}),
    (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
    (b"a\x01first\x02a\x01last\x02", {"a": "last"}),
    (b"a\x01first\x02a\x01\x02", {"a": "first"}),
    (b"a\x01\xff\x02", {"a": "\ufffd"}),
]


@pytest.mark.parametrize(("properties", "wire"), BOTH_WAYS)
def test_properties_both_ways(properties: dict[str, str], wire: bytes) -> None:
    """Pairs are stored one after the other, with their separators."""
    assert encode_properties(properties) == wire
    assert decode_properties(wire) == properties


@pytest.mark.parametrize(("wire", "properties"), ONLY_READ)
def test_malformed_pairs_are_read_as_rocketmq_reads_them(wire: bytes, properties: dict[str, str]) -> None:
    """What is no pair vanishes, the others stay, the last of a name wins."""
    assert decode_properties(wire) == properties
    assert decode_properties(memoryview(wire)) == properties


@pytest.mark.parametrize(
    "properties",
    [{"a\x01": "b"}, {"a": "b\x02"}, {"a": "\x01\x02"}, {"": "b"}, {"a": "x" * 32767}, {"a": "\ud800"}],
)
def test_what_cannot_be_stored_is_refused(properties: dict[str, str]) -> None:
    """A separator inside a value would forge a property."""
    with pytest.raises(InvalidMessage):
        encode_properties(properties)


def test_empty_values_are_left_out() -> None:
    """No reader sees an empty value, so none is written."""
    assert encode_properties({"a": "", "b": "c"}) == b"b\x01c\x02"


@pytest.mark.parametrize(
    "properties", [{"TAGS": "a"}, {"__RMQ.TRANSIENT.X": "a"}, {"": "a"}, {"a": ""}, {"a": "\x02"}, {"\x01": "a"}]
)
def test_users_cannot_set_what_rocketmq_reserves(properties: dict[str, str]) -> None:
    """Reserved names, and pairs that would vanish, are refused before they are sent."""
    with pytest.raises(InvalidMessage):
        check_user_properties(properties)


def test_ordinary_user_properties_pass() -> None:
    """Any other name is the user's."""
    check_user_properties({"color": "red", "tags": "lower case is not reserved"})
    assert {"TAGS", "KEYS", "UNIQ_KEY", "__CRC32#", "1ST_POP_TIME"} <= RESERVED_NAMES


@pytest.mark.property
@given(st.dictionaries(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)))
def test_properties_round_trip(properties: dict[str, str]) -> None:
    """What can be stored comes back."""
    try:
        wire = encode_properties(properties)
    except InvalidMessage:
        return
    assert decode_properties(wire) == properties


@pytest.mark.property
@given(loose_properties | st.binary(max_size=60), st.sets(st.sampled_from(["TAGS", "KEYS", "a", "b", "XTAGS"])))
@example(b"TAGS\x01x\x02a\x01y\x02TAGS\x01z", {"TAGS"})
def test_pairs_cut_out_are_gone_and_all_others_stay(wire: bytes, names: set[str]) -> None:
    """Every pair of the names, however often it is there, in whatever bytes clients send."""
    kept = {name: value for name, value in decode_properties(wire).items() if name not in names}
    assert decode_properties(without_properties(wire, names)) == kept


@pytest.mark.property
@given(loose_properties | st.binary(max_size=60))
@example(b"b\x01c")
@example(b"b\x01c\x02")
def test_pairs_put_behind_others_count(wire: bytes) -> None:
    """Also where the last separator was left out."""
    assert decode_properties(join_properties(wire, b"a\x01new\x02")) == decode_properties(wire) | {"a": "new"}
