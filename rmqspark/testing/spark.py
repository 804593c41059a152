"""A Spark session fit for tests and demonstrations: local, quiet, with workers that run this Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.errors import MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOGGING = Path(__file__).with_name("log4j2.properties")


def local_session(
    cores: int = 2, *, name: str = "rmqspark tests", builder: SparkSession.Builder | None = None
) -> SparkSession:
    """Starts Spark in this process: no UI, few shuffle partitions, loopback only, errors alone on the log.

    `builder` may bring more settings, as those of Delta.
    PYSPARK_PYTHON defaults to the python3 of PATH, which is not the virtual environment: it is set to this interpreter.
    MissingExtra says how to install PySpark.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("PySpark", "spark") from None
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.default.parallelism": str(cores),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = (builder or SparkSession.builder).master(f"local[{cores}]").appName(name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
