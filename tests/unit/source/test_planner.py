"""Which messages a micro-batch gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqspark.model import MessageQueue
from rmqspark.source.loss import shrunken
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.planning.dealing import split
from rmqspark.source.planning.planner import Snapshot, advance, needing_begin, range_in, ranges
from rmqspark.source.queue_range import QueueRange

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
    assert ranges(start, end) == [range_in(STORE, Q0, 3, 10)]


def test_a_range_says_which_topic_of_its_name_and_which_store_it_is_of() -> None:
    """However it is split: whoever reads it later can tell a topic that was made anew, and another store."""
    store = STORE._replace(topic_deleted_ms=70)
    start = offsets({Q0: 3}, store)
    (whole,) = ranges(start, advance(start, seen({Q0: 9}, store)))
    assert whole == QueueRange(Q0, 3, 9, 70, STORE.store_id)
    assert split([whole], at_least=2) == [whole._replace(end=6), whole._replace(start=6)]


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
    assert ranges(start, advance(start, snapshot.having(start.positions))) == [range_in(STORE, Q1, 20, 50)]


def test_a_new_queue_is_recorded_first_and_read_from_the_next_batch_on() -> None:
    """A queue added while a query runs is read completely, and a batch run again after a crash reads the same."""
    start = offsets({Q0: 3})
    snapshot = seen({Q0: 3, Q1: 9})
    assert needing_begin(start, snapshot) == [Q1]
    pinned = advance(start, snapshot)
    assert pinned.positions == {Q0: 3, Q1: 0}
    assert ranges(start, pinned) == []
    assert ranges(pinned, advance(pinned, snapshot)) == [range_in(STORE, Q1, 0, 9)]


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
    assert ranges(end, after) == [range_in(now, Q0, position, 20)]
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
    assert ranges(end, advance(end, now)) == [
        range_in(STORE._replace(topic_deleted_ms=7), Q0, 0, 2),
        range_in(STORE, elsewhere, 4, 6),
    ]


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
