"""Topics in SQL: what Spark lets a Python source do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from rmqspark.spark import register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conftest import Batches, Topic
    from pyspark.sql import DataFrame

    Run = Callable[[DataFrame], Batches]

pytestmark = pytest.mark.spark


@pytest.fixture
def view(topic: Topic) -> Iterator[str]:
    """The name of a view that is gone afterwards."""
    name = topic.name.replace("-", "_")
    yield name
    topic.spark.catalog.dropTempView(name)


def bodies(topic: Topic, query: str) -> list[str]:
    return sorted(bytes(row.body).decode() for row in topic.spark.sql(query).collect())


def test_a_registered_topic_is_read_and_written(topic: Topic, view: str) -> None:
    """SELECT reads what was there at the first one, until the topic is registered again; INSERT INTO sends."""
    topic.send("a")
    register(topic.spark, view, topic.name, namesrv=topic.namesrv)
    assert bodies(topic, f"SELECT body FROM {view}") == ["a"]
    topic.spark.sql(f"INSERT INTO {view} (body, tags) VALUES (CAST('c' AS BINARY), 'new')")
    assert bodies(topic, f"SELECT body FROM {view}") == ["a"]
    register(topic.spark, view, topic.name, namesrv=topic.namesrv)
    assert bodies(topic, f"SELECT body FROM {view} WHERE tags = 'new'") == ["c"]
    with pytest.raises(AnalysisException, match="cannot be overwritten"):
        topic.spark.sql(f"INSERT OVERWRITE {view} (body) VALUES (CAST('c' AS BINARY))")


def test_a_topic_is_registered_under_its_own_name(topic: Topic) -> None:
    """Hyphens are in the names of most topics: SQL has such a view in backquotes. An option of None is not given."""
    topic.send("a")
    register(topic.spark, topic.name, namesrv=topic.namesrv, tags=None)
    try:
        assert bodies(topic, f"SELECT body FROM `{topic.name}`") == ["a"]
    finally:
        topic.spark.catalog.dropTempView(topic.name)


def test_a_registered_stream(topic: Topic, view: str, tmp_path: Path) -> None:
    """A view may be a stream, with columns and options of the user's choice."""
    topic.send("keep", tags="x")
    topic.send("drop", tags="y")
    register(topic.spark, view, topic.name, schema="body binary", stream=True, namesrv=topic.namesrv, tags="x",
             startingOffsets="earliest")  # fmt: skip
    rows = topic.spark.sql(f"SELECT cast(body AS string) AS body FROM {view}")
    assert rows.isStreaming
    found: list[str] = []
    writer = rows.writeStream.foreachBatch(lambda batch, number: found.extend(row.body for row in batch.collect()))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    assert found == ["keep"]


def test_a_temporary_view_in_sql(topic: Topic, view: str) -> None:
    """CREATE TEMPORARY VIEW … USING rmq needs no Python; path names the topic for reading and writing."""
    options = f"namesrv '{topic.namesrv}', path '{topic.name}'"
    topic.spark.sql(f"CREATE TEMPORARY VIEW {view} USING rmq OPTIONS ({options})")
    topic.spark.sql(f"INSERT INTO {view} (body) VALUES (CAST('a' AS BINARY))")
    assert bodies(topic, f"SELECT body FROM {view}") == ["a"]


def test_a_view_that_is_only_written_to(topic: Topic, view: str) -> None:
    """A view may leave the topic to its rows if it names its columns, since nothing is looked at to make it."""
    columns, options = "(topic STRING, body BINARY)", f"OPTIONS (namesrv '{topic.namesrv}')"
    with pytest.raises(AnalysisException, match="No topic to read"):
        topic.spark.sql(f"CREATE TEMPORARY VIEW {view} USING rmq {options}")
    topic.spark.sql(f"CREATE TEMPORARY VIEW {view} {columns} USING rmq {options}")
    topic.spark.sql(f"INSERT INTO {view} VALUES ('{topic.name}', CAST('a' AS BINARY))")
    assert topic.bodies() == ["a"]


def test_a_catalog_table_with_options(topic: Topic, view: str, run: Run) -> None:
    """A SELECT needs no more than the table, batch or stream, reads what is there when it runs, and may add options;
    an INSERT names the topic, whatever its rows are: those of another view are not sent back to where they are from."""
    sql, options = topic.spark.sql, f"namesrv '{topic.namesrv}', subscribe '{topic.name}'"
    sql(f"CREATE TABLE {view} USING rmq OPTIONS ({options}) COMMENT 'what was ordered'")
    try:
        topic.send("a", tags="x")
        assert bodies(topic, f"SELECT body FROM {view}") == ["a"]
        sql(f"INSERT INTO {view} WITH (namesrv '{topic.namesrv}', topic '{topic.name}') (body) VALUES (X'62')")
        assert bodies(topic, f"SELECT body FROM {view}") == ["a", "b"]
        assert bodies(topic, f"SELECT body FROM {view} WITH (tags 'x')") == ["a"]
        stream = topic.spark.readStream.option("startingOffsets", "earliest").table(view)
        assert run(stream.select("body")).bodies == ["a", "b"]
        for rows in (
            "(body) VALUES (X'63')",
            f"SELECT * FROM {view}",
            f"SELECT * FROM {view}_v WHERE body IS NOT NULL",
        ):
            topic.read().createOrReplaceTempView(f"{view}_v")
            with pytest.raises(AnalysisException, match="none of its table's options. Name them: INSERT INTO t WITH"):
                sql(f"INSERT INTO {view} {rows}")
        assert topic.bodies() == ["a", "b"]
    finally:
        topic.spark.catalog.dropTempView(f"{view}_v")
        sql(f"DROP TABLE {view}")


def test_a_catalog_table_without_options(topic: Topic, view: str) -> None:
    """Each query names them, or the error says how. Such a query reads what is there when it runs."""
    sql, options = topic.spark.sql, f"namesrv '{topic.namesrv}', path '{topic.name}'"
    sql(f"CREATE TABLE {view} USING rmq")
    try:
        sql(f"INSERT INTO {view} WITH ({options}) (body) VALUES (CAST('a' AS BINARY))")
        assert bodies(topic, f"SELECT body FROM {view} WITH ({options})") == ["a"]
        topic.send("b")
        assert bodies(topic, f"SELECT body FROM {view} WITH ({options})") == ["a", "b"]
        with pytest.raises(AnalysisException, match="No topic to read.*Spark keeps no options of a catalog table"):
            sql(f"SELECT body FROM {view}").collect()
    finally:
        sql(f"DROP TABLE {view}")
