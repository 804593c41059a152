"""python -m rmqspark.testing.fuzz decoders|servers: a run from a seed, or one round or connection of it again."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from rmqspark.testing.fuzz.decoding import ROUND, run_decoders
from rmqspark.testing.fuzz.golden import golden_frames
from rmqspark.testing.fuzz.servers import run_servers

_GOLDEN = Path("tests/golden")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m rmqspark.testing.fuzz", description=__doc__)
    parser.add_argument("target", choices=("decoders", "servers"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100_000, help="inputs for decoders, frames for servers")
    parser.add_argument("--round", type=int, default=0, help=f"decoders: begin with this round of {ROUND} inputs")
    parser.add_argument("--connection", type=int, default=0, help="servers: begin with this connection")
    given = parser.parse_args()
    golden = golden_frames(_GOLDEN)
    if given.target == "decoders":
        print(dict(run_decoders(given.seed, given.count, golden, first_round=given.round)))
        return
    with tempfile.TemporaryDirectory(prefix="rmqspark-fuzz-") as directory:
        print(run_servers(Path(directory), given.count, golden, seed=given.seed, first=given.connection))


if __name__ == "__main__":
    main()
