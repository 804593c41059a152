"""Trying out other programs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

_TIMEOUT_S = 60
_ELSEWHERE = Path("/")  # not the user's home: in a container there may be none


class Outcome(NamedTuple):
    """How a program ended, and what it said on both its outputs."""

    succeeded: bool
    said: str


def probe(command: list[str]) -> Outcome:
    """Runs it away from the current directory, whose files might answer in its stead."""
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=_ELSEWHERE)  # noqa: S603 - the Python and the Java that the user has
    except (OSError, subprocess.TimeoutExpired) as error:
        return Outcome(succeeded=False, said=str(error))
    return Outcome(run.returncode == 0, run.stdout + run.stderr)
