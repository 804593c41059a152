"""Bytes from the specification, most of them checked with RocketMQ's own classes: they settle what the layout is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.java_hash import java_hash, java_hash_spans, tags_code
from rmqspark.protocol.records.batch import BatchElement, decode_batch, encode_batch
from rmqspark.protocol.records.message_id import (
    UniqueIds,
    offset_msg_id,
    pack_host,
    parse_offset_msg_id,
    unique_id,
    unpack_host,
)
from rmqspark.protocol.records.properties import decode_properties, encode_properties
from rmqspark.protocol.records.record import blank_record, check_record, decode_record, encode_record, patch_record
from rmqspark.protocol.records.record_batch import RecordBatch

from .property_crc import fill_property_crc, has_valid_property_crc, reserve_property_crc

pytestmark = pytest.mark.golden

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDS = ("v1_ipv4", "v1_property_crc", "v2_ipv6_born_host")
PLAIN_FIELDS = (
    "topic",
    "queue_id",
    "flag",
    "queue_offset",
    "physical_offset",
    "born_timestamp_ms",
    "store_timestamp_ms",
    "reconsume_times",
    "prepared_transaction_offset",
)


def golden(kind: str, case: str) -> tuple[bytes, dict[str, Any]]:
    vector = json.loads((GOLDEN / kind / f"{case}.json").read_text(encoding="utf-8"))
    return bytes.fromhex(vector["wire"]), vector["meaning"]


def cases(kind: str) -> list[str]:
    return sorted(path.stem for path in (GOLDEN / kind).glob("*.json"))


def encoded(meaning: dict[str, Any]) -> bytes:
    """A meaning as a record; the CRC property comes from the record itself."""
    properties = {name: value for name, value in meaning["properties"].items() if name != "__CRC32#"}
    encoded_properties = encode_properties(properties)
    sealed = properties != meaning["properties"]
    record = encode_record(
        **{name: meaning[name] for name in PLAIN_FIELDS},
        body=meaning["body"].encode(),
        properties=reserve_property_crc(encoded_properties) if sealed else encoded_properties,
        born_host=pack_host(*meaning["born_host"]),
        store_host=pack_host(*meaning["store_host"]),
    )
    if sealed:
        fill_property_crc(record)
    return bytes(record)


@pytest.mark.parametrize("case", RECORDS)
def test_record_is_written_as_rocketmq_writes_it(case: str) -> None:
    """A record that RocketMQ can read comes out of the fields it reads from it."""
    wire, meaning = golden("record", case)
    assert encoded(meaning) == wire


@pytest.mark.parametrize("case", RECORDS)
def test_record_is_read_as_rocketmq_reads_it(case: str) -> None:
    """Every field of a RocketMQ record is found where RocketMQ's decoder finds it."""
    wire, meaning = golden("record", case)
    record = decode_record(wire)
    assert check_record(wire) == meaning["size"]
    assert {name: getattr(record, name) for name in PLAIN_FIELDS} == {name: meaning[name] for name in PLAIN_FIELDS}
    assert (record.body, record.body_crc, record.size) == (
        meaning["body"].encode(),
        meaning["body_crc"],
        meaning["size"],
    )
    assert record.sys_flag == meaning["sys_flag"]
    assert record.property_map() == meaning["properties"]
    assert unpack_host(record.born_host) == tuple(meaning["born_host"])
    assert unpack_host(record.store_host) == tuple(meaning["store_host"])


@pytest.mark.parametrize("case", RECORDS)
def test_record_finds_its_place_by_patching(case: str) -> None:
    """A record encoded before its place is known equals, once patched, one encoded with it."""
    wire, meaning = golden("record", case)
    unplaced = meaning | {
        "queue_offset": 0,
        "physical_offset": 0,
        "store_timestamp_ms": 0,
        "store_host": ("0.0.0.0", 0),
    }
    record = bytearray(encoded(unplaced))
    patch_record(
        record,
        0,
        queue_offset=meaning["queue_offset"],
        physical_offset=meaning["physical_offset"],
        store_timestamp_ms=meaning["store_timestamp_ms"],
        store_host=pack_host(*meaning["store_host"]),
    )
    if "__CRC32#" in meaning["properties"]:
        fill_property_crc(record)
    assert record == wire


