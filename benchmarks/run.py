"""All benchmarks in one go: tables on the screen, everything as JSON in bench-results/.

make bench                       the figures of docs/performance.md: 5 million rows of 100 bytes
make bench ARGS="--rows 1000000"  the same, sooner
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import startup

HERE = Path(__file__).parent
RESULTS = HERE.parent / "bench-results"
# What is asked of the paths at 100 bytes on two cores, in rows a second (issue A).
ASKED = {"read body, queueId, queueOffset": 2_000_000, "read all columns": 900_000, "write": 1_500_000}


def spark_paths(rows: int, body_bytes: int, queues: int, repeat: int) -> dict[str, Any]:
    """Runs spark_paths.py in a process of its own and returns what it measured."""
    command = [sys.executable, str(HERE / "spark_paths.py"), "--json", "--rows", str(rows)]
    command += ["--body-bytes", str(body_bytes), "--queues", str(queues), "--repeat", str(repeat)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def show(measured: dict[str, Any]) -> None:
    """A Markdown table of rows a second."""
    print("| path | rows a second, median | lowest–highest | asked for |\n| --- | ---: | ---: | ---: |")
    for result in measured["results"]:
        asked = ASKED.get(result["path"])
        rate, lowest, highest = (f"{result[name]:,}" for name in ("rows_per_second", "lowest", "highest"))
        print(f"| {result['path']} | {rate} | {lowest}–{highest} | {f'≥ {asked:,}' if asked else ''} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--body-bytes", type=int, default=100)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()

    print(f"Spark, {arguments.rows:,} rows of {arguments.body_bytes} bytes, {arguments.queues} queues, local[2]:\n")
    paths = spark_paths(arguments.rows, arguments.body_bytes, arguments.queues, arguments.repeat)
    show(paths)
    print("\nStarting:\n")
    starts = startup.measure(arguments.repeat)
    startup.show(starts)

    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    machine = {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()}
    document = {"machine": machine, "spark": paths, "startup": [asdict(figure) for figure in starts]}
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"\nJSON, also in {file.relative_to(HERE.parent)}:\n")
    print(json.dumps(document))


if __name__ == "__main__":
    main()
