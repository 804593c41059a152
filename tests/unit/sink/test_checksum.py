"""The sum by which two runs of a batch are compared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zlib_ng.zlib_ng import crc32

from rmqspark.sink.rows.checksum import RowChecksum
from rmqspark.sink.rows.hashes import add_rows

BODIES = st.lists(st.binary(min_size=1, max_size=20), max_size=30)


def summed(bodies: list[bytes], topic: str | None = None) -> RowChecksum:
    total = RowChecksum()
    crcs = np.array([crc32(body) & 0x7FFFFFFF for body in bodies], np.uint32)
    add_rows(total, crcs, np.array([len(body) for body in bodies], np.int64), topic)
    return total


@pytest.mark.property
@given(BODIES, st.data())
def test_neither_order_nor_division_into_tasks_counts(bodies: list[bytes], data: st.DataObject) -> None:
    """A batch run again in another order and by other tasks has the same sum."""
    shuffled = data.draw(st.permutations(bodies))
    cut = data.draw(st.integers(0, len(bodies)))
    parts = summed(list(shuffled[:cut]))
    rest = summed(list(shuffled[cut:]))
    parts.merge(rest.rows, rest.checksum)
    assert parts == summed(bodies)


@pytest.mark.property
@given(BODIES, BODIES)
def test_other_bodies_have_another_sum(bodies: list[bytes], others: list[bytes]) -> None:
    """A row that is missing, doubled or changed shows."""
    assert (summed(bodies) == summed(others)) == (sorted(bodies) == sorted(others))


def test_topics_count_where_they_are_named() -> None:
    """Bodies that change topics have another sum, also where as many go the other way."""
    there = summed([b"a"], "t"), summed([b"b"], "u")
    crossed = summed([b"b"], "t"), summed([b"a"], "u")
    assert len({each.checksum for each in (*there, *crossed, summed([b"a"]))}) == 5
    assert sum(each.checksum for each in there) != sum(each.checksum for each in crossed)


def test_the_sum_itself() -> None:
    """It is kept on disk, so it stays what it is: SplitMix64's finisher of length and CRC, by hand."""
    value = 3 << 32 | crc32(b"abc") & 0x7FFFFFFF
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ value >> shift) * factor % 2**64
    value ^= value >> 31
    assert summed([b"abc"]) == RowChecksum(1, value)
    assert summed([b"abc"] * 1000) == RowChecksum(1000, 1000 * value % 2**64)
