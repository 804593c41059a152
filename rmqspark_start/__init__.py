"""PySpark from where it is installed, not out of the zip file of the same sources that Spark names first.

Spark starts several Python processes for a query, and puts the zip files of its home ahead of everything else on their
path. What Python compiles out of a zip file it cannot keep, so each of them compiles PySpark anew: a second, in which
nothing else of the query goes on. Where that home is the installed package itself, as after `pip install pyspark`, the
same modules lie in it, compiled.

Before such a process imports PySpark nobody is asked but Python's `site`: `rmqspark.pth` calls this from there, and
only where a `pyspark.zip` is on the path. It is no module of `rmqspark`: that would be imported then, and one that a
job brings along would not be looked for any more.
"""

from __future__ import annotations

import os.path
from importlib.machinery import PathFinder


def prefer_installed(path: list[str]) -> None:
    """Puts Spark's zip files behind everything else on this `sys.path`, if what is found then is the very package that
    they lie in, and compiled. Another Spark home, whose PySpark may be another, stays first."""
    libraries = next(os.path.dirname(entry) for entry in path if entry.endswith("pyspark.zip"))
    ours = [entry for entry in path if os.path.dirname(entry) == libraries and entry.endswith(".zip")]
    others = [entry for entry in path if entry not in ours]
    package = _compiled("pyspark", others)
    if package is None or not _is_same(package, os.path.dirname(os.path.dirname(libraries))):
        return
    py4j = _compiled("py4j", others)
    if py4j is None or os.path.dirname(py4j) != os.path.dirname(package):  # somebody else's, maybe of another version
        ours = [entry for entry in ours if entry.endswith("pyspark.zip")]
    path.sort(key=ours.__contains__)


def _compiled(package: str, path: list[str]) -> str | None:
    """The directory of a package that this path leads to, if Python has compiled it there."""
    spec = PathFinder.find_spec(package, path)
    if spec is None or spec.origin is None or spec.cached is None or not os.path.exists(spec.cached):
        return None
    return os.path.dirname(spec.origin)


def _is_same(directory: str, other: str) -> bool:
    try:
        return os.path.samefile(directory, other)
    except OSError:  # there is no such place
        return False
