"""Which messages a micro-batch gets, and which task reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.source.driver import _partitions
from rmqspark.source.loss import shrunken
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import SourceOptions
from rmqspark.source.partitions import Holder
from rmqspark.source.planner import (
    FEW_TASKS,
    TASK_RECORDS,
    QueueRange,
    Snapshot,
    advance,
    check_task_size,
    needing_begin,
    ranges,
    split,
    together,
)

Q0, Q1, Q2 = (MessageQueue("t", "broker-a", queue_id) for queue_id in range(3))
STORE = StoreIdentity("s", 1)


def offsets(positions: dict[MessageQueue, int], store: StoreIdentity = STORE, epoch: int = 0) -> Offsets:
    return Offsets("g", positions, {("t", "broker-a"): store}, {"t": epoch})


def seen(ends: dict[MessageQueue, int], store: StoreIdentity = STORE, **begins: int) -> Snapshot:
    deletions_ms = {("t", "broker-a"): store.topic_deleted_ms}
    broker_store = store._replace(topic_deleted_ms=0)
    return Snapshot(ends, {"broker-a": broker_store}, dict.fromkeys(ends, 0), deletions_ms)


def test_a_step_reads_what_is_new() -> None:
    """A micro-batch goes from where the last one ended to the end of each queue."""
    start = offsets({Q0: 3, Q1: 5})
    end = advance(start, seen({Q0: 10, Q1: 5}))
    assert ranges(start, end) == [QueueRange(Q0, 3, 10)]


def test_a_range_says_which_topic_of_its_name_it_is_of() -> None:
    """However it is split: whoever reads it later can tell a topic that was made anew."""
    store = STORE._replace(topic_deleted_ms=70)
    start = offsets({Q0: 3}, store)
    (whole,) = ranges(start, advance(start, seen({Q0: 9}, store)))
    assert whole == QueueRange(Q0, 3, 9, 70)
    assert split([whole], at_least=2) == [QueueRange(Q0, 3, 6, 70), QueueRange(Q0, 6, 9, 70)]


def test_a_lower_end_never_sets_a_query_back() -> None:
    """A broker that reports less than before is not taken at its word: Spark would read everything again."""
    start = offsets({Q0: 30})
    assert advance(start, seen({Q0: 10})) == start


def test_of_a_slave_only_those_queues_are_seen_that_it_can_go_on_with() -> None:
    """What it lacks its master may have: such a queue, and a new one, keeps its place until that is back."""
    ends, begins = {Q0: 50, Q1: 50, Q2: 50}, {Q0: 20, Q1: 20, Q2: 20}
    snapshot = replace(seen(ends), copied_from=begins)
    assert snapshot.having({Q0: 19, Q1: 20, Q2: 50}).ends == {Q1: 50, Q2: 50}
    assert snapshot.having({Q0: 51, Q1: 30}).ends == {Q1: 50}
    assert seen(ends).having({Q0: 0}).ends == ends
    start = offsets({Q0: 19, Q1: 20, Q2: 51})
    assert shrunken(start, snapshot) == []
    assert [loss.queue for loss in shrunken(start, seen(ends))] == [Q2]
    assert ranges(start, advance(start, snapshot.having(start.positions))) == [QueueRange(Q1, 20, 50)]


def test_a_new_queue_is_recorded_first_and_read_from_the_next_batch_on() -> None:
    """A queue added while a query runs is read completely, and a batch run again after a crash reads the same."""
    start = offsets({Q0: 3})
    snapshot = seen({Q0: 3, Q1: 9})
    assert needing_begin(start, snapshot) == [Q1]
    pinned = advance(start, snapshot)
    assert pinned.positions == {Q0: 3, Q1: 0}
    assert ranges(start, pinned) == []
    assert ranges(pinned, advance(pinned, snapshot)) == [QueueRange(Q1, 0, 9)]


@pytest.mark.parametrize(
    ("now", "position", "epoch"),
    [
        (StoreIdentity("s", 2), 8, 4),
        (StoreIdentity("other", 1), 0, 4),
        (StoreIdentity(), 0, 4),
        (StoreIdentity("s", 1, topic_deleted_ms=7), 0, 4),
    ],
)
def test_another_store_is_entered_anew(now: StoreIdentity, position: int, epoch: int) -> None:
    """Numbers of two stores, or of two lives of one, are never subtracted from each other. Where they begin anew, the
    topic's epoch rises: an audit goes by it."""
    start = offsets({Q0: 12}, epoch=3)
    end = advance(start, seen({Q0: 8}, now))
    assert (end.positions, end.store_of(Q0), end.epochs) == ({Q0: position}, now, {"t": epoch})
    assert ranges(start, end) == []
    after = advance(end, seen({Q0: 20}, now))
    assert ranges(end, after) == [QueueRange(Q0, position, 20, now.topic_deleted_ms)]
    assert after.epochs == end.epochs


