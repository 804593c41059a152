"""Ids and hosts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.records.message_id import (
    UniqueIds,
    offset_msg_id,
    pack_host,
    parse_offset_msg_id,
    unique_id,
    unpack_host,
)
from rmqspark.protocol.records.unique_keys import unique_keys

MONTH_START_MS = 1_698_796_800_000  # 2023-11-01 00:00 UTC


@pytest.mark.parametrize(
    ("ip", "wire"),
    [
        ("127.0.0.1", "7f000001"),
        ("2001:db8::1", "20010db8000000000000000000000001"),
        ("::ffff:10.0.0.1", "0a000001"),
        ("fe80::1%eth0", "fe800000000000000000000000000001"),
    ],
)
def test_host_field(ip: str, wire: str) -> None:
    """Addresses of both families fit into a record; a mapped IPv4 address is an IPv4 address."""
    host = pack_host(ip, 10911)
    assert host.hex() == wire + "00002a9f"
    assert unpack_host(host)[1] == 10911
    assert pack_host(*unpack_host(host)) == host


def test_what_is_no_host_is_refused() -> None:
    """A name has to be resolved first, and a field cut short has no address."""
    with pytest.raises(InvalidArgument, match="localhost"):
        pack_host("localhost", 1)
    with pytest.raises(InvalidArgument, match="7"):
        unpack_host(bytes(7))


@pytest.mark.property
@given(
    st.sampled_from([4, 16]).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
    st.integers(0, 65535),
    st.integers(0, 2**63 - 1),
)
@example(bytes(4), 65_535, 0)
def test_offset_id_round_trip(address: bytes, port: int, physical_offset: int) -> None:
    """The broker's id leads back to the broker and the place."""
    host = address + port.to_bytes(4, "big")
    assert parse_offset_msg_id(offset_msg_id(host, physical_offset)) == (host, physical_offset)


@pytest.mark.parametrize(
    "text", ["", "abc", "zz" * 16, "00" * 15, "00" * 17, "0" * 31 + " ", f"{1 << 80:032X}", "0" * 16 + "F" * 16]
)
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    """Only 32 or 56 hex digits with a real port say where a message is."""
    with pytest.raises(InvalidArgument):
        parse_offset_msg_id(text)


def test_unique_ids_never_repeat() -> None:
    """Not within a millisecond, not when the clock goes back, not after a bulk, not when the counter overflows."""
    ids = UniqueIds(b"abcd", 123456, "10.1.2.3")
    now_ms = MONTH_START_MS + 5
    drawn = [ids.next(now_ms) for _ in range(3)] + [ids.next(now_ms - 3)]
    first = ids.reserve(now_ms, 70_000)
    drawn += [unique_id(ids.prefix, first + n) for n in range(70_000)]
    drawn += [ids.next(now_ms), ids.next(now_ms + 1), ids.next(now_ms + 5_000)]
    assert len(set(drawn)) == len(drawn)
    assert drawn == sorted(drawn)
    assert {len(drawn_id) for drawn_id in drawn} == {32}


def test_unique_ids_carry_the_time_of_the_month() -> None:
    """RocketMQ's tools read the sending time out of an id."""
    ids = UniqueIds(b"abcd", 1, "10.1.2.3")
    assert ids.next(MONTH_START_MS + 0x1234)[20:] == "000012340000"
    december_ms = MONTH_START_MS + 30 * 86_400_000
    assert ids.next(december_ms - 1)[20:28] == f"{30 * 86_400_000 - 1:08X}"
    assert ids.next(december_ms)[20:] == "000000000000"
    assert ids.next(december_ms - 1)[20:] == "000000000001"


def test_unique_ids_of_ipv6_hosts_keep_their_length() -> None:
    """Ids have one length whatever the address, so that bulks of them can be laid out."""
    assert UniqueIds(b"abcd", 1, "2001:db8::7").prefix.startswith("00000007")
    with pytest.raises(InvalidArgument, match="4 bytes"):
        UniqueIds(b"abc", 1, "10.1.2.3")


def test_unique_keys_in_bulk_equal_single_ones() -> None:
    """A bulk of ids is what drawing them one by one gives, over every carry."""
    prefix = UniqueIds(b"abcd", 7, "10.1.2.3").prefix
    sequences = np.array([0, 1, 0xFFFF, 0x10000, 0xFFFFFFFF, 0x100000000, 2**48 - 1, 0x0123456789AB])
    column = unique_keys(prefix, sequences)
    rows = [column.values[a:b].tobytes().decode() for a, b in zip(column.offsets, column.offsets[1:], strict=False)]
    assert rows == [unique_id(prefix, number) for number in sequences.tolist()]
    with pytest.raises(InvalidArgument, match="20 characters"):
        unique_keys("too short", sequences)
