"""How a soak fills its time with rounds that it need not cut off."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[2]
SOAK = runpy.run_path(str(TESTS / "soak.py"))


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
@pytest.mark.parametrize("seconds", [1800, 3600, 7200])
def test_a_soak_fills_its_time_and_no_more(seconds: float, slowness: float) -> None:
    """On a fast machine as on a busy one the last round ends about when it should, and none begins in vain."""
    plans, ended = rounds(seconds, slowness)
    if len(plans) > 1:  # before the first nobody knows how fast the machine is
        assert ended <= seconds
    left = seconds - ended
    assert left < 0.11 * seconds + slowness * SOAK["BROKERS"].short_s
    assert all(0 <= plan.share <= 1 for plan in plans)


@pytest.mark.parametrize(("seconds", "with_spark"), [(60, False), (1800, True)])
def test_a_soak_kills_under_spark_where_there_is_time_for_it(seconds: float, with_spark: bool) -> None:
    """A minute is for brokers alone, and half an hour for both."""
    plans, _ = rounds(seconds, 1)
    assert any(plan.part is SOAK["SPARK"] for plan in plans) == with_spark


@pytest.mark.parametrize("slowness", [0.5, 1, 1.5])
def test_half_an_hour_has_all_kills_and_some_under_spark(slowness: float) -> None:
    """They do not wait for a round that a slow machine has no time for."""
    plans, _ = rounds(1800, slowness)
    assert [plan.part for plan in plans[:2]] == [SOAK["BROKERS"], SOAK["SPARK"]]
    assert plans[0].share == SOAK["LEAST_SHARE"]


def test_the_shortest_soak_is_one_round_of_short_forms() -> None:
    """However little time there is, everything without Spark is done once."""
    assert rounds(1, 1)[0] == [SOAK["Plan"](SOAK["BROKERS"], 0)]


def test_what_rounds_told_is_told_again_in_the_end(tmp_path: Path) -> None:
    """Counts of tests, and every line of theirs with the round it comes from."""
    report = tmp_path / "1.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="test_kills"><properties><property name="told" value="30 kills"/>'
        '</properties></testcase><testcase name="test_x"><failure/></testcase><testcase name="test_y"><skipped/>'
        f'</testcase><testcase name="test_z"><skipped message="{SOAK["TIME_IS_OVER"]}">z</skipped></testcase>'
        "</testsuite></testsuites>"
    )
    totals = SOAK["Totals"]()
    totals.read(report, "round 1, without Spark")
    totals.read(report, "round 2, with Spark")
    assert str(totals).splitlines() == [
        "round 1, without Spark",
        "round 2, with Spark",
        "test_kills [1]: 30 kills",
        "test_kills [2]: 30 kills",
        "2 failure, 2 not begun for want of time, 2 passed, 2 skipped",
    ]


@pytest.mark.parametrize(
    ("code", "passed", "left", "verdict"),
    [
        (0, 5, 0, "green"),
        (0, 5, 2, "green as far as it came"),
        (0, 0, 7, "failed for want of time: no test was begun"),
        (1, 5, 0, "failed"),
        (130, 5, 0, "interrupted"),
    ],
)
def test_a_soak_is_green_only_where_something_was_tested(code: int, passed: int, left: int, verdict: str) -> None:
    """And says so where its time did not suffice for all of it."""
    totals = SOAK["Totals"]()
    totals.outcomes.update({"passed": passed, SOAK["NOT_BEGUN"]: left})
    assert totals.verdict(code) == verdict


def test_a_soak_begins_no_test_when_its_time_is_over(tmp_path: Path) -> None:
    """What is left is skipped in no time, and counted."""
    (tmp_path / "conftest.py").write_text(TESTS.joinpath("conftest.py").read_text())
    (tmp_path / "test_late.py").write_text("def test_late(): raise AssertionError")
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--junitxml=1.xml", str(tmp_path)]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "RMQ_SOAK_ENDS": "1"}, check=True, capture_output=True)
    totals = SOAK["Totals"]()
    totals.read(tmp_path / "1.xml", "round 1")
    assert str(totals) == "round 1\n1 not begun for want of time"
