"""The hashes of rows that `checksum.RowChecksum` adds up, thousands at a time.

The hash of a row is the finisher of SplitMix64 over its body's CRC-32 and length. It spreads neighbouring CRCs over the
whole range; without it the sum of two bodies' CRCs would be that of many other pairs. Where a column names the topics,
each row's counts in its hash: a batch that is run again with other topics is not the same.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqspark.protocol.records.body_crcs import body_crcs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.columns import Column
    from rmqspark.sink.rows.checksum import RowChecksum

_LENGTH_SHIFT = np.uint64(32)
_STEPS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
_LAST_SHIFT = np.uint64(31)


def add_rows(
    total: RowChecksum, crcs: NDArray[np.uint32], lengths: NDArray[np.integer[Any]], topic: str | None = None
) -> None:
    """Counts rows in: CRC-32 (without its sign bit, as a record stores it) and length in bytes of each body, and their
    topic, where it counts."""
    total.merge(len(crcs), int(_mixed(crcs, lengths, topic).sum(dtype=np.uint64)))


def add_bodies(total: RowChecksum, bodies: Column, topic: str | None = None) -> None:
    """Counts rows in by their bodies themselves."""
    spans = bodies.spans()
    add_rows(total, body_crcs(bodies.values, spans), spans.lengths, topic)


def _mixed(crcs: NDArray[np.uint32], lengths: NDArray[np.integer[Any]], topic: str | None) -> NDArray[np.uint64]:
    hashes = lengths.astype(np.uint64)
    hashes <<= _LENGTH_SHIFT
    hashes |= crcs
    if topic is not None:
        hashes ^= np.uint64(int.from_bytes(blake2b(topic.encode(), digest_size=8).digest(), "big"))
    for shift, factor in _STEPS:
        hashes ^= hashes >> shift
        hashes *= factor
    hashes ^= hashes >> _LAST_SHIFT
    return hashes
