"""How often queues and index are flushed."""

from __future__ import annotations

import pytest

from rmqspark.broker.flusher import pause_s


@pytest.mark.parametrize(
    ("took_s", "interval_s", "expected_s"),
    [(0.0, 1.0, 1.0), (0.1, 1.0, 1.0), (0.25, 1.0, 2.5), (0.3, 1.0, 3.0), (6.0, 1.0, 3.0), (0.25, 90.0, 90.0)],
)
def test_many_queues_are_flushed_less_often(took_s: float, interval_s: float, expected_s: float) -> None:
    """As long as that takes a tenth of the time; after three seconds it is due anyway."""
    assert pause_s(took_s, interval_s) == expected_s
