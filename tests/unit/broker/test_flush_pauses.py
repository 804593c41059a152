"""How often queues and index are flushed."""

from __future__ import annotations

import pytest

from rmqspark.broker.safekeeping.flusher import pause_s

FEW, MANY = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("took_s", "interval_s", "bytes_behind", "expected_s"),
    [
        (0.0, 1.0, FEW, 1.0),
        (0.01, 1.0, FEW, 1.0),
        (0.25, 1.0, FEW, 7.5),
        (0.5, 1.0, FEW, 15.0),
        (60.0, 1.0, FEW, 15.0),
        (0.25, 90.0, FEW, 90.0),
        (0.0, 1.0, MANY, 1.0),
        (0.0625, 1.0, MANY, 1.875),
        (60.0, 1.0, MANY, 3.0),
        (0.25, 90.0, MANY, 90.0),
    ],
)
def test_many_queues_are_flushed_less_often(
    took_s: float, interval_s: float, bytes_behind: int, expected_s: float
) -> None:
    """So that it takes a thirtieth of the time; after fifteen seconds it is due anyway, after three where a recovery
    would have much to go through."""
    assert pause_s(took_s, interval_s, bytes_behind) == expected_s
