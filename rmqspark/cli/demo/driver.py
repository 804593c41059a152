"""The demo's view of its Spark driver: a process of its own that says how far it is, and may die on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Self

    from rmqspark.cli.demo.pipeline import Plan

_MODULE = "rmqspark.cli.demo.pipeline"
_SAYS = '{"demo": '
_NOT_FETCHED = "unresolved dependency: io.delta"  # Ivy's words
_STORY_CHARS = 2_000


class Driver:
    """One run of the pipeline. What is left of it when the block ends is killed."""

    def __init__(self, plan: Plan, log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [sys.executable, "-m", _MODULE, plan.to_json()],
                stdin=subprocess.PIPE,  # where it ends, the driver does
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends the driver
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def facts(self) -> Iterator[dict[str, Any]]:
        """What it says, until it ends. Spark's JVM writes to the same place, but not in these words."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(_SAYS):
                yield json.loads(line)["demo"]

    def check_end(self, *, killed: bool) -> None:
        """Raises RmqError unless it ended as it should: by SIGKILL, or well."""
        code = self._process.wait()
        if code != (-signal.SIGKILL if killed else 0):
            story = what_went_wrong(self._log.read_text(errors="replace"))
            raise RmqError(
                f"The demo's Spark driver ended with {code}: {story}", hint=f"All it said is in {self._log}."
            )


def what_went_wrong(said: str) -> str:
    """The reason in what a driver said: its last lines, unless there is one that we know."""
    if _NOT_FETCHED in said:
        return (
            "the jars of Delta Lake could not be fetched. Spark gets them from Maven Central when it uses them first, "
            "so this machine needs the network once, or a mirror in Spark's spark.jars.ivySettings."
        )
    return "\n".join(said[-_STORY_CHARS:].splitlines()[1:] or [said])
