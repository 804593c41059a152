"""The checksum that a record may carry as its last property (spec: storage, section 2.2; RocketMQ's
`enabledAppendPropCRC`). rmqspark neither writes nor asks for it, and reads records that have it as any others.

It covers the record up to the 20 bytes it takes itself, so it can be made only when everything else is final: room is
reserved when the properties are encoded, and filled when the record has its place. Its ten digits stand in reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zlib_ng.zlib_ng import crc32

from rmqspark.protocol.records.properties import PAIR_END, Property
from rmqspark.protocol.records.record import CRC_MASK, check_record

if TYPE_CHECKING:
    from rmqspark.protocol.records.record import Buffer

CRC_PROPERTY_BYTES: Final = 20

_DIGITS: Final = 10
_NAME: Final = f"{Property.CRC32}\x01".encode()


def reserve_property_crc(properties: bytes) -> bytes:
    """The properties with room for the checksum behind them."""
    separator = b"" if not properties or properties[-1] == PAIR_END else b"\x02"
    return properties + separator + _NAME + b"0" * _DIGITS + b"\x02"


def fill_property_crc(record: bytearray | memoryview) -> None:
    """Writes the checksum of a record whose properties have room for it. No byte may change afterwards."""
    record[-CRC_PROPERTY_BYTES:] = _property(record)


def has_valid_property_crc(record: Buffer) -> bool:
    """Whether the record ends in its checksum. Raises RecordError for what is no record."""
    size = check_record(record, check_crc=False)
    return bytes(record[size - CRC_PROPERTY_BYTES : size]) == _property(memoryview(record)[:size])


def _property(record: Buffer) -> bytes:
    crc = crc32(memoryview(record)[:-CRC_PROPERTY_BYTES]) & CRC_MASK
    return _NAME + f"{crc:0{_DIGITS}d}"[::-1].encode() + b"\x02"
