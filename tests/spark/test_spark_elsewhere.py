"""Sparks whose executors, or whose driver, are other processes: a small cluster, and a Spark Connect server."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.spark.queries import seen_queries
from rmqspark.testing import assert_exactly_once

from .elsewhere import REDACTION, SECRET

if TYPE_CHECKING:
    from conftest import Topic

    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).with_name("elsewhere.py")
without_connect = pytest.mark.skipif(
    importlib.util.find_spec("grpc_status") is None, reason="pyspark[connect] is not installed"
)


@pytest.mark.slow_first
@pytest.mark.parametrize("kind", ["local-cluster", pytest.param("connect", marks=without_connect)])
def test_a_query_elsewhere(topic: Topic, other: Topic, mq: LocalCluster, tmp_path: Path, kind: str) -> None:
    """A batch read of a view, a stream that writes exactly once, and its listener do what they do in one process; their
    secrets are in no log. And their workers take PySpark as it is installed, not out of Spark's zip file."""
    topic.send("a", "b", "c")
    (tmp_path / "events").mkdir()
    places = [str(tmp_path / "checkpoint"), str(tmp_path / "events")]
    words = [sys.executable, str(SCRIPT), kind, mq.namesrv, topic.name, other.name, *places]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1"}
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=log, env=environment, cwd=tmp_path)
    assert done.returncode == 0, (tmp_path / "log").read_text(errors="replace")[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"ended": True, "selected": ["a", "b", "c"], "pyspark_of_workers": pyspark.__file__}
    assert other.bodies() == ["a", "b", "c"]
    with ClusterClient(mq.namesrv) as client:
        (known,) = [seen.known for seen in seen_queries(client) if seen.known.report and kind in seen.known.report.name]
    assert known.report is not None
    assert known.report.state == "stopped"
    assert_exactly_once(known.queryId, namesrv=mq.namesrv)
    written = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    assert [file for file, content in written.items() if SECRET.encode() in content] == []
    assert any(b"(redacted)" in content for file, content in written.items() if "events" in file.parts)


def test_the_page_has_what_a_connect_server_is_to_be_told() -> None:
    """Word for word as it is tried."""
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    assert f"`{REDACTION}`" in page.read_text(encoding="utf-8")
