"""What read tasks report, and what is kept of it."""

from __future__ import annotations

import pytest
from msgspec import structs

from rmqspark.errors import Busy, InvalidArgument
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.txn.coordinator import inputs as inputs_module
from rmqspark.txn.coordinator.events import InputReported, encode_event
from rmqspark.txn.coordinator.inputs import InputReports


def at(queue_id: int, begin: int, end: int) -> InputRange:
    return InputRange("g", "t", "b", queue_id, begin, end)


MESSAGE_BYTES = 4 << 20


@pytest.fixture
def reports() -> InputReports:
    return InputReports(max_event_bytes=MESSAGE_BYTES)


def report(reports: InputReports, batch: int, *ranges: InputRange, query: str = "q") -> int:
    """Reports, and says how many ranges were news."""
    events = reports.report(query, batch, ranges)
    for event in events:
        reports.apply(event)
    return sum(len(event.inputs) for event in events)


def test_a_batch_has_what_its_tasks_reported(reports: InputReports) -> None:
    """In the order of queues and offsets, whoever reported first."""
    report(reports, 5, at(1, 0, 9))
    report(reports, 5, at(0, 4, 8), at(0, 0, 4))
    assert reports.of("q", 5) == [at(0, 0, 4), at(0, 4, 8), at(1, 0, 9)]
    assert (reports.of("q", 6), reports.of("another", 5)) == ([], [])


def test_a_task_that_runs_again_reports_nothing_new(reports: InputReports) -> None:
    """The same range is one range; one with another end takes its place."""
    assert (report(reports, 5, at(0, 0, 4)), report(reports, 5, at(0, 0, 4))) == (1, 0)
    report(reports, 5, at(0, 0, 7))
    assert reports.of("q", 5) == [at(0, 0, 7)]


def test_a_run_that_wakes_takes_nothing_of_a_later_ones_place(reports: InputReports) -> None:
    """What a batch has read under leases is asked for by the run that had them: the other's are another's."""
    later, woken = (structs.replace(at(0, 0, 7), member="me", lease=7, run=run) for run in ("run-2", "run-1"))
    report(reports, 5, later)
    report(reports, 5, woken)
    assert later in reports.of("q", 5)


@pytest.mark.parametrize("wrong", [at(0, 5, 4), at(0, -1, 4), at(-1, 0, 4)])
def test_what_is_no_range_is_refused(reports: InputReports, wrong: InputRange) -> None:
    """And nothing of that report is taken."""
    with pytest.raises(InvalidArgument, match="no range"):
        report(reports, 5, at(0, 0, 4), wrong)
    assert reports.of("q", 5) == []


def test_names_have_a_length(reports: InputReports) -> None:
    """What is kept of each range is bounded, not only how many there are."""
    for field in ("group", "topic", "brokerName", "member", "run"):
        for too_long in ("x" * 256, "é" * 128):
            with pytest.raises(InvalidArgument, match="255 bytes"):
                report(reports, 5, structs.replace(at(0, 0, 4), **{field: too_long}))
    longest = "x" * 255
    assert report(reports, 5, InputRange(longest, longest, longest, 0, 0, 4, longest, 1, longest)) == 1


@pytest.mark.parametrize("wrong", ["a\x01", "\n", "\x7f", "\ud800"])
def test_names_have_no_control_characters(reports: InputReports, wrong: str) -> None:
    """Which take six bytes each where they are kept, or cannot be kept at all."""
    for field in ("group", "topic", "brokerName", "member", "run"):
        with pytest.raises(InvalidArgument, match="control characters"):
            report(reports, 5, structs.replace(at(0, 0, 4), **{field: wrong}))


def test_each_event_fits_a_message(reports: InputReports) -> None:
    """A batch of very many queues is told in pieces, now and whenever the ledger is told anew: an event too large to be
    stored would keep the log from ever expiring."""
    name = "x" * 255
    ranges = [InputRange(name, name, name, queue, 0, 4, name, 1, name) for queue in range(30_000)]
    events = reports.report("q", 5, ranges)
    for event in events:
        reports.apply(event)
    assert max(len(encode_event(event)) for event in (*events, *reports.restated("q"))) < 2 << 20
    assert len(reports.of("q", 5)) == sum(len(event.inputs) for event in reports.restated("q")) == 30_000


