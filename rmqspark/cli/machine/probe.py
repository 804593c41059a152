"""Trying out other programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

_TIMEOUT_S = 60
_ELSEWHERE = Path("/")  # not the user's home: in a container there may be none


class Outcome(NamedTuple):
    """How a program ended, and what it said on both its outputs."""

    succeeded: bool
    said: str


def probe(command: list[str], **environment: str) -> Outcome:
    """Runs it away from the current directory, whose files might answer in its stead; with what else is to stand in
    the environment."""
    try:
        run = subprocess.run(  # noqa: S603 - the Python and the Java that the user has
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            cwd=_ELSEWHERE,
            env=os.environ | environment,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Outcome(succeeded=False, said=str(error))
    return Outcome(run.returncode == 0, run.stdout + run.stderr)
