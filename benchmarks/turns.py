"""Paths that are compared take turns: how runs are paired, timed, bounded and checked.

In each turn every way runs once, in alternating order, after one turn that only warms up. What one run left in the page
cache is on disk before the next begins. Spark ends Python workers that had nothing to do for a minute, so a way whose
turn comes seldom is given something short to do first (`Way.ahead`). Rows are counted outside the time, and a run that
moved others than it was asked to ends the benchmark. So does one that fails, unless its way may be tried again: Spark's
Kafka connector fails a job now and then when the machine is slow ("Out of order sequence number").
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figures import Figure
from processes import usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from figures import Usage


def nowhere() -> str:
    """The target of a way that writes no topic."""
    return ""


def nothing() -> None:
    """Ahead of a way that is ready at once."""


@dataclass(frozen=True)
class Way:
    """One way of moving rows. Only `run` is timed; it and `count` are given what `target` made. A run that fails is
    made again, up to `tries` in all, and the time of the last one counts. `ahead` is done right before each run."""

    name: str
    rows: int
    run: Callable[[str], object]
    count: Callable[[str], int]  # how many rows came
    target: Callable[[], str] = nowhere
    tries: int = 1
    ahead: Callable[[], object] = nothing


def in_turns(ways: Sequence[Way], repeat: int, timeout_s: int, settle: Callable[[], None] = os.sync) -> list[Figure]:
    """The figures of all ways, in their order, over `repeat` turns. SystemExit where rows are missing, or time."""
    runs: dict[str, list[tuple[float, Usage]]] = {way.name: [] for way in ways}
    for turn in range(repeat + 1):
        for way in ways if turn % 2 else reversed(ways):
            with limited(timeout_s, way.name):
                runs[way.name].append(_run(way, settle))
            progress(f"{f'turn {turn} of {repeat}' if turn else 'warm-up'}: {way.name} {runs[way.name][-1][0]:.2f} s")
    return [
        Figure(way.name, way.rows, [seconds for seconds, _ in counted], [used for _, used in counted])
        for way in ways
        for counted in [runs[way.name][1:]]
    ]


def _run(way: Way, settle: Callable[[], None]) -> tuple[float, Usage]:
    for last in range(1, way.tries):
        try:
            return _try(way, settle)
        except Exception as error:  # noqa: BLE001  # whatever Spark makes of it
            told = next(iter(str(error).splitlines()), repr(error))
            progress(f"{way.name} failed {last} of {way.tries} times, and is run again: {told}")
    return _try(way, settle)


def _try(way: Way, settle: Callable[[], None]) -> tuple[float, Usage]:
    target = way.target()
    way.ahead()
    settle()
    before = usage()
    seconds = timed(lambda: way.run(target))
    used = usage().since(before)
    if (came := way.count(target)) != way.rows:
        raise SystemExit(f"{way.name}: {came:,} rows arrived of {way.rows:,}.")
    return seconds, used


def timed(run: Callable[[], object]) -> float:
    begun = time.perf_counter()
    run()
    return time.perf_counter() - begun


def progress(line: str) -> None:
    """What a person who waits wants to know, beside the results."""
    print(f"  {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def limited(seconds: int, what: str) -> Iterator[None]:
    """Ends the benchmark if its body takes longer."""

    def give_up(*_: object) -> None:
        raise SystemExit(f"{what} took longer than {seconds} s (--timeout).")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
