"""What a notebook shows of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rmqspark.notebook import query_html

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Topic

pytestmark = pytest.mark.spark


def test_a_query_shows_where_it_stands(topic: Topic, tmp_path: Path) -> None:
    """A real query shows its name, whether it runs, and what its last micro-batch read and from where."""
    topic.send("a", "b", "c")
    frame = topic.stream("body binary", startingOffsets="earliest")
    writer = frame.writeStream.format("noop").queryName("counting").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    html = query_html(query)
    for words in ("Query counting", query.runId, "rows", "sink", f">{topic.name}<"):
        assert words in html
    broken = topic.stream("id bigint", valueFormat="json", mode="FAILFAST", startingOffsets="earliest")
    query = broken.writeStream.format("noop").trigger(availableNow=True).start()
    with pytest.raises(Exception, match="does not parse"):
        query.awaitTermination(200)
    html = query_html(query)
    assert "does not parse" in html
    assert "Traceback" not in html
