"""What the listener makes of Spark's progress events."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryProgress

from rmqspark.client.spark.lag import QueueLag, figures
from rmqspark.client.spark.lag_metrics import GAUGES, exposition
from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.queries import QueryLag
from rmqspark.source.lag import LagListener, Spark, add_lag, positions_of, report_of
from rmqspark.source.offsets import Offsets

if TYPE_CHECKING:
    from pathlib import Path

    from rmqspark.protocol.bodies.queries import QueryReport

Q0, Q1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)
QUERY, RUN = uuid.UUID(int=1), uuid.UUID(int=2)


def offset(positions: dict[MessageQueue, int]) -> str:
    return json.dumps(Offsets("billing", positions).to_json())


def progress(*sources: tuple[str | None, str | None]) -> StreamingQueryProgress:
    """An event as Spark sends it to Python."""
    document: dict[str, Any] = {
        "id": str(QUERY),
        "runId": str(RUN),
        "name": "copy",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "batchId": 7,
        "batchDuration": 300,
        "durationMs": {"triggerExecution": 300, "addBatch": 200},
        "eventTime": {},
        "stateOperators": [],
        "sources": [
            {
                "description": "PythonMicroBatchStream",
                "startOffset": json.loads(start) if start else None,
                "endOffset": json.loads(end) if end else None,
                "latestOffset": None,
                "numInputRows": 10,
                "inputRowsPerSecond": float("inf"),
                "processedRowsPerSecond": 2.0,
                "metrics": {},
            }
            for start, end in sources
        ],
        "sink": {"description": "rmq", "numOutputRows": -1, "metrics": {}},
        "observedMetrics": {},
    }
    return StreamingQueryProgress.fromJson(document)


def reported(*sources: tuple[str | None, str | None]) -> QueryReport:
    report = report_of(progress(*sources), Spark("http://driver:4040", 8))
    assert report is not None
    return report


def test_an_event_becomes_a_report() -> None:
    """Queues, ranges, times and the link to the page of this run are taken from the event."""
    report = reported((offset({Q0: 5, Q1: 1}), offset({Q0: 9, Q1: 1})))
    assert (report.queryId, report.name, report.batchId, report.cores) == (str(QUERY), "copy", 7, 8)
    assert report.batchAt == 1_767_323_045_678
    assert report.durationMs == {"triggerExecution": 300, "addBatch": 200}
    assert (report.inputRowsPerSecond, report.processedRowsPerSecond) == (0, 2)  # of a batch that took no time
    assert report.uiUrl == f"http://driver:4040/StreamingQuery/statistics/?id={RUN}"
    assert [(q.group, q.brokerName, q.fromOffset, q.toOffset) for q in report.queues] == [
        ("billing", "broker-a", 5, 9),
        ("billing", "broker-b", 1, 1),
    ]


def test_what_a_group_was_set_past_is_not_what_a_batch_has_read() -> None:
    """It was set forward: the batch reads nothing across, nor is that how fast the query is."""
    there = Offsets("billing", {Q0: 5_000, Q1: 5}, epochs={"orders": 0})
    end = Offsets("billing", {Q0: 90_000, Q1: 5}, epochs={"orders": 1})
    report = reported((json.dumps(there.to_json()), json.dumps(end.to_json())))
    assert [(q.fromOffset, q.toOffset) for q in report.queues] == [(90_000, 90_000), (5, 5)]
    assert report.messages == 0


def test_other_sources_are_left_alone() -> None:
    """A query that reads nothing of ours is none of our business; one that joins both is, with our half."""
    kafka = json.dumps({"topic": {"0": 5}})
    assert report_of(progress((kafka, kafka)), Spark()) is None
    assert report_of(progress((None, None)), Spark()) is None
    assert positions_of(reported((kafka, kafka), (None, offset({Q0: 9})))) == {Q0: 9}


def test_a_query_that_has_given_up_its_queues_is_behind_in_none() -> None:
    """Other members of its shared group read them on: what it had read of them counted as how far it was, for ever."""
    report = reported((offset({Q0: 9}), offset({})))
    assert (report.queues, report.groups) == ([], ["billing"])
    add_lag(report, [], now_ms=10_000)
    assert report.lag == QueryLag()
    assert 'rmqspark_query_batch_id{query_id="' in (text := exposition([report]))
    assert 'group="billing"' in text


def test_a_queue_out_of_the_subscription_has_no_lag() -> None:
    """Nobody waits for what comes there; put back, it is read from where it was left."""
    both = Offsets("billing", {Q0: 5, Q1: 1})
    one = json.dumps(both.reading({Q0}.__contains__).to_json())
    assert [(q.brokerName, q.toOffset) for q in reported((one, one)).queues] == [("broker-a", 5)]
    back = reported((one, offset({Q0: 5, Q1: 9})))
    assert [(q.brokerName, q.fromOffset, q.toOffset) for q in back.queues] == [("broker-a", 5, 5), ("broker-b", 1, 9)]


def test_a_queue_read_twice_counts_where_the_slower_is() -> None:
    """Two sources of one query may be at different places of a queue."""
    assert positions_of(reported((None, offset({Q0: 9})), (None, offset({Q0: 4, Q1: 2})))) == {Q0: 4, Q1: 2}


def test_lag_is_in_messages_bytes_and_time() -> None:
    """Spark's figures over all queues; what is not known is left out, not taken for nothing."""
    report = reported((None, offset({Q0: 9, Q1: 1})))
    add_lag(report, [QueueLag(Q0, 9, 19, 4_000, 100), QueueLag(Q1, 1, 1)], now_ms=10_000)
    assert [(q.latestOffset, q.behindMs) for q in report.queues] == [(19, 6_000), (1, 0)]
    lag = report.lag
    assert (lag.minOffsetsBehindLatest, lag.maxOffsetsBehindLatest, lag.avgOffsetsBehindLatest) == (0, 10, 5.0)
    assert (lag.estimatedTotalBytesBehindLatest, lag.maxMsBehindLatest) == (1_000, 6_000)
    unreadable = figures([QueueLag(Q0, 0, 5)], now_ms=1)
    assert (unreadable.max_offsets, unreadable.max_ms, unreadable.estimated_total_bytes) == (5, None, None)
    assert figures([], now_ms=1).min_offsets is None


