"""How a soak fills its time with rounds that it need not cut off."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SOAK = runpy.run_path(str(Path(__file__).parents[2] / "soak.py"))


def rounds(seconds: float, slowness: float) -> tuple[list[Any], float]:
    """The plans of a soak on a machine that takes `slowness` times as long as two quiet cores, and when it ends."""
    planner, plans, now = SOAK["Planner"](seconds), [], 0.0
    while plan := planner.next():
        took = slowness * plan.part.seconds(plan.share)
        planner.took(plan, took)
        plans.append(plan)
        now += took
    return plans, now


@pytest.mark.parametrize("slowness", [0.5, 1, 2, 3])
@pytest.mark.parametrize("seconds", [600, 1800, 7200])
def test_a_soak_fills_its_time_and_no_more(seconds: float, slowness: float) -> None:
    """On a fast machine as on a busy one the last round ends about when it should, and none begins in vain."""
    plans, ended = rounds(seconds, slowness)
    assert ended <= seconds
    left = seconds - ended
    assert left < 0.11 * seconds + slowness * SOAK["BROKERS"].short_s
    assert all(0 <= plan.share <= 1 for plan in plans)


@pytest.mark.parametrize(("seconds", "with_spark"), [(60, False), (1800, True)])
def test_a_soak_kills_under_spark_where_there_is_time_for_it(seconds: float, with_spark: bool) -> None:
    """A minute is for brokers alone, and half an hour for both."""
    plans, _ = rounds(seconds, 1)
    assert any(plan.part is SOAK["SPARK"] for plan in plans) == with_spark


def test_the_shortest_soak_is_one_round_of_short_forms() -> None:
    """However little time there is, everything without Spark is done once."""
    assert rounds(1, 1)[0] == [SOAK["Plan"](SOAK["BROKERS"], 0)]


def test_what_rounds_told_is_told_again_in_the_end(tmp_path: Path) -> None:
    """Counts of tests, and every line of theirs with the round it comes from."""
    report = tmp_path / "1.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="test_kills"><properties><property name="told" value="30 kills"/>'
        '</properties></testcase><testcase name="test_x"><failure/></testcase><testcase name="test_y"><skipped/>'
        "</testcase></testsuite></testsuites>"
    )
    totals = SOAK["Totals"]()
    totals.read(report, "round 1")
    assert str(totals) == "test_kills: 30 kills (round 1)\n1 failure, 1 passed, 1 skipped"
