"""What a broker keeps of Spark queries, and when it forgets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.broker import queries
from rmqspark.broker.consumption import WINDOW_MS, ConsumptionRates
from rmqspark.broker.queries import BELIEVED_FOR_MS, FORGOTTEN_AFTER_MS, MAX_HISTORY, SparkQueries
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.queries import QueryQueue, QueryReport, QueryTable
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES


def nothing(query_id: str, batch_id: int) -> list[InputRange]:
    return []


def report(query_id: str = "q", batch_id: int = 0, queues: int = 1, **fields: object) -> QueryReport:
    read = [QueryQueue("g", "orders", "broker-a", number, 0, 4, 10) for number in range(queues)]
    return QueryReport(query_id, "run", batchId=batch_id, queues=read, **fields)  # type: ignore[arg-type]


def test_the_last_report_counts_and_earlier_ones_are_history() -> None:
    """A query is shown as it reported last, with its batches before that in short, the last twenty of them."""
    table = SparkQueries()
    for batch_id in range(MAX_HISTORY + 5):
        table.report(report(batch_id=batch_id, inputRows=batch_id), now_ms=1_000 + batch_id)
        table.report(report(batch_id=batch_id, inputRows=batch_id), now_ms=1_000 + batch_id)  # the same batch, idle
    (known,) = table.known(nothing)
    assert known.report is not None
    assert known.report.reportedAt == 1_000 + MAX_HISTORY + 4
    assert [each.batchId for each in known.history] == list(range(4, MAX_HISTORY + 4))
    assert known.history[-1].offsetsBehind == 6


def test_a_query_without_a_listener_is_known_by_what_its_tasks_say() -> None:
    """Ranges of one queue that several tasks read are one."""
    table = SparkQueries()
    table.note_batch("q", 7, now_ms=5)
    pieces = [InputRange("g", "orders", "broker-a", 0, 10, 20), InputRange("g", "orders", "broker-a", 0, 20, 30)]
    (known,) = table.known(lambda query_id, batch_id: pieces if (query_id, batch_id) == ("q", 7) else [])
    assert (known.report, known.batchId, known.heardAt) == (None, 7, 5)
    assert known.inputs == [InputRange("g", "orders", "broker-a", 0, 10, 30)]
    assert table.known(nothing, "another") == []


def test_figures_are_those_of_queries_that_run() -> None:
    """One whose driver was killed ran when it was last heard of, and nothing says so after a while; a task that begins
    a long batch is a sign of life."""
    table = SparkQueries()
    table.report(report("runs"), now_ms=0)
    table.report(report("ended", state="stopped"), now_ms=0)
    assert [each.queryId for each in table.running(BELIEVED_FOR_MS)] == ["runs"]
    table.note_batch("runs", 1, now_ms=5)
    assert [each.queryId for each in table.running(BELIEVED_FOR_MS + 5)] == ["runs"]
    assert table.running(BELIEVED_FOR_MS + 6) == []


def test_queries_silent_for_a_day_are_forgotten() -> None:
    """Nothing is kept of a query that nobody has heard of for so long."""
    table = SparkQueries()
    table.report(report("old"), now_ms=0)
    table.note_batch("new", 0, now_ms=10)
    table.expire(FORGOTTEN_AFTER_MS)
    assert [known.queryId for known in table.known(nothing)] == ["new"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9), st.booleans()), max_size=40))
def test_memory_is_bounded(reports: list[tuple[str, int, bool]]) -> None:
    """Whatever is reported, there are never more queries or queues than allowed, and the newest is among them."""
    table = SparkQueries()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "MAX_QUERIES", 4)
        patch.setattr(queries, "MAX_QUEUES", 12)
        patch.setattr(queries, "MAX_BYTES", 4_000)
        for now_ms, (query_id, queues, by_listener) in enumerate(reports):
            if by_listener:
                table.report(report(query_id, now_ms, queues), now_ms)
            else:
                table.note_batch(query_id, now_ms, now_ms)
            known = table.known(nothing)
            assert known[-1].queryId == query_id
            assert len(known) <= 4
            assert sum(len(each.report.queues) for each in known if each.report) <= 12
            assert sum(len(each.report.encode(standard=True)) for each in known if each.report) <= 4_000


def test_what_is_kept_fits_an_answer() -> None:
    """However many queues, and however long the names: the listing is a frame that clients take."""
    table = SparkQueries()
    group = "spark-3f0c6a9e-8d27-4c55-b0aa-1f2f9d0c9f11"
    wide = [QueryQueue(group, "orders", "broker-a", n, 10**9, 10**9, 10**9, 1_000) for n in range(50_000)]
    table.report(QueryReport("wide", queues=wide), now_ms=0)
    assert len(table.known(nothing)) == 1
    long = [QueryQueue("\x01" * 1_000, "\x01" * 1_000, "\x01" * 1_000) for _ in range(300)]
    for number in range(3):
        table.report(QueryReport(f"long-{number}", queues=long), now_ms=1)
        assert len(QueryTable(table.known(nothing)).encode(standard=True)) < MAX_FRAME_BYTES
    with pytest.raises(InvalidArgument, match="bytes"):
        table.report(QueryReport("q", queues=long[:1] * 2_000), now_ms=2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"query_id": "with blanks in it"}, "query id"),
        ({"state": "flying"}, "state is running, stopped or failed"),
        ({"name": "n" * 1_001}, "at most 1000 characters"),
        ({"durationMs": {str(number): 1 for number in range(51)}}, "50 phases"),
    ],
)
def test_what_no_listener_says_is_refused(wrong: dict[str, object], message: str) -> None:
    """A report is checked before anything of it is kept."""
    table = SparkQueries()
    with pytest.raises(InvalidArgument, match=message):
        table.report(report(**wrong), now_ms=0)  # type: ignore[arg-type]
    assert table.known(nothing) == []


def test_a_table_survives_the_wire() -> None:
    """What is listed arrives as it was, unknown figures as unknown."""
    table = SparkQueries()
    table.report(report(durationMs={"triggerExecution": 12}), now_ms=3)
    sent = QueryTable(table.known(nothing), 4)
    assert QueryTable.decode(sent.encode(standard=True)) == sent


def test_consumption_is_how_fast_committed_offsets_move() -> None:
    """A group's rate goes by its commits of the last half minute or more; resets and first commits do not count."""
    offsets = ConsumerOffsets()
    offsets.commit("g", "orders", 0, 100)
    rates = ConsumptionRates(offsets, 0)
    offsets.commit("g", "orders", 0, 400)
    offsets.commit("g", "orders", 1, 5_000)
    assert rates.per_second("g", "orders", 10_000) == 30
    rates.sample(WINDOW_MS)
    rates.sample(2 * WINDOW_MS)
    assert rates.per_second("g", "orders", 2 * WINDOW_MS) == 0
    offsets.reset("g", "orders", 0, 0)
    assert rates.per_second("g", "orders", 3 * WINDOW_MS) == 0
    assert rates.per_second("g", "another", 1) == 0
