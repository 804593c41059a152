"""What each process of a query has to import before the first batch: Spark starts new ones for every query."""

from __future__ import annotations

import subprocess
import sys

import pytest

_CLIENT = "rmqspark.client.cluster.cluster_client"
_PLAN_READING = (
    "import pickle; from rmqspark.datasource import RmqDataSource as D;"
    "pickle.dumps(D({'subscribe': 't'}).streamReader(BODY))"
)
_FOR_FEW = ("lz4", "zstandard", "rmqspark.model", "rmqspark.protocol.bodies.admin", "rmqspark.rebalance.handover")
_OPTIONS = (
    "rmqspark.options",
    "rmqspark.source.options",
    "rmqspark.source.positions",
    "rmqspark.source.groups.sharing",
)
_PLAN_WRITING = "from rmqspark.datasource import RmqDataSource as D; D({'topic': 't'}).streamWriter(BODY, False)"


@pytest.mark.parametrize(
    ("does", "needs_not"),
    [
        (
            _PLAN_READING,
            (_CLIENT, "rmqspark.source.planning.progress", "rmqspark.source.tasks.task", "msgspec", *_OPTIONS),
        ),
        (
            _PLAN_WRITING,
            (
                _CLIENT,
                "rmqspark.sink.transactions.commit",
                "rmqspark.sink.transactions.attempt_write",
                "difflib",
                "numpy",
            ),
        ),
        (
            "import rmqspark.source.driver",
            ("pyarrow.compute", "rmqspark.source.values.arrow", "rmqspark.source.tasks.fetch"),
        ),
        (
            "import rmqspark.source.driver",
            ("rmqspark.protocol.records.record_batch", "rmqspark.source.groups.shared", "lark"),
        ),
        (
            "import rmqspark.sink.writer, rmqspark.sink.transactions.attempt_write",
            ("rmqspark.client.administration.descriptions", "html", "difflib"),
        ),
        (
            "import rmqspark.sink.writer, rmqspark.sink.exactly_once, rmqspark.sink.transactions.attempt_write",
            ("rmqspark.options", "rmqspark.sink.option_table", "rmqspark.sink.at_least_once", *_FOR_FEW),
        ),
        (
            "import rmqspark.source.tasks.task",
            ("rmqspark.source.planning.progress", "rmqspark.source.tasks.direct", "rmqspark.store"),
        ),
        (
            "import rmqspark.source.reader, rmqspark.source.tasks.task, rmqspark.source.values.arrow",
            ("rmqspark.source.planning.planner", "pyarrow.compute", "pandas", *_OPTIONS, *_FOR_FEW),
        ),
    ],
    ids=[
        "plan reading",
        "plan writing",
        "run the source",
        "run it, exclusively",
        "write",
        "write as asked",
        "read",
        "read as asked",
    ],
)
def test_a_process_imports_what_it_does(does: str, needs_not: tuple[str, ...]) -> None:
    """A reader or writer is made, and pickled, where nobody is asked anything; a driver decodes no record."""
    ask = (
        "import sys; from pyspark.sql.types import StructType; BODY = StructType().add('body', 'binary');"
        f"{does}; print([name for name in {needs_not!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
