"""One record at a time."""

from __future__ import annotations

from struct import pack_into
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidMessage, RecordError
from rmqspark.protocol.records.record import (
    BODY_LENGTH_AT,
    HEAD_BYTES,
    MIN_RECORD_BYTES,
    SysFlag,
    body_crc,
    check_record,
    decode_record,
    encode_record,
    encode_unplaced,
    patch_record,
    store_timestamp_at,
)
from rmqspark.protocol.records.record_batch import RecordBatch

from .record_strategies import encoded_records, record_fields

SAMPLE = bytes(
    encode_record(topic="T", body=b"body", properties=b"TAGS\x01a\x02", born_host=bytes(8), store_host=bytes(8))
)
PROPERTIES_AT = len(SAMPLE) - 7
TOPIC_AT = HEAD_BYTES + 4


def with_int(fmt: str, at: int, value: int, record: bytes = SAMPLE) -> bytes:
    changed = bytearray(record)
    pack_into(fmt, changed, at, value)
    return bytes(changed)


BAD_RECORDS = {
    "nothing": b"",
    "shorter than any record": SAMPLE[: MIN_RECORD_BYTES - 1],
    "shorter than its size": SAMPLE[:-1],
    "size zero": with_int(">i", 0, 0),
    "size negative": with_int(">i", 0, -1),
    "size below the head's": with_int(">i", 0, MIN_RECORD_BYTES - 1),
    "size beyond the buffer": with_int(">i", 0, len(SAMPLE) + 1),
    "size below the sum of its parts": with_int(">i", 0, len(SAMPLE) - 1),
    "magic zero": with_int(">I", 4, 0),
    "magic of a blank": with_int(">I", 4, 0xCBD43194),
    "magic zero, and a long topic": with_int(">I", 4, 0, bytes(encode_record(topic="x" * 128, body=b""))),
    "magic of the other version": with_int(">I", 4, 0xDAA320AB),
    "body length negative": with_int(">i", BODY_LENGTH_AT, -1),
    "body beyond the record": with_int(">i", BODY_LENGTH_AT, len(SAMPLE)),
    "body over the other parts": with_int(">i", BODY_LENGTH_AT, len(SAMPLE) - HEAD_BYTES),
    "body length huge": with_int(">i", BODY_LENGTH_AT, 2**31 - 1),
    "topic length negative": with_int(">b", TOPIC_AT, -1),
    "topic beyond the record": with_int(">b", TOPIC_AT, 127),
    "properties length negative": with_int(">h", PROPERTIES_AT - 2, -1),
    "properties beyond the record": with_int(">h", PROPERTIES_AT - 2, 32767),
    "properties short of the record's end": with_int(">h", PROPERTIES_AT - 2, 6),
    "no room for the IPv6 hosts it announces": with_int(
        ">i", 36, SysFlag.HOSTS_MASK, bytes(encode_record(topic="", body=b""))
    ),
    "body changed": SAMPLE.replace(b"body", b"bodY"),
}


@pytest.mark.parametrize("case", BAD_RECORDS)
def test_bad_record_is_refused(case: str) -> None:
    """What is no whole, consistent record is never taken for one."""
    with pytest.raises(RecordError):
        decode_record(BAD_RECORDS[case])
    with pytest.raises(RecordError):
        check_record(BAD_RECORDS[case])


def test_offset_must_be_within_the_buffer() -> None:
    """A record is looked for only where the buffer has bytes."""
    assert check_record(b"xx" + SAMPLE + b"yy", 2) == len(SAMPLE)
    for offset in (-1, 1, len(SAMPLE), len(SAMPLE) + 5):
        with pytest.raises(RecordError):
            check_record(SAMPLE, offset)


def test_checksum_is_looked_at_only_when_asked() -> None:
    """Dispatching does not pay for checksums, and an empty body has none."""
    assert check_record(BAD_RECORDS["body changed"], check_crc=False) == len(SAMPLE)
    RecordBatch.scan(BAD_RECORDS["body changed"] * 2).check()
    assert decode_record(BAD_RECORDS["body changed"], check_crc=False).body == b"bodY"
    empty = with_int(">I", 8, 12345, bytes(encode_record(topic="T", body=b"")))
    assert check_record(empty) == len(empty)


def test_too_long_parts_are_refused() -> None:
    """What the length fields cannot say is an error of the caller, not a broken record."""
    with pytest.raises(InvalidMessage, match="topic"):
        encode_record(topic="x" * 32768, body=b"")
    with pytest.raises(InvalidMessage, match="properties"):
        encode_record(topic="x", body=b"", properties=bytes(32768))
    with pytest.raises(InvalidMessage):
        encode_unplaced("x", b"", bytes(32768), 0, 0, 0, 0, bytes(8), 0)


def test_store_host_must_have_the_width_of_the_record() -> None:
    """An IPv6 address is never written over the fields behind an IPv4 one."""
    with pytest.raises(ValueError, match="20 bytes"):
        patch_record(
            bytearray(SAMPLE), 0, queue_offset=0, physical_offset=0, store_timestamp_ms=0, store_host=bytes(20)
        )


@pytest.mark.property
@given(record_fields)
def test_record_round_trip(fields: dict[str, Any]) -> None:
    """What is written is what is read, for every kind of record."""
    wire = encode_record(**fields)
    record = decode_record(bytes(3) + wire + bytes(5), 3)
    derived = {
        "size": len(wire),
        "body_crc": body_crc(fields["body"]),
        "sys_flag": record.sys_flag,
    }
    assert {name: getattr(record, name) for name in record.__struct_fields__} == fields | derived
    assert record.sys_flag & ~SysFlag.HOSTS_MASK == fields["sys_flag"]
    assert bool(record.sys_flag & SysFlag.BORN_HOST_V6) == (len(fields["born_host"]) == 20)


@pytest.mark.property
@given(record_fields)
def test_patching_equals_encoding(fields: dict[str, Any]) -> None:
    """A record patched when it is appended is the record that would have been encoded then."""
    blank = {"queue_offset": 0, "physical_offset": 0, "store_timestamp_ms": 0}
    record = encode_record(**fields | blank | {"store_host": bytes(len(fields["store_host"]))})
    place = {name: fields[name] for name in ("queue_offset", "physical_offset", "store_timestamp_ms", "store_host")}
    patch_record(record, 0, **place)
    assert record == encode_record(**fields)
    at = store_timestamp_at(decode_record(record).sys_flag)
    assert int.from_bytes(record[at : at + 8], "big", signed=True) == fields["store_timestamp_ms"]


@pytest.mark.property
@given(record_fields)
def test_both_ways_of_encoding_give_the_same_bytes(fields: dict[str, Any]) -> None:
    """A message has one record, whoever encodes it."""
    names = ["topic", "body", "properties", "queue_id", "flag", "sys_flag"]
    known = {name: fields[name] for name in [*names, "born_timestamp_ms", "born_host", "reconsume_times"]}
    assert encode_unplaced(**known) == encode_record(**known)


@given(st.binary(max_size=200) | encoded_records, st.data())
def test_any_bytes_decode_or_raise(wire: bytes, data: st.DataObject) -> None:
    """Hostile bytes end in a record or in RecordError, in nothing else."""
    changed = bytearray(wire)
    for at in data.draw(st.lists(st.integers(0, max(0, len(wire) - 1)), max_size=4)):
        if wire:
            changed[at] = data.draw(st.integers(0, 255))
    try:
        record = decode_record(changed, check_crc=False)
    except RecordError:
        return
    assert record.size <= len(changed)
    assert len(record.body) + len(record.properties) < record.size
