"""What `import rmqspark` costs whoever only wants a name of it."""

from __future__ import annotations

import subprocess
import sys

import rmqspark

HEAVY = (
    "pyspark",
    "fastapi",
    "pyarrow",
    "pandas",
    "numpy",
    "socket",
    "asyncio",
    "uvloop",
    "msgspec",
    "structlog",
    "typer",
)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """No Spark, no web framework, no Arrow and no sockets come with `import rmqspark`."""
    look = f"import sys, rmqspark; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    """What is listed can be had, and only that."""
    for name in rmqspark.__all__:
        assert getattr(rmqspark, name) is not None
    assert dir(rmqspark) == sorted(rmqspark.__all__)


def test_a_name_that_is_none_is_an_attribute_error() -> None:
    """So that whoever looks for a name may look for any."""
    assert not hasattr(rmqspark, "PushConsumers")


def test_views_are_there_with_the_package() -> None:
    """`import rmqspark`, then `rmqspark.spark.register(...)`, as the docs have it."""
    program = "import rmqspark; print(rmqspark.spark.register.__name__)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("register\n", "")
