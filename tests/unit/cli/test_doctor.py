"""What `rmq doctor` asks of Spark's libraries is what `pip install 'rmqspark[spark]'` asks."""

from __future__ import annotations

import tomllib
from pathlib import Path

from rmqspark.cli.doctor import FOR_SPARK

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


def requirement(name: str) -> str:
    """As pyproject.toml spells it: `pandas>=2.2,<3`."""
    least, below = FOR_SPARK[name]
    upper = f",<{'.'.join(map(str, below))}" if below else ""
    return f"{name}>={'.'.join(map(str, least))}{upper}"


def test_versions_are_those_that_are_installed() -> None:
    """A PySpark that pip would not take is none that doctor calls good."""
    extras = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    assert [requirement(name) for name in FOR_SPARK] == extras["spark"]
