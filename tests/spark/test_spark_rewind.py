"""A running query is set to another place, without a new checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Batches, Topic

    from rmqspark.client.admin import AdminClient

pytestmark = pytest.mark.spark


def test_a_reset_reaches_a_running_query(topic: Topic, other: Topic, admin: AdminClient, tmp_path: Path) -> None:
    """It reads again from where the group was set to, exactly that, and the group's offsets follow it again."""
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
        plan = admin.reset_group("rewound", "earliest", topic=topic.name)
        assert sum(each.read_again for each in plan) == 3
        topic.send("d")
        _wait_for(query, lambda: len(other.bodies()) >= 7)
        assert other.bodies() == ["a", "a", "b", "b", "c", "c", "d"]
        _wait_for(query, lambda: sum(each.committed or 0 for each in admin.group("rewound").queues) == 4)
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


def _wait_for(query: Any, condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        assert query.exception() is None
        query.awaitTermination(0.2)
    raise AssertionError("It did not come to that.")