def test_a_queue_that_has_gone_keeps_nothing_else_from_being_told() -> None:
    """A topic may lose queues while a query still has them in its offset: the figures are those of the others."""
    report = reported((None, offset({Q0: 9, Q1: 1})))
    add_lag(report, [QueueLag(Q0, 9, 19, 4_000, 100)], now_ms=10_000)
    assert [(q.latestOffset, q.behindMs) for q in report.queues] == [(19, 6_000), (1, None)]
    assert report.lag.maxOffsetsBehindLatest == 10
    assert report.behind == 10


def test_behind_a_broker_that_is_silent_nothing_is_known() -> None:
    """Nothing behind would be the wrong word for it: alarms would end when the broker does."""
    report = reported((None, offset({Q0: 9, Q1: 1})))
    assert report.behind is None, "not looked at yet"
    add_lag(report, [QueueLag(Q0, 9, 19, 4_000, 100)], now_ms=10_000, silent={"broker-b"})
    assert ([queue.behind for queue in report.queues], report.behind) == ([10, None], None)
    assert report.lag == QueryLag()
    (line,) = [line for line in exposition([report]).splitlines() if "offsets_behind_latest{" in line]
    assert 'broker="broker-a"' in line


def test_what_is_not_known_any_more_is_not_in_the_file(tmp_path: Path) -> None:
    """With the last lag in it, it would say for ever what was before the brokers were gone."""
    exposed = tmp_path / "rmq.prom"
    exposed.write_text("rmqspark_query_max_offsets_behind_latest 5\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        namesrv = f"127.0.0.1:{nobody.getsockname()[1]}"
    listener = LagListener(namesrv, metrics_file=exposed)
    listener.onQueryProgress(SimpleNamespace(progress=progress((None, offset({Q0: 9})))))  # type: ignore[arg-type]
    text = exposed.read_text(encoding="utf-8")
    assert "rmqspark_query_batch_id" in text
    assert "behind" not in text


def test_no_figure_is_there_twice() -> None:
    """Two sources of a query may read one queue: it counts where the slower is."""
    report = reported((None, offset({Q0: 9})), (None, offset({Q0: 4})))
    add_lag(report, [QueueLag(Q0, 4, 19, 4_000, 100)], now_ms=10_000)
    lines = [line for line in exposition([report]).splitlines() if "queue_offsets_behind_latest{" in line]
    assert [line.rpartition(" ")[2] for line in lines] == ["15"]


def test_prometheus_can_read_it() -> None:
    """Every figure has help, a type and a line; names of queries are escaped."""
    from prometheus_client.parser import text_string_to_metric_families

    report = reported((None, offset({Q0: 9})))
    add_lag(report, [QueueLag(Q0, 9, 19, 4_000, 100)], now_ms=10_000)
    report.name = 'the "best"\nof \\ all'
    families = {family.name: family for family in text_string_to_metric_families(exposition([report]))}
    assert {f"rmqspark_query_{gauge.name}" for gauge in GAUGES} <= families.keys()
    (sample,) = families["rmqspark_query_max_ms_behind_latest"].samples
    assert (sample.value, sample.labels["query"], sample.labels["group"]) == (6_000, report.name, "billing")
    (per_queue,) = families["rmqspark_query_queue_offsets_behind_latest"].samples
    assert (per_queue.value, per_queue.labels["broker"]) == (10, "broker-a")
    assert exposition([]) == ""


def test_a_listener_that_could_tell_nobody() -> None:
    """A name server that is no address is an error where the listener is made, not a line of Spark's log."""
    with pytest.raises(InvalidArgument, match="namesrv 'nowhere' is not an address.*host:port"):
        LagListener(namesrv="nowhere")


def test_a_client_of_spark_connect_needs_no_more_than_its_own_package() -> None:
    """pyspark-client has no SparkContext; PySpark does as that package does where this variable is set."""
    ask = "from rmqspark.source.lag import LagListener, _this_spark as this; LagListener('h:9876'); print(*this())"
    around = os.environ | {"SPARK_SKIP_CONNECT_COMPAT_TESTS": "1"}
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, env=around)
    assert (done.stdout, done.stderr) == (" 0\n", "")


def test_without_pyspark_it_is_said_what_brings_it() -> None:
    """It was a ModuleNotFoundError, as of a slip of ours."""
    program = "import sys; sys.modules['pyspark'] = None; import rmqspark.source.lag"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "PySpark is not installed. Install it with: pip install 'rmqspark[spark]'" in ended.stderr
