"""docs/python.md: its code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqspark.testing.fixtures import rmq, rmq_clock, rmq_spark
from rmqspark.testing.in_process import cluster
from rmqspark.testing.rmq import Rmq

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[3] / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_every_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """One after the other, in one program, against a queue of its own in place of the usual address."""
    names: dict[str, object] = {}
    with cluster() as local:
        for block in BLOCKS:
            exec(compile(block.replace("127.0.0.1:9876", local.namesrv), "docs/python.md", "exec"), names)
    told = capsys.readouterr().out
    assert "b'one' paid ['1'] EU orders/broker-a/" in told
    assert "consumed b'one' 0" in told
    assert "InvalidMessage" in told


def test_fixtures_are_told() -> None:
    """Each fixture that the package brings, and each verb of a test's cluster."""
    fixtures = [fixture.__name__ for fixture in (rmq, rmq_spark, rmq_clock)]
    verbs = [f"rmq.{name}" for name in vars(Rmq) if not name.startswith("_")]
    assert [name for name in (*fixtures, *verbs) if f"`{name}" not in PAGE] == []