def test_records_of_all_kinds_are_read_in_bulk() -> None:
    """One buffer may hold records of both versions, with IPv4 and IPv6 hosts."""
    wires, meanings = zip(*(golden("record", case) for case in RECORDS), strict=True)
    batch = RecordBatch.scan(b"".join(wires))
    batch.check(check_crc=True)
    assert batch.sizes.tolist() == [meaning["size"] for meaning in meanings]
    assert batch.store_timestamps_ms.tolist() == [meaning["store_timestamp_ms"] for meaning in meanings]
    assert batch.tags_codes().tolist() == [2598919, 2598919, 0]


def test_property_crc_shows_any_change() -> None:
    """A record with a checksum property is valid as it is, and not with any byte changed."""
    wire, _ = golden("record", "v1_property_crc")
    assert has_valid_property_crc(wire)
    assert not has_valid_property_crc(golden("record", "v1_ipv4")[0])
    changed = bytearray(wire)
    changed[60] ^= 1
    assert not has_valid_property_crc(changed)
    assert reserve_property_crc(b"A\x01b") == b"A\x01b\x02__CRC32#\x010000000000\x02"


def test_blank_record() -> None:
    """The end of a log file is marked as RocketMQ marks it."""
    wire, meaning = golden("record", "blank")
    assert blank_record(meaning["remaining"]) == wire


@pytest.mark.parametrize("case", cases("tags_code"))
def test_tags_code(case: str) -> None:
    """A queue entry holds the tags' Java hash, sign-extended to 64 bits."""
    wire, meaning = golden("tags_code", case)
    assert tags_code(meaning["tags"]) == meaning["tags_code"] == int.from_bytes(wire[-8:], "big", signed=True)
    tags = np.frombuffer(meaning["tags"].encode(), np.uint8)
    assert java_hash_spans(tags, np.zeros(1, np.int64), np.array([len(tags)])).tolist() == [meaning["tags_code"]]


@pytest.mark.parametrize("case", cases("java_hash"))
def test_java_hash_of_index_keys(case: str) -> None:
    """Index keys hash as on the JVM."""
    wire, meaning = golden("java_hash", case)
    assert java_hash(meaning["text"]) == meaning["java_hash"]
    assert abs(meaning["java_hash"]) == int.from_bytes(wire, "big")


def test_offset_id() -> None:
    """The broker's id says where a message is stored."""
    wire, meaning = golden("message_id", "offset_id")
    host = pack_host(*meaning["host"])
    assert host + meaning["physical_offset"].to_bytes(8, "big") == wire
    assert offset_msg_id(host, meaning["physical_offset"]) == meaning["text"]
    assert parse_offset_msg_id(meaning["text"]) == (host, meaning["physical_offset"])


def test_unique_id() -> None:
    """The client's id is laid out as RocketMQ's clients lay it out, and is not taken for the broker's."""
    wire, meaning = golden("message_id", "unique_id")
    ids = UniqueIds(bytes.fromhex(meaning["loader_hash"]), meaning["pid"], meaning["ip"])
    assert unique_id(ids.prefix, meaning["elapsed_ms"] << 16 | meaning["counter"]) == meaning["text"]
    assert bytes.fromhex(meaning["text"]) == wire
    with pytest.raises(InvalidArgument, match="query"):
        parse_offset_msg_id(meaning["text"])


def test_batch_body() -> None:
    """The body of a batch send is what RocketMQ's encoder makes."""
    wire, meaning = golden("batch", "two_elements")
    elements = [
        BatchElement(element["body"].encode(), encode_properties(element["properties"]), element["flag"])
        for element in meaning["elements"]
    ]
    assert encode_batch(elements) == wire
    decoded = decode_batch(wire)
    assert decoded == elements
    assert [decode_properties(element.properties) for element in decoded] == [{"TAGS": "T"}, {}]
