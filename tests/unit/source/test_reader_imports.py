"""What the driver's processes have to import before a query's first batch: Spark starts new ones for every query."""

from __future__ import annotations

import subprocess
import sys

_ASK = """
import sys, pyspark.sql.datasource, rmqspark.source.reader
heavy = ("pyarrow.compute", "rmqspark.source.arrow", "rmqspark.source.fetch", "rmqspark.protocol.record_batch")
print([name for name in heavy if name in sys.modules])
"""


def test_planning_needs_nothing_that_only_tasks_need() -> None:
    """A query is planned in two processes, one after the other, that decode no record."""
    done = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
