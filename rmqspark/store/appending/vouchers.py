"""Vouchers: how properties that merely look torn are told from those that are (`scan.py`).

The checksum of a record covers its body alone. What a crash takes of its properties reads as zeros: their end, or whole
sectors. Yet a message may have come with properties that end in a zero or have hundreds of them. Ahead of such messages
the log gets a *voucher*: a record whose body, which its own checksum covers, is the checksums of their properties. It
is on disk no later than they are, and whoever goes through the log meets it before them: it may lie in the file before
theirs, but that goes only when the watermark on disk is behind them (`expiry.py`), and then nobody asks for it.

A voucher is marked as rolled back. So it is in no queue and not in the index, of an Apache broker's neither.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
from zlib_ng.zlib_ng import crc32

from rmqspark.protocol.names import VOUCHER_TOPIC
from rmqspark.protocol.records.record import SysFlag, encode_record, properties_of
from rmqspark.protocol.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.protocol.records.record import Buffer
    from rmqspark.store.appending.single_tables import SingleTable
    from rmqspark.store.appending.singles import Single

SECTOR_BYTES: Final = 512
_CRC: Final = np.dtype(">u4")
_MOST_CRCS: Final = 4096  # in one voucher
_SECTOR_OF_ZEROS: Final = bytes(SECTOR_BYTES)
_properties = attrgetter("properties")


def may_look_torn(properties: Buffer) -> bool:
    """Whether these might look torn, wherever in a file they come to lie."""
    return bool(properties) and (not properties[0] or not properties[-1] or _SECTOR_OF_ZEROS in bytes(properties))


def drafts_in_doubt(records: Iterable[bytearray]) -> list[bytes]:
    """`in_doubt` of single records, which have the layout of one."""
    with_zeros = [properties for record in records if 0 in (properties := properties_of(record))]
    return [bytes(properties) for properties in with_zeros if may_look_torn(properties)]


def singles_in_doubt(singles: Sequence[Single]) -> list[bytes]:
    """`in_doubt` of plain messages."""
    if b"\0" not in b"".join(map(_properties, singles)):
        return []
    return [single.properties for single in singles if may_look_torn(single.properties)]


def table_in_doubt(table: SingleTable) -> list[bytes]:
    """`in_doubt` of messages in a table, whose properties differ in their keys alone."""
    if not may_look_torn(properties_of(table.records[: table.sizes[0]].data)):
        return []
    return in_doubt(RecordBatch.from_sizes(table.records, table.sizes))


def in_doubt(records: RecordBatch) -> list[bytes]:
    """The properties of those records whose might look torn."""
    starts, ends = records.properties.starts, records.properties.ends
    lengths = records.properties.lengths
    doubted = _is_zero(records.buffer, starts, lengths > 0) | _is_zero(records.buffer, ends - 1, lengths > 0)
    longest = int(lengths.max(initial=0))
    for at in range(SECTOR_BYTES - 1, longest, SECTOR_BYTES):  # so many zeros in a row have one at one of these
        doubted |= _is_zero(records.buffer, starts + at, lengths > at)
    return [records.buffer[starts[row] : ends[row]].tobytes() for row in np.flatnonzero(doubted).tolist()]


def _is_zero(buffer: Bytes, places: Positions, has_place: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if has_place.all():
        are_zero: NDArray[np.bool_] = buffer[places] == 0
        return are_zero
    found = np.zeros(len(places), np.bool_)
    found[has_place] = buffer[places[has_place]] == 0
    return found


def vouchers(all_properties: Iterable[bytes]) -> Iterator[bytearray]:
    """Records that vouch for messages with these properties, to be given their places."""
    crcs = np.fromiter({crc32(properties) for properties in all_properties}, _CRC)
    for first in range(0, len(crcs), _MOST_CRCS):
        body = crcs[first : first + _MOST_CRCS].tobytes()
        yield encode_record(topic=VOUCHER_TOPIC, body=body, sys_flag=SysFlag.ROLLED_BACK)


def vouched_for(records: RecordBatch) -> set[int]:
    """The checksums that the vouchers among these records have."""
    rolled_back = (records.sys_flags & SysFlag.TRANSACTION_MASK) == SysFlag.ROLLED_BACK
    rows: Sequence[int] = np.flatnonzero(rolled_back).tolist()
    (bodies, body_lengths), (topics, topic_lengths) = records.bodies, records.topics
    found: set[int] = set()
    for row in rows:
        if records.buffer[topics[row] : topics[row] + topic_lengths[row]].tobytes() == VOUCHER_TOPIC.encode():
            count = int(body_lengths[row]) // _CRC.itemsize
            found.update(np.frombuffer(records.buffer, _CRC, count, int(bodies[row])).tolist())
    return found
