"""PySpark as Spark gives it to its Python processes: a zip file of sources, which each of them compiles anew.

Python keeps what it has compiled beside the sources, but not in zip files. A query starts a process for each kind of
work (planning, reading, writing, committing), so the first one of a session compiles the same modules several times, a
third of a second and more each. Python does take compiled modules from a zip file that has them.
"""

from __future__ import annotations

import marshal
import os
import shutil
import tempfile
import warnings
from errno import EACCES, EPERM
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from rmqspark.errors import InvalidArgument, NotWritable

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST_MODULE: Final = "pyspark/__init__.py"
_TESTS: Final = "/tests/"
_UNCHECKED_HASH: Final = b"\1\0\0\0"  # PEP 552: nobody edits a source within a zip file


def pyspark_zip() -> Path | None:
    """The file, where there is one: in SPARK_HOME, or with the PySpark that is installed."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        spec = find_spec("pyspark")
        home = spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else None
    file = Path(home, "python", "lib", "pyspark.zip") if home else None
    return file if file is not None and file.is_file() else None


def is_compiled(file: Path) -> bool:
    """Whether this Python finds its modules compiled there."""
    try:
        with ZipFile(file) as archive, archive.open(f"{_FIRST_MODULE}c") as module:
            return module.read(len(MAGIC_NUMBER)) == MAGIC_NUMBER
    except (KeyError, OSError, BadZipFile):
        return False


def compile_modules(file: Path) -> int:
    """Adds the compiled modules for this Python; returns how many, 0 where all are there.

    They go behind the sources, which stay where they are in the file: processes that have it open are not disturbed.
    Raises NotWritable, and InvalidArgument for what is no such file.
    """
    if is_compiled(file):
        return 0
    try:
        compiled = _compiled(file)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=file.name, delete=False) as unfinished:
            new = Path(unfinished.name)
        try:
            shutil.copy2(file, new)
            _add(new, compiled)
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
    except BadZipFile as error:
        raise InvalidArgument(f"{file} is damaged: {error}.", hint="Install PySpark again.") from error
    except OSError as error:
        is_forbidden = error.errno in (EACCES, EPERM)
        hint = "Run it once as the user whom that file belongs to." if is_forbidden else "It is as it was."
        raise NotWritable(f"{file} cannot be written: {error.strerror}.", hint=hint) from error
    return len(compiled)


def _compiled(file: Path) -> dict[str, bytes]:
    """What Python would keep beside each source."""
    with ZipFile(file) as archive:
        sources = [name for name in archive.namelist() if name.endswith(".py") and _TESTS not in name]
        return {f"{name}c": _compiled_module(name, archive.read(name)) for name in sources}


def _compiled_module(name: str, source: bytes) -> bytes:
    code = compile(source, name, "exec", dont_inherit=True)
    return MAGIC_NUMBER + _UNCHECKED_HASH + source_hash(source) + marshal.dumps(code)


def _add(file: Path, modules: Mapping[str, bytes]) -> None:
    with ZipFile(file, "a", ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a module compiled by another Python stands there as well; the last one counts
        for name, module in modules.items():
            archive.writestr(name, module)
