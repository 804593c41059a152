"""What the demo knows of its Spark driver."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rmqspark.cli.demo.pipeline import Plan, unfinished_batch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("planned", "done", "unfinished"),
    [([], [], None), ([0], [], 0), ([0, 1, 2], [0, 1], 2), ([0, 1, 2], [0, 1, 2], None), ([9, 10], [9], 10)],
)
def test_the_batch_that_a_killed_driver_leaves(
    tmp_path: Path, planned: list[int], done: list[int], unfinished: int | None
) -> None:
    """It is in Spark's offset log and not in its commit log."""
    for log, batches in (("offsets", planned), ("commits", done)):
        (tmp_path / log).mkdir()
        for batch in batches:
            (tmp_path / log / str(batch)).touch()
            (tmp_path / log / f".{batch}.crc").touch()
    assert unfinished_batch(tmp_path) == unfinished


def test_a_plan_travels_to_another_process() -> None:
    """All of it, as one argument."""
    plan = Plan("h:1", "flights", "delays", "/table", "/checkpoint", 100, 1_000, dies_after_batch=2)
    assert Plan(**json.loads(plan.to_json())) == plan
