"""The Java runtime that Spark needs: where it is, and whether it will do."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from rmqspark.cli.machine.probe import probe
from rmqspark.errors import RmqError

LEAST = 17
REMEDY = "On Debian and Ubuntu: apt install openjdk-17-jre-headless"


class Java(NamedTuple):
    """What was found; `story` says what it is, or what is wrong with it."""

    good: bool
    story: str


def find_java() -> Java:
    """As Spark looks for it: $JAVA_HOME, else PATH."""
    home = os.environ.get("JAVA_HOME")
    java = Path(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        return Java(good=False, story="no java on PATH")
    if not Path(java).exists():
        return Java(good=False, story=f"JAVA_HOME names no Java: {home}")
    version = re.search(r'version "(?:1\.)?(\d+)', probe([str(java), "-version"]).said)
    if version is None:
        return Java(good=False, story=f"{java} does not tell its version")
    return Java(int(version[1]) >= LEAST, f"{version[1]} ({java})")


def require_java() -> None:
    """Raises an RmqError that says what to install, instead of what a JVM that does not start leaves behind."""
    java = find_java()
    if not java.good:
        raise RmqError(f"Spark needs Java {LEAST} or newer, and finds: {java.story}.", hint=REMEDY)
