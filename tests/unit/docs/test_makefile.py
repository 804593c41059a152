"""`make`: every target sets itself up, once, and says what to install where Python or Java is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., subprocess.CompletedProcess[str]]

ROOT = Path(__file__).parents[3]
TARGETS = ["setup", "demo", "test", "check", "fix", "bench", "soak", "interop"]
MAKE = shutil.which("make")
OUTER_MAKE = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "JAVA_HOME")

pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Runs make in a folder that has what its set-up goes by, and nothing else."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name not in OUTER_MAKE}
        return subprocess.run(
            [str(MAKE), *words], cwd=tmp_path, env=kept | variables, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_sets_itself_up_once(make: Make, tmp_path: Path, target: str) -> None:
    """In a fresh clone each installs what it needs first; when nothing changed it goes straight to its work."""
    fresh = make("-n", target)
    assert fresh.returncode == 0, fresh.stderr
    assert "-m venv .venv" in fresh.stdout
    assert re.search(r"pip install .*-c constraints.txt -e .*--group dev", fresh.stdout)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".ready").touch()
    assert "pip install" not in make("-n", target).stdout
    os.utime(tmp_path / "constraints.txt", (2**31, 2**31))
    assert "pip install" in make("-n", target).stdout


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_target_runs_is_there(make: Make, target: str) -> None:
    """No target calls a script that was moved."""
    scripts = re.findall(r"(?:benchmarks|tests|docs)/\w+\.py", make("-n", target).stdout)
    assert [script for script in scripts if not (ROOT / script).exists()] == []


def test_no_test_with_spark_is_passed_over(make: Make) -> None:
    """`make test` names the files and folders that have tests with Spark, and there are no others."""
    (run,) = [line for line in make("-n", "test").stdout.splitlines() if '-m "spark' in line]
    looked_at = [ROOT / word for word in run.split() if word.startswith("tests/")]
    here = Path(__file__)
    marked = [path for path in ROOT.glob("tests/**/*.py") if re.search(r"mark\.spark\b", path.read_text())]
    unseen = [path for path in marked if not any(path.is_relative_to(place) for place in looked_at)]
    assert [path for path in unseen if path != here] == []


def test_no_test_without_spark_is_passed_over(make: Make) -> None:
    """In a folder that `make test` does not look into for them, every test is marked with its name."""
    (run,) = [line for line in make("-n", "test").stdout.splitlines() if '-m "not spark' in line]
    folders = [ROOT / folder for folder in re.findall(r"--ignore=(\S+)", run)]
    assert folders
    for folder in folders:
        marked = re.compile(rf"^pytestmark = .*mark\.{folder.name}\b", re.MULTILINE)
        assert [path for path in folder.glob("**/test_*.py") if not marked.search(path.read_text())] == []


@pytest.mark.parametrize(("words", "seconds"), [((), 1800), (("SECONDS=60",), 60)])
def test_a_soak_takes_as_long_as_is_said(make: Make, words: tuple[str, ...], seconds: int) -> None:
    """SECONDS from the command line counts; bash's own variable of that name does not."""
    assert f"tests/soak.py {seconds}\n" in make("-n", "soak", *words, SECONDS="7").stdout


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "Python 3.11 or newer is missing. On Debian and Ubuntu: apt install python3 python3-venv"),
        ('[ "$1" = --version ] && echo Python 3.9.2; [ "$1" = --version ]', "newer is needed, Python 3.9.2 is here"),
        ('case "$2" in *venv*) exit 1;; esac', "Python has no venv. On Debian and Ubuntu: apt install python3-venv"),
    ],
    ids=["none", "too old", "no venv"],
)
def test_a_missing_python_is_named_with_the_package_to_install(
    make: Make, tmp_path: Path, script: str | None, said: str
) -> None:
    """make stops before it has done anything."""
    done = make("setup", f"PYTHON={executable(tmp_path / 'python3', script)}")
    assert done.returncode != 0
    assert said in done.stderr
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize(
    ("on_path", "in_home", "said"),
    [
        (None, None, "Spark needs a Java runtime, 17 or newer. On Debian"),
        ("1.8.0_392", None, "Spark needs Java 17 or newer, and java is 8. On Debian"),
        ("11.0.2", None, "and java is 11. On Debian"),
        ("", None, "and java is none that tells its version. On Debian"),
        ("17.0.1", "", "and {home}/bin/java is none that tells its version. On Debian"),
        ("17.0.1", "none", "17 or newer, and JAVA_HOME={home} has none. On Debian"),
        ("17.0.1", None, ""),
        ("21-ea", None, ""),
        ("8", "25", ""),
    ],
)
def test_a_missing_java_is_named_with_the_package_to_install(
    make: Make, tmp_path: Path, on_path: str | None, in_home: str | None, said: str
) -> None:
    """Java is looked for where Spark looks, in JAVA_HOME and else on the PATH, and one that will do is taken."""
    home, path = tmp_path / "home", tmp_path / "path"
    executable(path / "java", None if on_path is None else java(on_path))
    executable(home / "bin" / "java", None if in_home in (None, "none") else java(in_home))
    (path / "sed").symlink_to(str(shutil.which("sed")))
    done = make("need-java", PATH=str(path), JAVA_HOME="" if in_home is None else str(home))
    assert (done.returncode == 0) == (said == "")
    assert said.format(home=home) in done.stderr
    assert "openjdk-17-jre-headless" in done.stderr or not said


def java(version: str) -> str:
    """A runtime that tells this version, as Java does; one that does not work at all where it is empty."""
    return f"echo 'openjdk version \"{version}\" 2021-09-14' >&2" if version else "exit 127"


def executable(path: Path, script: str | None) -> Path:
    """The path, with a program behind it unless `script` is None."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return path
