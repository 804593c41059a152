"""Batch bodies."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import BodyError, InvalidMessage
from rmqspark.protocol.records.batch import BatchElement, decode_batch, encode_batch

elements = st.builds(BatchElement, st.binary(max_size=30), st.binary(max_size=30), st.integers(-(2**31), 2**31 - 1))


@pytest.mark.property
@given(st.lists(elements, max_size=8))
def test_batch_round_trip(batch: list[BatchElement]) -> None:
    """What is sent together arrives together, in order."""
    assert decode_batch(encode_batch(batch)) == batch


@pytest.mark.property
@given(st.binary(max_size=80) | st.lists(elements, max_size=3).map(encode_batch), st.data())
def test_any_bytes_decode_or_raise(wire: bytes, data: st.DataObject) -> None:
    """Hostile bytes end in messages or in BodyError, in nothing else."""
    changed = bytearray(wire)
    if changed:
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        batch = decode_batch(changed)
    except BodyError:
        return
    assert sum(22 + len(element.body) + len(element.properties) for element in batch) == len(changed)


@pytest.mark.parametrize(
    "head",
    [
        pack(">iIIii", -1, 0, 0, 0, 0),
        pack(">iIIii", 21, 0, 0, 0, 0),
        pack(">iIIii", 23, 0, 0, 0, 0),
        pack(">iIIii", 24, 0, 0, 0, 0) + bytes(2),
        pack(">iIIii", 22, 0, 0, 0, -1),
        pack(">iIIii", 22, 0, 0, 0, 1),
        pack(">iIIii", 22, 0, 0, 0, 2**31 - 1),
    ],
)
def test_sizes_that_contradict_each_other(head: bytes) -> None:
    """No length is believed that reaches beyond its message."""
    with pytest.raises(BodyError):
        decode_batch(head + bytes(2))


def test_batches_are_bounded() -> None:
    """A request cannot hold more messages than the receiver is ready for."""
    wire = encode_batch([BatchElement(b"")] * 3)
    assert len(decode_batch(wire, max_elements=3)) == 3
    with pytest.raises(BodyError, match="more than 2"):
        decode_batch(wire, max_elements=2)
    with pytest.raises(InvalidMessage, match="32768"):
        encode_batch([BatchElement(b"", bytes(32768))])
