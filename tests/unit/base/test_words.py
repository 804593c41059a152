"""Numbers as `rmq` and the console say them."""

from __future__ import annotations

import pytest

from rmqspark.words import counted, duration, size


@pytest.mark.parametrize(
    ("duration_ms", "said"),
    [(-5, "0 s"), (999, "0 s"), (1_500, "1 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"),
     (86_400_000, "24 h"), (172_800_000, "2 days"), (86_400_000_000, "1,000 days")],
)  # fmt: skip
def test_durations(duration_ms: int, said: str) -> None:
    """In the largest unit of which there are two."""
    assert duration(duration_ms) == said


@pytest.mark.parametrize(
    ("size_bytes", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1536, "1.5 KiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 40, "5.0 TiB"),
    ],
)
def test_sizes(size_bytes: int, said: str) -> None:
    """In units of 1024."""
    assert size(size_bytes) == said


def test_counts() -> None:
    """One of something is not several."""
    assert counted(2, "batch", "batches") == "2 batches"
    assert [counted(1, "row"), counted(0, "row"), counted(2000, "row")] == ["1 row", "0 rows", "2,000 rows"]
