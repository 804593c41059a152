"""A running query is set to another place, without a new checkpoint."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from rmqspark.cli.verbs import app

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Batches, Topic

    from rmqspark.client.admin import AdminClient

pytestmark = pytest.mark.spark


def rewind(query: Any, topic: Topic, *words: str) -> Any:
    """What `rmq spark rewind QUERY … --json` prints."""
    command = ["spark", "rewind", query.id, *words, "--namesrv", topic.namesrv, "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_rewind_reaches_a_running_query(topic: Topic, other: Topic, admin: AdminClient, tmp_path: Path) -> None:
    """rmq spark rewind: it reads again from there, exactly that, and its group's offsets follow it again; --dry-run
    says which queues that would be, and nothing comes of it."""
    query = (
        topic.stream("body binary", startingOffsets="earliest", group="rewound")
        .writeStream.format("rmq")
        .option("namesrv", other.namesrv)
        .option("topic", other.name)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        topic.send("a", "b", "c")
        query.processAllAvailable()
        assert other.bodies() == ["a", "b", "c"]
        planned = rewind(query, topic, "--to", "earliest", "--dry-run")
        assert (planned["group"], planned["done"]) == ("rewound", False)
        assert sum(queue["committed"] - queue["target"] for queue in planned["queues"]) == 3
        assert rewind(query, topic, "--to", "earliest", "--yes") == planned | {"done": True}
        topic.send("d")
        _wait_for(query, lambda: len(other.bodies()) >= 7)
        assert other.bodies() == ["a", "a", "b", "b", "c", "c", "d"]
        _wait_for(query, lambda: sum(each.committed or 0 for each in admin.group("rewound").queues) == 4)
        audit = CliRunner().invoke(app, ["audit", query.id, "--namesrv", topic.namesrv, "--json"])
        assert audit.exit_code == 0, audit.output
        assert sum(reset["messages"] for reset in json.loads(audit.stdout)["resets"]) == 3
    finally:
        query.stop()


def test_a_reset_waits_for_a_query_that_is_not_running(
    topic: Topic, run: Callable[[Any], Batches], admin: AdminClient
) -> None:
    """The next start from the checkpoint carries it out, once."""
    topic.send("a", "b")
    stream = {"startingOffsets": "earliest", "group": "resting"}
    assert run(topic.stream(**stream)).bodies == ["a", "b"]
    admin.reset_group("resting", "earliest", topic=topic.name)
    assert run(topic.stream(**stream)).bodies == ["a", "b"]
    assert run(topic.stream(**stream)).bodies == []


def test_a_reset_reaches_a_query_that_has_one_batch_a_run(topic: Topic, admin: AdminClient, tmp_path: Path) -> None:
    """With Trigger.Once the first run enters at the new place, and the second reads from there."""
    read: list[str] = []

    def run() -> list[str]:
        """What one more run reads."""
        before = len(read)
        stream = topic.stream("body binary", startingOffsets="earliest", group="now-and-then")
        writer = stream.selectExpr("cast(body as string) body").writeStream
        writer = writer.foreachBatch(lambda batch, _: read.extend(row.body for row in batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(once=True).start()
        assert query.awaitTermination(200)
        return sorted(read[before:])

    topic.send("a", "b")
    assert run() == ["a", "b"]
    admin.reset_group("now-and-then", "earliest", topic=topic.name)
    assert [run(), run(), run()] == [[], ["a", "b"], []]


def _wait_for(query: Any, condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        assert query.exception() is None
        query.awaitTermination(0.2)
    raise AssertionError("It did not come to that.")
