"""The long forms of property and fault tests, for about as long as wished: `make soak SECONDS=1800`.

A soak is a row of rounds. A round is one run of pytest over one part of the tests, with a seed of its own and a share
of what these tests do at the most (`amount` in conftest.py): 0 is what `make test` does, 1 the whole long form. No
round is ever cut off. The first does little; how long it took says how fast this machine is today, and so what share
of the long forms the next one has time for. A round that could not end in time is not begun, and where one takes longer
than was planned, or the time is too short for even the first, the tests that are left when it is over are not begun
either, and counted (`soak_ends` in conftest.py): a soak is over when its time is, but for the tests then under way.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

INTERRUPTED = 130
TIME_IS_OVER = "the soak's time is over"  # as conftest.py says it
NOT_BEGUN = "not begun for want of time"
_ENDS = ("failure", "error", "skipped")
CAUTION = 0.9  # of the time that is left is planned with


@dataclass(frozen=True)
class Part:
    """Tests that run together, and how long they take on two quiet cores: their short forms, what is whole from the
    least share on (`by=LEAST_SHARE`), and their long forms."""

    name: str
    pytest: tuple[str, ...]
    short_s: float
    least_s: float
    long_s: float

    def seconds(self, share: float) -> float:
        return self.least_s + (self.long_s - self.least_s) * share if share else self.short_s

    def share(self, seconds: float) -> float:
        """What there is time for: nothing, or from the least share to 1."""
        if seconds < self.seconds(LEAST_SHARE):
            return 0.0
        return min(1.0, (seconds - self.least_s) / (self.long_s - self.least_s))


BROKERS = Part(
    "without Spark", ("-n", "2", "--dist", "worksteal", "-m", "(property or faults) and not spark"), 430, 690, 7200
)
SPARK = Part("with Spark", ("-m", "faults and spark"), 200, 200, 1200)
LEAST_SHARE = 0.01
MOST_FOR_FIRST = 0.5  # of the time, where the kills that half an hour is to show are in the first round
SHARE_OF_FIRST = 0.1  # of the time, for the round that finds out how fast the machine is
SHARE_OF_SPARK = 0.4


@dataclass(frozen=True)
class Plan:
    """What the next round runs, and how much of it."""

    part: Part
    share: float


class Planner:
    """Decides what to run next; knows time only from what it is told."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds
        self._slowness = dict.fromkeys((BROKERS, SPARK), 1.0)  # times as long as on two quiet cores
        self.rounds = 0

    def next(self) -> Plan | None:
        """None where the time does not suffice for another round."""
        if self.rounds == 0:
            return Plan(BROKERS, _share_of_first(self._usable_s(BROKERS)))
        if self.rounds == 1 and (usable_s := self._usable_s(SPARK)) >= SPARK.short_s:
            return Plan(SPARK, SPARK.share(_seconds_for_spark(usable_s)))
        usable_s = self._usable_s(BROKERS)
        return Plan(BROKERS, BROKERS.share(usable_s)) if usable_s >= BROKERS.short_s else None

    def took(self, plan: Plan, seconds: float) -> None:
        """What was slow is most likely slow again, and as long as they have not been seen so are all others."""
        self._left_s -= seconds
        slowness = seconds / plan.part.seconds(plan.share)
        self._slowness.update(dict.fromkeys((BROKERS, SPARK), slowness) if self.rounds == 0 else {plan.part: slowness})
        self.rounds += 1

    def _usable_s(self, part: Part) -> float:
        return CAUTION * self._left_s / self._slowness[part]


def _share_of_first(usable_s: float) -> float:
    """As little as tells how fast the machine is today, but with the kills where half of the time suffices for them."""
    return BROKERS.share(SHARE_OF_FIRST * usable_s) or min(LEAST_SHARE, BROKERS.share(MOST_FOR_FIRST * usable_s))


def _seconds_for_spark(usable_s: float) -> float:
    """All there is, where it would not suffice for a third round."""
    shared_s = max(SHARE_OF_SPARK * usable_s, SPARK.short_s)
    return shared_s if usable_s - shared_s >= BROKERS.short_s else usable_s


@dataclass
class Totals:
    """What all rounds did and said."""

    rounds: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def read(self, report: Path, where: str) -> None:
        """Adds what a round left as JUnit's XML."""
        self.rounds.append(where)
        for case in ElementTree.parse(report).iter("testcase"):
            ends = [_end(found) for kind in _ENDS if (found := case.find(kind)) is not None]
            self.outcomes.update(ends or ["passed"])
            self.told += [
                f"{case.get('name')} [{len(self.rounds)}]: {one.get('value')}"
                for one in case.iter("property")
                if one.get("name") == "told"
            ]

    def verdict(self, code: int) -> str:
        """The soak in a word, whose last round ended with this code."""
        if code:
            return "interrupted" if code == INTERRUPTED else "failed"
        if not self.outcomes["passed"]:
            return "failed for want of time: no test was begun"
        return "green as far as it came" if self.outcomes[NOT_BEGUN] else "green"

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {end}" for end, count in sorted(self.outcomes.items()))
        return "\n".join((*self.rounds, *sorted(self.told), counts))


def _end(found: ElementTree.Element) -> str:
    return NOT_BEGUN if found.get("message") == TIME_IS_OVER else found.tag


def run(plan: Plan, number: int, report: Path, left_s: float) -> int:
    """One round: what pytest says in the end."""
    seed = f"--hypothesis-seed={number}", f"--randomly-seed={number}"
    options = ("--hypothesis-profile=soak", "--timeout=3600", f"--junitxml={report}", "-o", "junit_family=xunit1")
    command = [sys.executable, "-m", "pytest", "-q", *plan.part.pytest, *options, *seed]
    said = {"RMQ_SOAK_SHARE": str(plan.share), "RMQ_SOAK_ENDS": str(time.time() + left_s)}
    return subprocess.run(command, env={**os.environ, **said}, check=False).returncode


def soak(seconds: float) -> int:
    """Rounds until the time is over or one fails; 0 if none did."""
    planner, totals, code = Planner(seconds), Totals(), 0
    begin = time.monotonic()
    with TemporaryDirectory() as directory:
        while code == 0 and (plan := planner.next()):
            number, round_begin = planner.rounds + 1, time.monotonic()
            left_s = begin + seconds - round_begin
            where = f"round {number}, {plan.part.name}, {plan.share:.0%} of the long forms"
            print(f"soak: {where}, {left_s:.0f} s left", flush=True)
            report = Path(directory) / f"{number}.xml"
            try:
                code = run(plan, number, report, left_s)
            except KeyboardInterrupt:
                code = INTERRUPTED
            planner.took(plan, time.monotonic() - round_begin)
            if report.exists():
                totals.read(report, where)
    took_s = time.monotonic() - begin
    print(f"{' told in all rounds ':=^100}\n{totals}")
    print(f"soak: {totals.verdict(code)} after {planner.rounds} rounds, {took_s:.0f} s")
    return code or totals.outcomes["passed"] == 0


if __name__ == "__main__":
    sys.exit(soak(float(sys.argv[1])))
