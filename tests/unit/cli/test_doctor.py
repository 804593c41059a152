"""`rmq doctor` asks of Spark's libraries what `pip install 'rmqspark[spark]'` asks, and finds Java for everybody."""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

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


def story_of_the_zip(store: Path) -> tuple[str, str]:
    found = {finding.subject: finding for finding in examine("127.0.0.1:1", store)}
    return found["pyspark.zip"].detail, found["pyspark.zip"].remedy


def test_whether_pyspark_has_to_be_compiled_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip has installed needs nothing; the file of another home is to be mended, by whatever path it is named."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = Path(pyspark.__file__).parent
    file = Path("python", "lib", "pyspark.zip")
    assert story_of_the_zip(tmp_path) == (
        f"{home / file}, passed over for the package that it lies in, which is compiled",
        "",
    )
    (tmp_path / file.parent).mkdir(parents=True)
    shutil.copy(home / file, tmp_path / file)
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("SPARK_HOME", tmp_path.name)
    uncompiled = "without compiled modules: Spark's Python processes start more slowly"
    assert story_of_the_zip(tmp_path) == (f"{tmp_path.name / file}, {uncompiled}", "rmq doctor --compile-pyspark")


def test_what_rest_and_console_lack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`rmq up` goes on without them, so who misses them asks here."""
    monkeypatch.setattr(admin_libraries, "find_spec", lambda name: None)
    found = {finding.subject: finding for finding in examine("127.0.0.1:1", tmp_path)}
    assert found["console"].status == "warning"
    assert found["console"].remedy == "pip install 'rmqspark[admin]'"
