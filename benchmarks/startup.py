"""How long a stranger waits: importing, starting, the first send, a cluster in a test; and a broker's memory at rest.

    python benchmarks/startup.py --runs 5 [--json FILE]

Each run is a process of its own. Prints the median, and the lowest and highest of the runs.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import markdown

from rmqspark import Message, Producer

FORBIDDEN_AT_IMPORT = ("pyspark", "fastapi", "pyarrow", "socket", "numpy", "asyncio")
_POLL_S = 0.002
_REST_S = 2.0  # what "at rest" means: after the start's garbage is gone and one flush interval is over


@dataclass(frozen=True)
class Figure:
    """One measured thing over all runs."""

    what: str
    unit: str
    required: float
    median: float
    lowest: float
    highest: float


def import_seconds() -> float:
    """`import rmqspark`, measured inside a fresh interpreter; fails if it loads what it must not."""
    script = (
        "import sys, time; began = time.perf_counter(); import rmqspark; took = time.perf_counter() - began;"
        f"loaded = [name for name in {FORBIDDEN_AT_IMPORT!r} if name in sys.modules]; assert not loaded, loaded;"
        "print(took)"
    )
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def first_send() -> tuple[float, float]:
    """Seconds from the start of `rmq up` to the answer of its first send, and the server's resident MB at rest."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "rmqspark", "up", "--store", directory]
        began = time.perf_counter()
        server = subprocess.Popen(
            [*command, "--namesrv-port", "0", "--broker-port", "0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            namesrv = _address(Path(directory) / "endpoints.json", server)
            with Producer(namesrv, group="benchmark") as producer:
                producer.send(Message("first", b"x"))
                took = time.perf_counter() - began
            time.sleep(_REST_S)
            return took, _resident_mb(server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


def cluster_seconds() -> float:
    """`with cluster()` in a test, from its import to its first line, in a fresh interpreter."""
    script = (
        "import time; began = time.perf_counter()\n"
        "from rmqspark.testing import cluster\n"
        "with cluster(): print(time.perf_counter() - began)"
    )
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def _address(endpoints: Path, server: subprocess.Popen[bytes]) -> str:
    while not endpoints.exists():
        if server.poll() is not None:
            sys.exit("rmq up ended before it answered")
        time.sleep(_POLL_S)
    address: str = json.loads(endpoints.read_text(encoding="utf-8"))["namesrv"]
    return address


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return kilobytes / 1024


def measure(runs: int) -> list[Figure]:
    """All figures over that many runs, after one run that only fills the page cache."""
    import_seconds()
    first_send()
    cluster_seconds()
    imports = [import_seconds() for _ in range(runs)]
    starts = [first_send() for _ in range(runs)]
    clusters = [cluster_seconds() for _ in range(runs)]
    return [
        _figure("import rmqspark", "s", 0.15, imports),
        _figure("rmq up to the answer of the first send", "s", 1.5, [took for took, _ in starts]),
        _figure("a cluster in a test", "s", 1.0, clusters),
        _figure("resident at rest, name server and broker", "MB", 120, [resident for _, resident in starts]),
    ]


def _figure(what: str, unit: str, required: float, values: list[float]) -> Figure:
    return Figure(what, unit, required, statistics.median(values), min(values), max(values))


def table(figures: list[dict[str, Any]]) -> str:
    """Markdown, of figures as JSON has them."""
    rows = []
    for figure in (Figure(**each) for each in figures):
        digits = 3 if figure.unit == "s" else 0
        median, low, high = (f"{value:.{digits}f}" for value in (figure.median, figure.lowest, figure.highest))
        asked = f"≤ {figure.required:g} {figure.unit}"
        rows.append([figure.what, f"{median} {figure.unit}", f"{low}–{high}", asked])
    return markdown(("what", "median", "lowest–highest", "asked for"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = [asdict(figure) for figure in measure(arguments.runs)]
    print(table(figures))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
