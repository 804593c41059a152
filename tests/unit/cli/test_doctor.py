"""`rmq doctor` asks of Spark's libraries what `pip install 'rmqspark[spark]'` asks, and finds Java for everybody."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.cli.doctor import FOR_SPARK, examine
from rmqspark.cli.machine import admin_libraries
from rmqspark.cli.machine.java import Java, find_java

if TYPE_CHECKING:
    import pytest

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def requirement(name: str) -> str:
    """As pyproject.toml spells it: `pandas>=2.2,<3`."""
    least, below = FOR_SPARK[name]
    upper = f",<{'.'.join(map(str, below))}" if below else ""
    return f"{name}>={'.'.join(map(str, least))}{upper}"


def test_versions_are_those_that_are_installed() -> None:
    """A PySpark that pip would not take is none that doctor calls good."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert [requirement(name) for name in FOR_SPARK] == extras["spark"]


def test_java_is_found_by_who_has_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run programs as users whose home is not there, or whom the machine does not know."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "gone"))
    assert find_java() == Java(good=True, story=f"17 ({java})")


def test_what_rest_and_console_lack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rmq up` goes on without them, so who misses them asks here."""
    monkeypatch.setattr(admin_libraries, "find_spec", lambda name: None)
    found = {finding.subject: finding for finding in examine("127.0.0.1:1", tmp_path)}
    assert found["console"].status == "warning"
    assert found["console"].remedy == "pip install 'rmqspark[admin]'"
