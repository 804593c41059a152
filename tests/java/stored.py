"""What a broker has on disk, read without it: to compare the bytes of two brokers."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.protocol.records.properties import Property, decode_properties
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from pathlib import Path


class Stored(NamedTuple):
    """What a broker has on disk of a message, without what depends on where and when it was stored."""

    head: bytes
    body_and_topic: bytes
    properties: dict[str, str]
    size: int
    tags_code: int


ENTRY = Struct(">qiq")
PLACES = [
    (28, 36),
    (40, 72),
    (76, 84),
]  # physical offsets; born and stored, with their hosts (spec: storage, section 2)
DRAWN = (Property.UNIQ_KEY, Property.TRANSACTION_ID)
HEAD_BYTES = 88


def stored(store: Path, topic: str) -> list[Stored]:
    """The messages of a topic's queue 0, as its consume queue leads to them in the commit log."""
    return [without_places(record, tags_code) for record, tags_code in raw_records(store, topic)]


def raw_records(store: Path, topic: str) -> list[tuple[bytes, int]]:
    """The records of a topic's queue 0 as they are, each with the tags code of its queue entry."""
    queue = store / "consumequeue" / topic / "0" / f"{0:020d}"
    entries = queue.read_bytes() if queue.exists() else b""
    found = []
    with (store / "commitlog" / f"{0:020d}").open("rb") as log:
        for physical_offset, size, tags_code in ENTRY.iter_unpack(entries[: len(entries) // 20 * 20]):
            if size == 0:
                break
            log.seek(physical_offset)
            record = log.read(size)
            assert decode_record(record).physical_offset == physical_offset
            found.append((record, tags_code))
    return found


def without_places(raw: bytes, tags_code: int) -> Stored:
    record, decoded = bytearray(raw), decode_record(raw)
    for start, end in PLACES:
        record[start:end] = bytes(end - start)
    properties = decode_properties(decoded.properties)
    for name in properties.keys() & DRAWN:
        properties[name] = f"{len(properties[name])} letters, drawn when it was sent"
    rest = bytes(record[HEAD_BYTES : len(raw) - len(decoded.properties)])
    return Stored(bytes(record[:HEAD_BYTES]), rest, properties, len(raw), tags_code)
