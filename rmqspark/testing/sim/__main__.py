"""`python -m rmqspark.testing.sim --seed N [--count M] [--json]`: runs seeds, one after the other."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from rmqspark.clock import SystemClock
from rmqspark.testing.sim.draw import draw
from rmqspark.testing.sim.story import Story


def main() -> int:
    """0 where no law was broken, else 1 and the command that repeats it."""
    arguments = _arguments()
    clock, simulated_s, sends, reached = SystemClock(), 0.0, 0, Counter[str]()
    begin_ms, failed = clock.monotonic_ms(), []
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        story = Story(draw(seed))
        try:
            story.run()
        except Exception as error:  # noqa: BLE001
            story.world.violations.append(f"the run ended with {error!r}")
            if arguments.log:
                import traceback; traceback.print_exc()
        world = story.world
        simulated_s += world.loop.time()
        sends += world.history.acknowledged
        reached += world.trace.reached_points
        if arguments.log:
            print("\n".join(world.log))
        if world.violations:
            failed.append(seed)
            print(str(story.draw), *world.violations[:20], sep="\n  ", flush=True)
            print(f"python -m rmqspark.testing.sim --seed {seed}", flush=True)
        if arguments.hash: print(seed, world.trace.digest())
        took=(clock.monotonic_ms() - begin_ms)/1000
        if sys.stderr.isatty(): print(seed, took, end="\r", file=sys.stderr)
    took=(clock.monotonic_ms() - begin_ms)/1000
    print(arguments.count, "seeds", f"{arguments.count/took:.1f}/s simulated {simulated_s:.0f} s, {sends} sends acknowledged; failed {failed}")
    print(dict(reached))
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rmqspark.testing.sim", description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds, one after the other")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--log", action="store_true", help="what happened")
    parser.add_argument("--hash", action="store_true", help="the hash")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
