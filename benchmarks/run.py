"""All figures of docs/performance.md in one go: tables on the screen, everything as JSON in bench-results/.

make bench                                             everything: about an hour on two cores, 25 GB of disk
make bench ARGS="--only read write"                    some parts
make bench ARGS="--rows 200000 --repeat 1 --seconds 3"  the same, sooner

Each part is a process of its own. It prints its tables and its JSON as soon as it is done, and what it does meanwhile;
one that fails loses nothing of the others. Ctrl-C ends what runs, and what was measured until then stays. Paths that
are compared take turns within one run (turns.py), with the defaults of both sides, on the same cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from given import Given
from parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HERE = Path(__file__).parent
RESULTS = HERE.parent / "bench-results"


def parts_in_turn(names: Sequence[str], given: Given) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs each part and gives what it found: its result, or why there is none; ends early at Ctrl-C."""
    for number, name in enumerate(names, start=1):
        print(f"\n## {PARTS[name].title} ({number} of {len(names)}: {name})\n", flush=True)
        begun = time.monotonic()
        found, code = _in_a_process(name, given)
        took = {"seconds": round(time.monotonic() - begun)}
        print(f"  {name} took {took['seconds']} s", file=sys.stderr, flush=True)
        yield name, took | ({"failed": _why(code)} if found is None else {"measured": found})
        if code == -signal.SIGINT:
            return


def _in_a_process(name: str, given: Given) -> tuple[Any, int]:
    """What the part found, None if it failed; and how its process ended."""
    with TemporaryDirectory(prefix="rmq-bench-") as directory:
        file = Path(directory) / "result.json"
        command = [sys.executable, str(Path(__file__)), *given.as_options(), "--part", name, "--result", str(file)]
        paths = filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")])  # for Python workers, too
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        code = _ended(process)
        return (json.loads(file.read_text()) if file.exists() else None), code


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Waits for a process; Ctrl-C reaches it, too, and it gets the time that it needs to put things away."""
    try:
        return process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        return -signal.SIGINT
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _why(code: int) -> str:
    return "interrupted" if code == -signal.SIGINT else f"ended with {code}; what it printed tells more"


def measure_part(name: str, given: Given, result: Path) -> None:
    """What the process of a part does."""
    try:
        measured = PARTS[name].measure(given)
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
    result.write_text(json.dumps(measured), encoding="utf-8")
    print(PARTS[name].table(measured), flush=True)
    print(f"\n{json.dumps({name: measured})}", flush=True)


def tables(document: dict[str, Any]) -> str:
    """All tables of a document, as docs/performance.md has them."""
    sections = []
    for name, part in document["parts"].items():
        shown = PARTS[name].table(part["measured"]) if "measured" in part else f"No figures: {part['failed']}."
        sections.append(f"## {PARTS[name].title}\n\n{shown}")
    return "\n\n".join(sections)


def machine() -> dict[str, Any]:
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    cores = len(os.sched_getaffinity(0))
    told = {"system": platform.platform(), "python": platform.python_version()}
    return {
        "cores": cores,
        "memory_gib": round(memory_gb, 1),
        "began": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        **told,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART", help=_listed())
    Given.add_options(parser)
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    given = Given.of(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Terminated."))  # so that everything is ended and removed
    if arguments.part:
        measure_part(arguments.part, given, arguments.result)
        return

    RESULTS.mkdir(exist_ok=True)
    document: dict[str, Any] = {"machine": machine(), "given": vars(given), "parts": {}}
    file = RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
    for name, found in parts_in_turn(arguments.only, given):
        document["parts"][name] = found
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"\n# All figures\n\n{tables(document)}\n\nJSON: {file.relative_to(HERE.parent)}")
    if any("failed" in part for part in document["parts"].values()) or len(document["parts"]) < len(arguments.only):
        sys.exit(1)


def _listed() -> str:
    return "; ".join(f"{name}: {part.title}" for name, part in PARTS.items())


if __name__ == "__main__":
    main()
