"""A share of the simulator's runs: no law is broken, all that should go wrong does, a seed is always the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.testing.sim.runs import Totals, run

from .planted_bugs import BUGS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.faults]

SHARE = (17, 140, 9014, 42_017, 60_243, 80_024, 80_036)
"""Few that reach everything."""
MOST_NEW = 2_000
"""Seeds of the long form: about 40 minutes on one quiet core."""
AT_A_TIME = 25
SOME = 4
"""Of the seeds that failed once, what each has found has a test of its own where that is worth it; and of those that
planted bugs are met by, which without them find nothing."""
KEPT = Path(__file__).with_name("seeds.txt")
TWICE = 21
"""A run of two brokers with a group, a query and delays."""


def kept_seeds() -> list[int]:
    lines = (line.partition("#")[0].strip() for line in KEPT.read_text().splitlines())
    return [int(line) for line in lines if line]


def run_apart(first: int, count: int) -> dict[str, Any]:
    """Seeds in a process of their own, for what dead processes leave behind is not all given back."""
    command = [sys.executable, "-m", "rmqspark.testing.sim", "--seed", str(first), "--count", str(count), "--json"]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    figures: dict[str, Any] = json.loads(ran.stdout)
    return figures


def test_a_share_of_seeds() -> None:
    """Brokers die, disks and networks fail, and all that was promised is there; each kind of trouble was met."""
    totals = Totals()
    for seed in SHARE:
        outcome = run(seed)
        totals.add(outcome)
        assert not outcome.violations, f"{outcome.story}\n{outcome.violations}\n{outcome.command}"
    assert totals.never_reached == []


def test_seeds_that_found_something_find_nothing(
    seed: int, amount: Callable[..., int], tell: Callable[[str], None]
) -> None:
    """Some of them, others each time; a soak of half an hour runs all."""
    kept = sorted({*kept_seeds(), *(bug.seed for bug in BUGS)} - {*SHARE})
    drawn = Random(seed).sample(kept, amount(SOME, len(kept), by=0.2))
    for each in drawn:
        outcome = run(each)
        assert not outcome.violations, f"{outcome.story}\n{outcome.violations}\n{outcome.command}"
    tell(f"seeds {', '.join(map(str, drawn))}")


def test_seeds_nobody_has_run(seed: int, amount: Callable[[int, int], int], tell: Callable[[str], None]) -> None:
    """The same with others each time; make soak runs many."""
    first, last = seed * 10_000, seed * 10_000 + amount(1, MOST_NEW)
    simulated_s = acknowledged = 0
    for begin in range(first, last, AT_A_TIME):
        figures = run_apart(begin, min(AT_A_TIME, last - begin))
        simulated_s += figures["simulatedS"]
        acknowledged += figures["acknowledged"]
        assert figures["failed"] == [], f"python -m rmqspark.testing.sim --seed {figures['failed'][0]}"
    tell(f"{last - first} seeds from {first}, {simulated_s:,.0f} s simulated, {acknowledged:,} sends acknowledged")


def test_a_seed_is_a_run(tmp_path: Path) -> None:
    """Whatever process runs it, wherever, and however that one hashes: time, wire, disks and clients are the same to
    the byte."""
    command = [sys.executable, "-m", "rmqspark.testing.sim", "--seed", str(TWICE), "--json"]
    processes = [
        subprocess.Popen(command, cwd=cwd, env={**os.environ, "PYTHONHASHSEED": hash_seed}, stdout=subprocess.PIPE)
        for hash_seed, cwd in (("1", tmp_path), ("3", tmp_path.parent))
    ]
    first, second = (json.loads(process.communicate()[0]) for process in processes)
    assert first["traceHash"] == second["traceHash"]
    assert first["simulatedS"] == second["simulatedS"] > 0


def test_a_failure_tells_how_to_repeat_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 1, and the last line before the figures is the command."""
    from rmqspark.testing.sim import __main__ as program
    from rmqspark.testing.sim.story import Story

    def break_a_law(story: Story) -> None:
        story.world.loop.close()
        story.world.violated("planned by the test")

    monkeypatch.setattr(Story, "run", break_a_law)
    monkeypatch.setattr(sys, "argv", ["sim", "--seed", "5"])
    assert program.main() == 1
    out = capsys.readouterr().out
    assert "planned by the test" in out
    assert "\npython -m rmqspark.testing.sim --seed 5\n" in out