@pytest.mark.parametrize("end", [12, 15])
def test_a_crash_that_cost_nothing_that_was_read_leaves_the_epoch(end: int) -> None:
    """As far as can be told: where as much was sent since, the numbers are there again."""
    start = offsets({Q0: 12}, epoch=3)
    after = advance(start, seen({Q0: end}, STORE._replace(incarnation=2)))
    assert (after.positions, after.epochs) == ({Q0: 12}, {"t": 3})


def test_a_topic_that_comes_begins_with_the_epoch_of_its_last_deletion() -> None:
    """Above those of the topic that was deleted, if the query has read that: its offsets say nothing of it any more."""
    deleted = STORE._replace(topic_deleted_ms=70)
    assert advance(Offsets("g"), seen({Q0: 5}, deleted)).epochs["t"] == 70
    assert advance(offsets({Q1: 3}, deleted, epoch=4), seen({Q0: 5, Q1: 3}, deleted)).epochs["t"] == 4


def test_a_topic_made_anew_on_one_of_its_brokers_gets_a_new_epoch() -> None:
    """Its queues of other brokers stay where they are; queues that went with the old topic make it another one, too."""
    elsewhere = MessageQueue("t", "broker-b", 0)
    stores = {("t", "broker-a"): STORE, ("t", "broker-b"): STORE}
    start = Offsets("g", {Q1: 12, elsewhere: 4}, stores, {"t": 0})
    stores_now = {"broker-a": STORE, "broker-b": STORE}
    now = Snapshot({Q0: 2, elsewhere: 6}, stores_now, {Q0: 0}, {("t", "broker-a"): 7})
    end = advance(start, now)
    assert (end.positions, end.epochs) == ({Q0: 0, elsewhere: 4}, {"t": 1})
    assert ranges(start, end) == []
    assert ranges(end, advance(end, now)) == [QueueRange(Q0, 0, 2, 7), QueueRange(elsewhere, 4, 6)]


def test_a_queue_that_is_new_begins_no_epoch() -> None:
    """Nor does a broker whose queues of the topic were not known."""
    start = offsets({}, epoch=1)
    assert advance(start, seen({Q0: 2}, StoreIdentity("other", 1))).epochs == {"t": 1}


def test_a_topic_made_anew_gets_a_new_epoch() -> None:
    """After a topic was deleted and made again its queues are read from their beginning."""
    start = offsets({Q0: 12, Q1: 4})
    end = advance(start, seen({Q0: 2, Q1: 6}), reborn={"t"})
    assert (end.positions, end.epochs) == ({Q0: 0, Q1: 4}, {"t": 1})
    assert ranges(start, end) == []


def test_a_queue_out_of_sight_keeps_its_place() -> None:
    """While a broker is away its queues wait where they were."""
    start = offsets({Q0: 3, Q1: 5})
    assert advance(start, seen({Q0: 4})).positions == {Q0: 4, Q1: 5}


def test_available_now_stops_where_it_began() -> None:
    """Trigger.AvailableNow reads what was there when the query started, not what comes while it runs."""
    ceiling = offsets({Q0: 10})
    assert advance(offsets({Q0: 3}), seen({Q0: 50}), ceiling=ceiling).positions == {Q0: 10}
    at_end = offsets({Q0: 10, Q1: 0})
    assert advance(at_end, seen({Q0: 50, Q1: 7}), ceiling=ceiling) == at_end