def test_what_was_taken_before_names_were_looked_at_can_be_restated(reports: InputReports) -> None:
    """However many bytes its names take: an event that fits no message would be tried again for ever."""
    name = "\x01" * 255
    ranges = [InputRange(name, name, name, 0, queue, queue + 4, name, 1, name) for queue in range(1_000)]
    for piece in (ranges[:500], ranges[500:]):
        reports.apply(InputReported("q", 5, piece))
    restated = reports.restated("q")
    assert max(len(encode_event(event)) for event in restated) <= MESSAGE_BYTES
    assert [each for event in restated for each in event.inputs] == ranges


def test_a_query_goes_on_at_an_earlier_batch(reports: InputReports) -> None:
    """With a checkpoint that was restored: what its batches read now is kept like that of any, over a restart too."""
    for batch in range(10):
        report(reports, batch, at(0, batch, batch + 1))
    for batch in (2, 3, 4):
        assert report(reports, batch, at(1, batch, batch + 1)) == 1
    again = InputReports(max_event_bytes=MESSAGE_BYTES)
    for event in reports.restated("q"):
        again.apply(event)
    for kept in (reports, again):
        assert [batch for batch in range(10) if kept.of("q", batch)] == [2, 3, 4, 9]
    report(again, 5, at(1, 5, 6))
    assert [batch for batch in range(10) if again.of("q", batch)] == [2, 3, 4, 5]


def test_old_batches_and_silent_queries_go_first(reports: InputReports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, whoever reports whatever."""
    for batch in range(10):
        report(reports, batch, at(0, batch, batch + 1))
    assert [batch for batch in range(10) if reports.of("q", batch)] == [6, 7, 8, 9]
    monkeypatch.setattr(inputs_module, "MAX_RANGES", 6)
    for query in ("r", "s", "t"):
        report(reports, 0, at(0, 0, 1), at(1, 0, 1), query=query)
    assert [query for query in ("q", "r", "s", "t") if reports.of(query, 0) or reports.of(query, 9)] == ["r", "s", "t"]


def test_a_batch_cannot_be_reported_without_end(reports: InputReports, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its limit the task is told so."""
    monkeypatch.setattr(inputs_module, "MAX_RANGES_OF_A_BATCH", 2)
    report(reports, 0, at(0, 0, 1), at(1, 0, 1))
    with pytest.raises(Busy, match="no room"):
        report(reports, 0, at(2, 0, 1))


def test_runs_of_before_make_room(reports: InputReports, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that is started again and again at the same batch can always say what it reads now."""
    monkeypatch.setattr(inputs_module, "MAX_RANGES_OF_A_BATCH", 5)
    report(reports, 0, at(9, 0, 1))
    runs = [[structs.replace(at(queue, 0, 1), run=f"run-{run}") for queue in range(2)] for run in range(6)]
    for run in runs:
        report(reports, 0, *run)
        assert all(each in reports.of("q", 0) for each in (at(9, 0, 1), *run))
    kept = [at(9, 0, 1), *runs[-2], *runs[-1]]
    assert sorted(map(repr, reports.of("q", 0))) == sorted(map(repr, kept))
    with pytest.raises(Busy, match="no room"):
        report(reports, 0, *(structs.replace(each, queueId=each.queueId + 2) for each in runs[-1] * 2))


def test_it_can_be_told_again(reports: InputReports) -> None:
    """Restated, it says the same."""
    report(reports, 0, at(0, 0, 1), at(1, 0, 1))
    report(reports, 1, at(0, 1, 2), query="r")
    again = InputReports(max_event_bytes=MESSAGE_BYTES)
    for event in (event for query in reports for event in reports.restated(query)):
        again.apply(event)
    assert (again.of("q", 0), again.of("r", 1)) == (reports.of("q", 0), reports.of("r", 1))
