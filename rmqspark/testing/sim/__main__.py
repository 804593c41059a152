"""`python -m rmqspark.testing.sim --seed N [--count M] [--json] [--log]`: runs seeds, one after the other.

A seed that fails is told with the command that repeats it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from rmqspark.clock import SystemClock
from rmqspark.testing.sim.runs import Totals, run_all

if TYPE_CHECKING:
    from rmqspark.testing.sim.runs import Outcome

_MOST_TOLD = 20


def main() -> int:
    """0 where no law was broken, else 1."""
    asked = _arguments()
    clock = SystemClock()
    begin_ms, totals = clock.monotonic_ms(), Totals()
    for outcome in run_all(range(asked.seed, asked.seed + asked.count)):
        totals.add(outcome)
        if asked.log:
            print("\n".join(outcome.log))
        if outcome.violations and not asked.json:
            _tell_failure(outcome)
        if sys.stderr.isatty():
            print(_speed(totals, clock.monotonic_ms() - begin_ms), end="\r", file=sys.stderr, flush=True)
    took_ms = clock.monotonic_ms() - begin_ms
    print(_as_json(totals, took_ms, outcome.trace_hash) if asked.json else _as_text(totals, took_ms))
    return 1 if totals.failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rmqspark.testing.sim", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="the first seed")
    parser.add_argument("--count", type=_positive, default=1, help="how many seeds (1)")
    parser.add_argument("--json", action="store_true", help="figures as JSON, and the hash of the last run")
    parser.add_argument("--log", action="store_true", help="everything that happened")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number of seeds, 1 or more")
    return int(text)


def _tell_failure(outcome: Outcome) -> None:
    more = len(outcome.violations) - _MOST_TOLD
    print(outcome.story, *outcome.violations[:_MOST_TOLD], sep="\n  ")
    if more > 0:
        print(f"  … and {more} more")
    print(outcome.command, flush=True)


def _speed(totals: Totals, took_ms: int) -> str:
    a_second = 1000 * totals.seeds / max(1, took_ms)
    return f"{totals.seeds} seeds, {a_second:.1f} a second, {totals.simulated_s:,.0f} s simulated"


def _as_text(totals: Totals, took_ms: int) -> str:
    reached = ", ".join(f"{point} {count:,}" for point, count in sorted(totals.reached.items()))
    verdict = f"failed: {totals.failed}" if totals.failed else "none failed"
    return f"{_speed(totals, took_ms)}, {totals.acknowledged:,} sends acknowledged; {verdict}\nreached: {reached}"


def _as_json(totals: Totals, took_ms: int, trace_hash: str) -> str:
    return json.dumps(
        {
            "seeds": totals.seeds,
            "tookMs": took_ms,
            "simulatedS": totals.simulated_s,
            "acknowledged": totals.acknowledged,
            "failed": totals.failed,
            "reached": dict(sorted(totals.reached.items())),
            "traceHash": trace_hash,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
