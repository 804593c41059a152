"""Runs seeds, and says what came of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rmqspark.testing.sim.draw import FAULTS, draw
from rmqspark.testing.sim.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOMETIMES = (
    *FAULTS,
    "late piece",
    "cut within the stream",
    "host gone without a word",
    "client gave up",
    "went by a route that was known",
    "reader was ahead of the queue",
    "writer had to wait",
    "send ConnectionLost",
    "send FlushTimeout",
    "send GoingAway",
    "send NotWritable",
    "send RequestTimeout",
    "incarnation raised",
    "power loss at a decision",
    "power loss at an acknowledgement",
    "process died",
    "process stopped, and went on later",
    "member joined",
    "listener failed",
    "consumed again",
    "transaction executed",
    "transaction asked about",
    "delayed message came",
    "message recalled",
    "batch of a query done",
    "driver died at a step",
    "executor died at a step",
    "query Fenced",
    "queue leased",
    "lease lost",
    "query began anew",
    "frozen query went on",
    "message expired",
    "slave made the master",
    "slave made the master lacked what was not promised",
    "master came back with an empty store",
    "master came back with the store that it had",
    "master lost at an answer",
)
"""What has to be reached in a share of runs that is worth anything."""


@dataclass(frozen=True)
class Outcome:
    """One seed, run. `log` is what happened, `violations` what should not have."""

    seed: int
    story: str
    violations: list[str]
    trace_hash: str
    simulated_s: float
    acknowledged: int
    reached: Counter[str]
    log: list[str]

    @property
    def command(self) -> str:
        return f"python -m rmqspark.testing.sim --seed {self.seed}"


@dataclass
class Totals:
    """Of many seeds."""

    seeds: int = 0
    simulated_s: float = 0.0
    acknowledged: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.simulated_s += outcome.simulated_s
        self.acknowledged += outcome.acknowledged
        self.reached.update(outcome.reached)
        if outcome.violations:
            self.failed.append(outcome.seed)

    @property
    def never_reached(self) -> list[str]:
        return [point for point in SOMETIMES if not self.reached[point]]


def run(seed: int) -> Outcome:
    """One seed. What a run ends with, other than in order, is a violation as well."""
    drawn = draw(seed)
    story = Story(drawn)
    world = story.world
    try:
        story.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is told and the others are run
        world.violations.append(f"the run ended with {error!r}")
    return Outcome(
        seed,
        str(drawn),
        world.violations,
        world.trace.digest(),
        world.loop.time(),
        world.history.acknowledged,
        world.trace.reached_points,
        list(world.log),
    )


def run_all(seeds: Iterable[int]) -> Iterator[Outcome]:
    return map(run, seeds)
