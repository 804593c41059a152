"""The bytes between master and slave: RocketMQ's, however they are cut on their way."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import FrameError
from rmqspark.replication.stream import (
    MOST_TRANSFER_BYTES,
    ReportDecoder,
    Transfer,
    TransferDecoder,
    report,
    transfer_head,
)

VECTORS = [  # spec: storage, TV-9
    (transfer_head(0x1234, 0xBD), "0000000000001234000000bd"),
    (transfer_head(0x12F1, 0), "00000000000012f100000000"),
    (report(0x1234), "0000000000001234"),
]
TRANSFERS = st.lists(st.builds(Transfer, st.integers(0, (1 << 63) - 1), st.binary(max_size=50)))


@pytest.mark.golden
@pytest.mark.parametrize(("made", "hexadecimal"), VECTORS)
def test_bytes_are_rocketmqs(made: bytes, hexadecimal: str) -> None:
    """Heads, heartbeats and reports are what the specification writes down."""
    assert made.hex() == hexadecimal


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@pytest.mark.property
@given(TRANSFERS, st.lists(st.integers(0, 10_000), max_size=30))
def test_transfers_cut_anywhere_are_the_same_transfers(transfers: list[Transfer], cuts: list[int]) -> None:
    """What a master sends arrives as it was sent, in whatever pieces."""
    raw = b"".join(transfer_head(each.offset, len(each.data)) + each.data for each in transfers)
    decoder = TransferDecoder()
    assert [each for piece in pieces(raw, cuts) for each in decoder.feed(piece)] == transfers


@pytest.mark.property
@given(st.lists(st.integers(0, (1 << 63) - 1)), st.lists(st.integers(0, 1000), max_size=30))
def test_reports_cut_anywhere_are_the_same_reports(offsets: list[int], cuts: list[int]) -> None:
    """What a slave reports arrives as it was sent, in whatever pieces."""
    raw, decoder = b"".join(map(report, offsets)), ReportDecoder()
    assert [each for piece in pieces(raw, cuts) for each in decoder.feed(piece)] == offsets


@pytest.mark.parametrize(
    "head", [transfer_head(-1, 0), transfer_head(0, -1), transfer_head(0, MOST_TRANSFER_BYTES + 1)]
)
def test_what_no_master_sends_is_refused(head: bytes) -> None:
    """A size beyond the bound is refused before a byte of it is waited for."""
    with pytest.raises(FrameError):
        TransferDecoder().feed(head)


def test_what_no_slave_reports_is_refused() -> None:
    """No slave has less than nothing."""
    with pytest.raises(FrameError):
        ReportDecoder().feed(report(-1))


@pytest.mark.property
@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(raw: bytes) -> None:
    """Whoever connects may send anything: it is read, or refused, and nothing else."""
    for decoder in (TransferDecoder(), ReportDecoder()):
        with suppress(FrameError):
            decoder.feed(raw)
