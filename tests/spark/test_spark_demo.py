"""`rmq demo`, all of it, with a part of its flights."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from rmqspark.cli.demo.verb import _run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow_first, pytest.mark.timeout(900)]

ROWS_PER_TRIGGER = 4_096  # two sends for each of its eight queues, so that no batch is ahead of another's event time
FLIGHTS = 3 * ROWS_PER_TRIGGER  # the driver dies at the end of the third batch; what closes the stream comes after it


def test_a_demo_from_the_first_flight_to_the_verdict(tmp_path: Path) -> None:
    """Its driver is killed with a batch written and not recorded, and started again: topic and Delta table have what
    pandas computes, each row once, and the last lines say so."""
    printed = StringIO()
    console = Console(file=printed, width=300, highlight=False)
    assert _run(console, tmp_path, keep=False, most=FLIGHTS, rows_per_trigger=ROWS_PER_TRIGGER)
    said = printed.getvalue()
    for where in ("topic", "Delta table"):
        assert f"{where}: {FLIGHTS:,} of {FLIGHTS:,} flights counted" in said
    assert (
        "offsets/2 was there, commits/2 was not). Started again, it ran batch 2 once more: that added nothing" in said
    )
    assert said.splitlines()[-1].startswith("Nothing lost, nothing doubled:")
    assert (tmp_path / "delays.png").exists()