@pytest.mark.parametrize(
    ("sizes", "at_least", "max_records", "pieces"),
    [
        ([100], None, None, [100]),
        ([100], 4, None, [25] * 4),
        ([90, 10], 10, None, [10] * 10),
        ([100], None, 30, [25] * 4),
        ([3], 10, None, [1, 1, 1]),
        ([9, 12, 6, 9], 10, None, [3, 3, 3, 4, 4, 4, 3, 3, 4, 5]),
        ([10] * 10, 11, None, [5, 5] + [10] * 9),
        ([100, 100], 1, None, [100, 100]),
        ([1000, 1, 1], 3, None, [1000, 1, 1]),
        ([], 4, 10, []),
    ],
)
def test_ranges_are_split_over_tasks(
    sizes: list[int], at_least: int | None, max_records: int | None, pieces: list[int]
) -> None:
    """minPartitions and maxRecordsPerPartition cut large queues, and only as far as needed."""
    whole = [QueueRange(MessageQueue("t", "b", number), 7, 7 + size) for number, size in enumerate(sizes)]
    assert [piece.size for piece in split(whole, at_least=at_least, max_records=max_records)] == pieces


def test_tasks_of_a_few_messages_each_are_not_any_number() -> None:
    """Spark's driver would run out of memory over them; the error says how many messages each has to have."""
    planned = [QueueRange(MessageQueue("t", "b", number), 7, 7 + 100_001) for number in range(2)]
    check_task_size(planned, None)
    check_task_size(planned, 3)
    with pytest.raises(InvalidArgument, match="cannot be 2 for 200,002 messages.*Use 3 or more"):
        check_task_size(planned, 2)
    two_each = SourceOptions.parse({"subscribe": "t", "maxRecordsPerPartition": "2"}, streaming=False)
    nobody: Any = None  # is asked
    with pytest.raises(InvalidArgument, match="cannot be 2 for 200,002 messages"):
        _partitions(nobody, planned, two_each, Holder())


@pytest.mark.property
@given(
    st.lists(st.integers(1, 500), max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 100),
)
def test_pieces_cover_the_ranges_exactly(sizes: list[int], at_least: int | None, max_records: int | None) -> None:
    """However ranges are split, each message is in exactly one piece."""
    whole = [QueueRange(MessageQueue("t", "b", number), 0, size) for number, size in enumerate(sizes)]
    pieces = split(whole, at_least=at_least, max_records=max_records)
    covered = [(piece.queue, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    assert covered == [(one.queue, offset) for one in whole for offset in range(one.size)]
    assert max_records is None or all(piece.size <= max_records for piece in pieces)
    assert len(pieces) >= min(at_least or 0, sum(sizes))
    if max_records is None:
        assert len(pieces) <= (at_least or 0) + len(sizes)


def of_queues(sizes: list[int], *, brokers: int = 1) -> list[QueueRange]:
    return [
        QueueRange(MessageQueue("t", f"b{number % brokers}", number), 5, 5 + size) for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "at_least", "max_records", "tasks"),
    [
        ([1] * 16, None, None, 16),  # as many tasks as queues, while these are few
        ([1_000_000] * 64, None, None, 64),  # or have much to read
        ([156] * 64, None, None, 16),
        ([1_000] * 1_000, None, None, 25),  # 40,000 messages each
        ([1_000] * 1_000, 100, None, 100),
        ([1_000] * 1_000, None, 5_000, 200),
        ([1] * 1_000, None, 1, 1_000),
        ([], None, None, 0),
    ],
)
def test_short_ranges_are_read_together(
    sizes: list[int], at_least: int | None, max_records: int | None, tasks: int
) -> None:
    """A thousand queues are not a thousand tasks, unless each has much to read or the options say so."""
    assert len(together(of_queues(sizes), at_least=at_least, max_records=max_records)) == tasks


@pytest.mark.property
@given(
    st.lists(st.integers(1, 90_000), max_size=80),
    st.integers(1, 3),
    st.none() | st.integers(1, 100),
    st.none() | st.integers(1, 100_000),
)
def test_each_range_is_in_one_task(
    sizes: list[int], brokers: int, at_least: int | None, max_records: int | None
) -> None:
    """However ranges are put together, none is lost or read twice, and a task talks to one broker."""
    pieces = of_queues(sizes, brokers=brokers)
    tasks = together(pieces, at_least=at_least, max_records=max_records)
    assert sorted(piece for task in tasks for piece in task) == sorted(pieces)
    assert len(tasks) >= min(len(pieces), max(FEW_TASKS, at_least or 0))
    for task in tasks:
        assert len({piece.queue.broker_name for piece in task}) == 1
        together_size = sum(piece.size for piece in task)
        assert len(task) == 1 or together_size <= min(TASK_RECORDS, max_records or TASK_RECORDS)
