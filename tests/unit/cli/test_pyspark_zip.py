"""Compiled modules for the PySpark that Spark gives to its Python processes."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from zipfile import ZipFile

import pytest

from rmqspark.cli.machine.pyspark_zip import compile_modules, is_compiled, pyspark_zip
from rmqspark.errors import InvalidArgument, NotWritable

SOURCES = {
    "pyspark/__init__.py": "",
    "pyspark/told.py": "FILE = __file__\n",
    "pyspark/tests/test_told.py": "",
    "pyspark/py.typed": "",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "python" / "lib" / "pyspark.zip"
    file.parent.mkdir(parents=True)
    with ZipFile(file, "w") as archive:
        for name, source in SOURCES.items():
            archive.writestr(name, source)
    return file


def imported_from(file: Path) -> str:
    """Where a process of its own finds a module."""
    words = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(file)!r}); from pyspark.told import FILE as f; print(f)",
    ]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_modules_are_compiled_once(file: Path) -> None:
    """A Python process takes the compiled ones then; all that was there stays where it was, for those that run."""
    with ZipFile(file) as before:
        places = {info.filename: info.header_offset for info in before.infolist()}
    file.chmod(0o640)
    assert not is_compiled(file)
    assert imported_from(file) == f"{file}/pyspark/told.py"
    assert compile_modules(file) == 2
    assert is_compiled(file)
    assert imported_from(file) == f"{file}/pyspark/told.pyc"
    with ZipFile(file) as after:
        assert {name: after.getinfo(name).header_offset for name in SOURCES} == places
        assert after.testzip() is None
    assert file.stat().st_mode & 0o777 == 0o640
    assert compile_modules(file) == 0
    assert [*file.parent.iterdir()] == [file]


def test_modules_of_another_python_are_compiled_anew(file: Path) -> None:
    """Python passes them over in silence, and so would all that was gained be."""
    with ZipFile(file, "a") as archive:
        archive.writestr("pyspark/told.pyc", bytes(16))
        archive.writestr("pyspark/__init__.pyc", bytes([MAGIC_NUMBER[0] ^ 1, *MAGIC_NUMBER[1:]]) + bytes(12))
    assert not is_compiled(file)
    assert compile_modules(file) == 2
    assert imported_from(file) == f"{file}/pyspark/told.pyc"


def test_what_cannot_be_compiled_stays_as_it_is(file: Path) -> None:
    """A file that is no zip file, and one in a directory that nobody may write to."""
    file.write_bytes(b"no zip file")
    with pytest.raises(InvalidArgument, match="is damaged"):
        compile_modules(file)
    assert file.read_bytes() == b"no zip file"
    assert [*file.parent.iterdir()] == [file]
    with pytest.raises(NotWritable, match="cannot be written"):
        compile_modules(Path("/proc/none/pyspark.zip"))


def test_a_disk_that_is_full_is_not_somebody_elses_file(file: Path) -> None:
    """Another user would not help; the file is as it was, and nothing lies beside it."""
    before, content = resource.getrlimit(resource.RLIMIT_FSIZE), file.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))  # beyond it a write says EFBIG, as it may ENOSPC
    try:
        with pytest.raises(NotWritable, match="File too large. It is as it was"):
            compile_modules(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (file.read_bytes(), [*file.parent.iterdir()]) == (content, [file])


def test_the_file_is_that_of_spark_home(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark itself looks for it: else with the PySpark that is installed."""
    monkeypatch.setenv("SPARK_HOME", str(file.parents[2]))
    assert pyspark_zip() == file
    file.unlink()
    assert pyspark_zip() is None
    monkeypatch.delenv("SPARK_HOME")
    installed = pyspark_zip()
    assert installed is not None
    assert installed.is_relative_to(sys.prefix)
