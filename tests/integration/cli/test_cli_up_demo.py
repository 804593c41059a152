"""`rmq up --demo`: something to look at, gone with the servers."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rmqspark import AdminClient, PullConsumer
from rmqspark.errors import TopicNotFound

from .conftest import wait_until

pytestmark = pytest.mark.integration


def test_a_demo_has_traffic(processes: Any, tmp_path: Path) -> None:
    """Orders come in, and a group reads them; without Java there is no query, and the greeting says why."""
    server = processes.up("--demo", JAVA_HOME=str(tmp_path / "nowhere"))
    assert f"no Spark query: JAVA_HOME names no Java: {tmp_path / 'nowhere'}" in server.greeting
    assert f"rmq consume demo -f --namesrv {server.namesrv}" in server.greeting
    with PullConsumer(server.namesrv, group="demo-readers") as consumer:
        wait_until(lambda: sum(_committed(consumer)) > 10, "the group commits")
        consumer.assign(consumer.queues("demo"))
        consumer.seek_to_beginning()
        first = consumer.poll(60_000)[0]
    document = json.loads(first.body)
    assert set(document) == {"order", "item", "amount"}
    assert first.keys == [str(document["order"])]
    assert first.tags in ("placed", "paid", "shipped", "cancelled")
    assert server.end(signal.SIGINT) == 0
    assert (tmp_path / "store" / "demo" / "traffic.log").read_text() == ""


def test_a_demo_is_gone_with_its_servers(processes: Any) -> None:
    """Also where they were killed: no process of it is left."""
    server = processes.up("--demo", JAVA_HOME="/nowhere")
    namesrv = server.namesrv
    wait_until(lambda: len(_demo_processes(namesrv)) == 1, "orders are sent")
    server.process.kill()
    wait_until(lambda: not _demo_processes(namesrv), "nobody sends any more")


@pytest.mark.slow_first
@pytest.mark.spark
def test_a_demo_has_a_query(processes: Any) -> None:
    """Large orders are copied by Spark, and it shows among the queries; Ctrl-C leaves nothing behind."""
    server = processes.up("--demo")
    namesrv = server.namesrv
    assert "Spark query demo: orders above 900 go to topic demo-large" in server.greeting
    with PullConsumer(namesrv) as consumer, AdminClient(namesrv) as admin:
        wait_until(lambda: "demo-large" in admin.topics() and _messages(consumer, "demo-large"), "Spark copies orders")
        consumer.assign(consumer.queues("demo-large"))
        consumer.seek_to_beginning()
        assert all(json.loads(message.body)["amount"] > 900 for message in consumer.poll(60_000))
    told = ("spark", "list", "--json", "--namesrv", namesrv)
    wait_until(
        lambda: [(each["name"], each["state"]) for each in processes.run(*told).json] == [("demo", "running")],
        "its listener reports",
    )
    assert len(_demo_processes(namesrv)) == 2
    assert server.end(signal.SIGINT) == 0
    assert _demo_processes(namesrv) == []


def _messages(consumer: PullConsumer, topic: str) -> int:
    return sum(map(consumer.max_offset, consumer.queues(topic)))


def _committed(consumer: PullConsumer) -> list[int]:
    try:
        return [consumer.committed(queue) or 0 for queue in consumer.queues("demo")]
    except TopicNotFound:
        return []


def _demo_processes(namesrv: str) -> list[bytes]:
    """Command lines of the demo's processes on this cluster."""
    lines = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):  # ended meanwhile
            lines.append(Path("/proc", pid, "cmdline").read_bytes())
    return [line for line in lines if b"rmqspark.cli.sample" in line and namesrv.encode() in line]
