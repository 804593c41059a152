"""Spark's Python processes find PySpark where it is installed, compiled, and not in the zip file that comes first."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import py4j
import pyspark
import pytest

from rmqspark_start import prefer_installed

HOME = Path(pyspark.__file__).parent
INSTALLED = str(HOME.parent)
LIBRARIES = HOME / "python" / "lib"
ZIPS = sorted(map(str, LIBRARIES.glob("*.zip")), reverse=True)  # as Spark names them: PySpark first
JAR = str(HOME / "jars" / "spark-core_2.13-4.2.0.jar")
ASKED = """
import sys
known = {*sys.modules}
from importlib.util import find_spec
print(find_spec('pyspark').origin, find_spec('py4j').origin, 'rmqspark' in known)
"""


def found_by_a_process(*path: str) -> list[str]:
    """Where it takes PySpark and py4j from if Spark puts these on its path, and whether it knows `rmqspark`."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    run = subprocess.run([sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, ""), "Is what is installed older? Install it again: make clean setup"
    return run.stdout.split()


def package(directory: Path, name: str, *, compiled: bool = True) -> str:
    """Makes an empty one; returns the entry of a path that has it."""
    file = directory / name / "__init__.py"
    file.parent.mkdir(parents=True)
    file.touch()
    if compiled:
        cached = Path(cache_from_source(file))
        cached.parent.mkdir()
        cached.touch()
    return str(directory)


def home(directory: Path) -> list[str]:
    """Puts zip files of a Spark home there; returns them as Spark names them."""
    libraries = directory / "python" / "lib"
    libraries.mkdir(parents=True)
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip"):
        (libraries / name).write_bytes((LIBRARIES / name).read_bytes())
    return [f"{libraries}/pyspark.zip", f"{libraries}/py4j-0.10.9.9-src.zip"]


def test_processes_of_spark_take_what_is_installed() -> None:
    """By the line that is installed with the package: nobody has called anything. And what a job brings along of
    `rmqspark` itself is still looked for."""
    assert found_by_a_process(*ZIPS) == [pyspark.__file__, py4j.__file__, "False"]


def test_another_home_stays_first(tmp_path: Path) -> None:
    """Its PySpark may be of another version, and a process must not speak another than Spark does."""
    pyspark_zip, py4j_zip = home(tmp_path)
    expected = [f"{pyspark_zip}/pyspark/__init__.py", f"{py4j_zip}/py4j/__init__.py", "False"]
    assert found_by_a_process(pyspark_zip, py4j_zip) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([*ZIPS, JAR, "", "/a", INSTALLED, "/b"], [JAR, "", "/a", INSTALLED, "/b", *ZIPS]),
        ([ZIPS[0], "/a"], [ZIPS[0], "/a"]),
        (["/a/python/lib/pyspark.zip", INSTALLED], ["/a/python/lib/pyspark.zip", INSTALLED]),
        (["pyspark.zip", "relative", INSTALLED], ["pyspark.zip", "relative", INSTALLED]),
    ],
)
def test_only_these_files_change_places(before: list[str], after: list[str]) -> None:
    path = before.copy()
    prefer_installed(path)
    assert path == after


def test_a_home_by_another_name_is_the_same(tmp_path: Path) -> None:
    """SPARK_HOME may lead there by a link."""
    (tmp_path / "spark").symlink_to(HOME)
    zips = [str(tmp_path / "spark" / Path(file).relative_to(HOME)) for file in ZIPS]
    path = [*zips, INSTALLED]
    prefer_installed(path)
    assert path == [INSTALLED, *zips]


def test_a_pyspark_in_between_would_be_found_instead(tmp_path: Path) -> None:
    """As a PYTHONPATH that once belonged to another Spark has it."""
    path = [*ZIPS, package(tmp_path, "pyspark"), INSTALLED]
    before = path.copy()
    prefer_installed(path)
    assert path == before


def test_a_py4j_in_between_would_be_found_instead(tmp_path: Path) -> None:
    other = package(tmp_path, "py4j")
    path = [*ZIPS, other, INSTALLED]
    prefer_installed(path)
    assert path == [ZIPS[1], other, INSTALLED, ZIPS[0]]


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_not_compiled_is_no_better_than_the_file(tmp_path: Path, *, compiled: bool) -> None:
    """As in a container whose installer compiles nothing, and whose Python may not: the file may be the better one."""
    installed = package(tmp_path, "pyspark", compiled=compiled)
    zips = home(tmp_path / "pyspark")
    path = [*zips, installed, package(tmp_path / "elsewhere", "py4j")]
    before = path.copy()
    prefer_installed(path)
    assert path == ([*before[1:], zips[0]] if compiled else before)
