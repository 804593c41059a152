"""Consoles in processes of their own, for tests with a browser and without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


@dataclass
class Console:
    """A console that runs."""

    process: subprocess.Popen[str]
    url: str
    namesrv: str

    def order(self, word: str) -> None:
        """`stop` or `start`, of its broker, or `stop slave` or `start slave`; done when this returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()
        assert json.loads(self.process.stdout.readline()) == "ok"


@contextmanager
def console(*words: str, errors: IO[str] | int = subprocess.DEVNULL) -> Iterator[Console]:
    """With these words of `console_process`. What it logs goes to `errors`."""
    package = str(HERE.parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])}
    for name in ("PYTEST_CURRENT_TEST", "PYTEST_VERSION"):  # NiceGUI is another one under pytest
        environment.pop(name, None)
    command = [sys.executable, str(HERE / "console_process.py"), *words]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        yield Console(process, **json.loads(process.stdout.readline()))
    finally:
        process.kill()
        process.wait(30)
        process.stdin.close()
        process.stdout.close()
