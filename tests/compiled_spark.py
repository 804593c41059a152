"""A Spark home whose Python processes find PySpark compiled: `python tests/compiled_spark.py DIRECTORY`.

Spark starts some processes for every query, and each compiles PySpark out of a zip file of sources: a quarter of what
tests with Spark cost. `rmq doctor --compile-pyspark` would mend that where PySpark is installed, and for whoever
measures there as well. Here a directory stands in the place of that file, among links to all others: Python finds the
modules there as it finds any, compiled, and a fourth quicker than in a zip file.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pyspark

PLACE = Path("python", "lib", "pyspark.zip")


def make_home(home: Path, installed: Path) -> None:
    """Builds it, in place of one that is there."""
    shutil.rmtree(home, ignore_errors=True)
    for part in (Path(), *list(PLACE.parents)[-2::-1]):
        (home / part).mkdir(parents=True)
        for path in (installed / part).iterdir():
            if path.relative_to(installed) not in PLACE.parents and part / path.name != PLACE:
                (home / part / path.name).symlink_to(path)
    (home / PLACE).mkdir()
    (home / PLACE / "pyspark").symlink_to(installed)


if __name__ == "__main__":
    make_home(Path(sys.argv[1]), Path(pyspark.__file__).parent)
