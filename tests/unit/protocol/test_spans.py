"""Spans of a buffer, all looked at together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.buffers.spans import Spans, have_zeros


@pytest.mark.property
@given(buffer=st.binary(min_size=1, max_size=60), data=st.data())
def test_zeros_are_found_in_the_span_they_stand_in(buffer: bytes, data: st.DataObject) -> None:
    """However long the spans are, wherever they lie, overlapping and empty ones too: as Python would look for them."""
    place = st.integers(0, len(buffer))
    places = data.draw(st.lists(st.tuples(place, place).map(sorted), max_size=12))
    starts, ends = np.array(places, np.int64).reshape(-1, 2).T
    found = have_zeros(np.frombuffer(buffer, np.uint8), Spans(starts, ends - starts))
    assert found.tolist() == [b"\0" in buffer[start:end] for start, end in places]


def test_spans_without_zeros_between_zeros() -> None:
    """What lies between them is not looked at."""
    buffer = np.frombuffer(b"\0ab\0cd\0ef\0", np.uint8)
    assert have_zeros(buffer, Spans(np.array([1, 4, 7]), np.array([2, 2, 2]))).tolist() == [False] * 3
    assert have_zeros(buffer, Spans(np.array([1, 4, 7]), np.array([2, 3, 2]))).tolist() == [False, True, False]
