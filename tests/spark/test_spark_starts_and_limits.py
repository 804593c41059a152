"""Where queries start and end, and how much a micro-batch holds, with a real Spark."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import SparkSession

    from rmqspark.client.admin import AdminClient

    Run = Callable[[Any], Batches]

pytestmark = pytest.mark.spark


def pattern(topic: Topic, expression: str, **options: object) -> Any:
    reader = topic.spark.readStream.format("rmq").option("namesrv", topic.namesrv).option("startingOffsets", "earliest")
    return reader.options(**options).option("subscribePattern", expression).load()  # type: ignore[arg-type]


def test_topics_that_match_come_and_go(topic: Topic, run: Run, admin: AdminClient) -> None:
    """subscribePattern reads the topics there are, those that come, and calls those that go a loss."""
    topic.send("a")
    matching = f"{topic.name}|{topic.name}-.*"
    assert run(pattern(topic, matching)).bodies == ["a"]
    admin.create_topic(f"{topic.name}-new", queues=1)
    admin.create_topic(f"not-{topic.name}", queues=1)
    type(topic)(f"{topic.name}-new", topic.spark, topic.namesrv).send("b")
    type(topic)(f"not-{topic.name}", topic.spark, topic.namesrv).send("c")
    topic.send("d")
    assert run(pattern(topic, matching)).bodies == ["b", "d"]
    admin.delete_topic(f"{topic.name}-new")
    with pytest.raises(StreamingQueryException, match=f"Queue {topic.name}-new/broker-a/0 .*its topic was deleted"):
        run(pattern(topic, matching))
    topic.send("e")
    assert run(pattern(topic, matching, failOnDataLoss=False)).bodies == ["e"]


def test_topics_come_and_go_under_queries_that_run(topic: Topic, admin: AdminClient, tmp_path: Path) -> None:
    """subscribePattern has a topic joined while a query goes on. One that is deleted ends it, or leaves it if
    failOnDataLoss is false, and joins it anew when it is made anew."""
    new = type(topic)(f"{topic.name}-new", topic.spark, topic.namesrv)

    def start(name: str, **options: object) -> tuple[Any, list[str]]:
        seen: list[str] = []
        stream = pattern(topic, f"{topic.name}.*", **options).select("body")
        writer = stream.writeStream.foreachBatch(
            lambda batch, _: seen.extend(bytes(r.body).decode() for r in batch.collect())
        )
        return writer.option("checkpointLocation", str(tmp_path / name)).start(), seen

    strict, tolerant = start("strict"), start("tolerant", failOnDataLoss=False)
    try:
        topic.send("a")
        admin.create_topic(new.name, queues=1)
        new.send("b", "c")
        for query, seen in (strict, tolerant):
            wait_for(query, seen, "abc")
        admin.delete_topic(new.name)
        with pytest.raises(StreamingQueryException, match=f"Queue {new.name}/broker-a/0 .*its topic was deleted"):
            strict[0].awaitTermination()
        topic.send("d")
        wait_for(*tolerant, "abcd")
        admin.create_topic(new.name, queues=1)
        new.send("e")
        wait_for(*tolerant, "abcde")
    finally:
        for query, _ in (strict, tolerant):
            query.stop()


def wait_for(query: Any, seen: list[str], bodies: str) -> None:
    """Until a query that runs has seen just these, each once."""
    while len(seen) < len(bodies):
        assert not query.awaitTermination(1)
    assert sorted(seen) == [*bodies]


def test_a_batch_over_a_pattern(topic: Topic, other: Topic) -> None:
    """A batch reads all topics that match."""
    topic.send("a")
    other.send("b")
    reader = topic.spark.read.format("rmq").option("namesrv", topic.namesrv)
    found = reader.option("subscribePattern", f"({topic.name}|{other.name})").load().collect()
    assert sorted(bytes(row.body) for row in found) == [b"a", b"b"]


def test_times_of_single_topics_bound_a_batch(topic: Topic) -> None:
    """startingOffsetsByTimestamp and endingOffsetsByTimestamp take a time for each topic or queue."""
    topic.send("early")
    middle_ms = int(topic.read().collect()[0].storeTimestamp.timestamp() * 1000) + 1
    topic.send("late")
    times = json.dumps({topic.name: middle_ms})
    late = topic.read(startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest")
    assert [bytes(row.body) for row in late.collect()] == [b"late"]
    by_queue = {topic.name: {"broker-a": dict.fromkeys(map(str, range(3)), middle_ms)}}
    early = topic.read(endingOffsetsByTimestamp=json.dumps(by_queue))
    assert [bytes(row.body) for row in early.collect()] == [b"early"]


def test_a_stream_starts_at_a_time_of_its_topic(topic: Topic, run: Run) -> None:
    """startingOffsetsByTimestamp: a queue whose messages are all older is an error, or with
    startingOffsetsByTimestampStrategy=latest read from its end."""
    topic.send("early", "early")
    middle_ms = 1 + max(int(row.storeTimestamp.timestamp() * 1000) for row in topic.read().collect())
    topic.send("late", queue=0)
    times = json.dumps({topic.name: middle_ms})
    with pytest.raises(StreamingQueryException, match=f"{topic.name}/broker-a/1 has no message stored at or after"):
        run(topic.stream(startingOffsetsByTimestamp=times))
    latest = {"startingOffsetsByTimestamp": times, "startingOffsetsByTimestampStrategy": "latest"}
    assert run(topic.stream(**latest)).bodies == ["late"]
    topic.send("new", queue=1)
    assert run(topic.stream(**latest)).bodies == ["new"]


def test_so_many_messages_before_the_end(topic: Topic, run: Run, rmq_spark: SparkSession) -> None:
    """startingOffsets=-2 reads the last two messages of each queue; a stream goes on behind them."""
    rows = rmq_spark.range(9).selectExpr("cast(id as string) body", "cast(id % 2 as int) queueId")
    topic.write(rows.coalesce(1), partitioner="column")
    assert sorted(bytes(row.body) for row in topic.read(startingOffsets="-2").collect()) == [b"5", b"6", b"7", b"8"]
    assert run(topic.stream(startingOffsets="-2")).bodies == ["5", "6", "7", "8"]
    topic.send("9")
    assert run(topic.stream(startingOffsets="-2")).bodies == ["9"]


def test_a_query_takes_over_where_a_group_stands(topic: Topic, run: Run, tmp_path: Path) -> None:
    """startingOffsets=group goes on where another query of the group ended, without its checkpoint, as a batch or as a
    stream; groupOffsetReset says where a group begins that never was there."""
    topic.send("a", "b", "c")
    run(topic.stream(startingOffsets="earliest", group="handing-over"))
    topic.send("d", "e")
    found = topic.read(startingOffsets="group", group="handing-over").collect()
    assert sorted(bytes(row.body) for row in found) == [b"d", b"e"]
    assert topic.read(startingOffsets="group", group="never-there").count() == 0
    assert topic.read(startingOffsets="group", group="never-there", groupOffsetReset="earliest").count() == 5
    for group, reset, bodies in (("handing-over", "latest", "de"), ("newcomer", "earliest", "abcde")):
        (tmp_path / "checkpoint").rename(tmp_path / f"before-{group}")
        assert run(topic.stream(startingOffsets="group", group=group, groupOffsetReset=reset)).bodies == list(bodies)


def test_bytes_bound_each_batch(topic: Topic, run: Run, rmq_spark: SparkSession) -> None:
    """maxBytesPerTrigger is about what messages take in the broker's log. It is exceeded by a message that is larger
    alone, and made use of, also under Trigger.AvailableNow; everything is read."""
    topic.write(rmq_spark.range(60).selectExpr("repeat('x', cast(100 * (1 + id % 7) as int)) body"))
    topic.send("y" * 9_000)
    stored = topic.stored_bytes()
    batches = run(topic.stream(startingOffsets="earliest", maxBytesPerTrigger=4_000, maxOffsetsPerTrigger=12))
    read = [[stored.pop((row.queueId, row.queueOffset)) for row in rows] for rows in batches.rows]
    assert not stored
    assert max(batches.sizes) <= 12
    (alone,) = [sizes for sizes in read if sum(sizes) > 4_000]
    assert (len(alone), alone[0] > 9_000) == (1, True)
    assert len(read) < 2 * sum(map(sum, read)) / 4_000


def test_available_now_does_not_wait_for_a_minimum(topic: Topic, run: Run) -> None:
    """minOffsetsPerTrigger does not keep a query that reads what is there from reading the last of it."""
    topic.send("a", "b", "c")
    assert run(topic.stream(startingOffsets="earliest", minOffsetsPerTrigger=1_000)).bodies == ["a", "b", "c"]


def test_a_query_waits_for_enough(topic: Topic, tmp_path: Path) -> None:
    """minOffsetsPerTrigger: what is too little stays where it is until more has come, or maxTriggerDelay is over."""
    seen: list[int] = []
    stream = topic.stream("body binary", startingOffsets="earliest", minOffsetsPerTrigger=3, maxTriggerDelay="1h")
    writer = stream.writeStream.foreachBatch(lambda batch, number: seen.append(batch.count()))
    topic.send("a")
    query = writer.option("checkpointLocation", str(tmp_path / "waiting")).start()
    try:
        query.processAllAvailable()
        topic.send("b", "c")
        query.processAllAvailable()
        assert sum(seen) == 1
        topic.send("d")
        query.processAllAvailable()
        assert sum(seen) == 4
    finally:
        query.stop()


def test_all_limits_of_a_query_that_runs(topic: Topic, tmp_path: Path) -> None:
    """minOffsetsPerTrigger, maxTriggerDelay, maxOffsetsPerTrigger and maxBytesPerTrigger together: what is too little
    is read after a while, and no micro-batch has more rows or bytes, but for a message that is larger by itself."""
    batches: list[list[tuple[int, int]]] = []
    stream = topic.stream(
        "queueId int, queueOffset bigint", startingOffsets="earliest",
        minOffsetsPerTrigger=5, maxTriggerDelay="2s", maxOffsetsPerTrigger=8, maxBytesPerTrigger=2_000,
    )  # fmt: skip
    writer = stream.writeStream.foreachBatch(lambda batch, _: batches.append([tuple(row) for row in batch.collect()]))
    query = writer.option("checkpointLocation", str(tmp_path / "limited")).start()
    try:
        for bodies in (["a"], ["b", "c"], ["x" * 300] * 20, ["y" * 3_000, *"small"], ["z"] * 40):
            topic.send(*bodies)
            while sum(map(len, batches)) < len(topic.stored_bytes()):
                assert not query.awaitTermination(1)
    finally:
        query.stop()
    stored = topic.stored_bytes()
    read = [[stored.pop(place) for place in places] for places in batches if places]
    assert not stored
    assert max(map(len, read)) == 8
    assert [len(sizes) for sizes in read if sum(sizes) > 2_000] == [1]


def test_a_query_does_not_wait_longer_than_it_is_told(topic: Topic, tmp_path: Path) -> None:
    """maxTriggerDelay: once it is over, what is too little is read all the same."""
    seen: list[int] = []
    stream = topic.stream("body binary", startingOffsets="earliest", minOffsetsPerTrigger=1_000, maxTriggerDelay="2s")
    writer = stream.writeStream.foreachBatch(lambda batch, number: seen.append(batch.count()))
    topic.send("a")
    query = writer.option("checkpointLocation", str(tmp_path / "waiting")).start()
    try:
        query.processAllAvailable()
        topic.send("b", "c")
        while sum(seen) < 3:
            assert not query.awaitTermination(1)
    finally:
        query.stop()
