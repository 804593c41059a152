"""Every example runs as it is written, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rmqspark

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[3] / "examples"
SPARK = [pytest.mark.spark, pytest.mark.slow_first]
TIMEOUT_S = 590
PRINTS = [
    pytest.param("hello.py", ["order 0", "order 1", "order 2"], id="hello"),
    pytest.param("filter_by_tag.py", ["paid: order 0, order 3, order 6"], id="filter_by_tag"),
    pytest.param(
        "ordered.py", [f"{who}: created -> paid -> shipped" for who in ("ada", "grace", "edsger")], id="ordered"
    ),
    pytest.param(
        "transactions.py",
        ["kettle: UNKNOWN", "in the database: kettle, lamp; messages: kettle, lamp"],
        id="transactions",
    ),
    pytest.param("push_consumer.py", ["8 orders billed, order 3 at the second try"], id="push_consumer"),
    pytest.param("test_orders.py", ["1 passed"], id="orders"),
    pytest.param("spark_batch.py", ["alarms: 1,000, their sum: 45,000"], id="spark_batch", marks=SPARK),
    pytest.param(
        "spark_stream.py", ['{"word":"be","length":2}', '{"word":"not","length":3}'], id="spark_stream", marks=SPARK
    ),
    pytest.param(
        "spark_exactly_once.py",
        ["6,000 orders, 20 totals, 2 kills: nothing lost, nothing doubled"],
        id="spark_exactly_once",
        marks=[*SPARK, pytest.mark.timeout(600)],
    ),
    pytest.param(
        "spark_delta.py",
        [f"{where}: 1,000 rows, 1,000 of them different" for where in ("table", "topic")],
        id="spark_delta",
        marks=[*SPARK, pytest.mark.timeout(600)],
    ),
]


@pytest.mark.parametrize(("name", "lines"), PRINTS)
def test_an_example_does_what_it_says(name: str, lines: list[str], tmp_path: Path) -> None:
    """It ends well and prints what its reader is promised."""
    as_test = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if name.startswith("test_") else []
    done = subprocess.run(
        [sys.executable, *as_test, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": _paths(), "PYTEST_ADDOPTS": _plugin(), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for line in lines:
        assert line in done.stdout


def test_every_example_is_run() -> None:
    """A new example is a new line above."""
    assert {param.values[0] for param in PRINTS} == {path.name for path in EXAMPLES.glob("*.py")}


def _paths() -> str:
    package = str(Path(rmqspark.__file__).parents[1])
    return os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))


def _plugin() -> str:
    """Where the package is installed pytest has its fixtures by itself; from a checkout they are named."""
    from importlib.metadata import entry_points

    installed = any(point.module == "rmqspark.testing.fixtures" for point in entry_points(group="pytest11"))
    return "" if installed else "-p rmqspark.testing.fixtures"
