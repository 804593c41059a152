"""A Spark home whose processes start quickly, for tests: `python tests/compiled_spark.py DIRECTORY`.

Spark starts some Python processes for every query, and each compiles PySpark out of a zip file of sources: a quarter of
what tests with Spark cost. `rmq doctor --compile-pyspark` would mend that where PySpark is installed, and for whoever
measures there as well. Here a directory stands in the place of that file, among links to all others: Python finds the
modules there as it finds any, compiled.

And every JVM reads and checks the same ten thousand classes: half of what its start and its first query cost. One does
so here, and leaves them to the others as memory to be mapped (Java's class data sharing).
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

import pyspark

from rmqspark.testing.spark import local_session

PLACE = Path("python", "lib", "pyspark.zip")
CLASSES = "classes.jsa"  # conftest.py tells all JVMs of it


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


def share_classes(home: Path) -> None:
    """Has a JVM start and do a little, and keep the classes that this took when it ends."""
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -XX:ArchiveClassesAtExit={home / CLASSES}"
    words = ["--conf", f"spark.driver.defaultJavaOptions={options}", "pyspark-shell"]
    os.environ |= {"SPARK_HOME": str(home), "PYSPARK_SUBMIT_ARGS": shlex.join(words)}
    spark = local_session()
    spark.range(9).selectExpr("cast(id as string) body").groupBy("body").count().collect()
    gateway = spark.sparkContext._gateway
    jvm = gateway.proc
    spark.stop()
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    place = Path(sys.argv[1]).absolute()  # JVMs take the classes of a path as it is spelled
    make_home(place, Path(pyspark.__file__).parent)
    share_classes(place)
