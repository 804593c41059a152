"""What the driver of a query finds lost, and where an operator sets it, over a cluster that does as the test says."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from rmqspark.errors import DataLoss, InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import RetryPolicy
from rmqspark.source.planning.planner import range_in, ranges
from rmqspark.source.positions import Earliest
from rmqspark.testing.manual_clock import ManualClock

from .one_cluster import EVERY, Q0, Q1, STORE, Cluster, at, progress


def test_a_broker_that_flaps_is_looked_at_again() -> None:
    """A lower end that mends itself within the retries is nobody's loss."""
    cluster = Cluster({Q0: 3})
    cluster.recovers_after_looks = 2
    clock = ManualClock()
    begun_ms = clock.monotonic_ms()
    query = progress(cluster, clock, retry=RetryPolicy(3, 10))
    assert query.latest(at({Q0: 50}), None).positions == {Q0: 100}
    assert clock.monotonic_ms() - begun_ms == 10 + 50


@pytest.mark.parametrize(("begin", "end"), [(10, 30), (60, 90)])
def test_a_slave_that_lacks_the_place_is_no_loss(monkeypatch: pytest.MonkeyPatch, begin: int, end: int) -> None:
    """Its master may have what it has not yet, or has no more: the queue is out of sight until that is back."""
    cluster = Cluster({Q0: end})
    snapshot = replace(cluster.snapshot(), copied_from={Q0: begin})
    monkeypatch.setattr(cluster, "snapshot", lambda **_: snapshot)
    assert progress(cluster).latest(at({Q0: 50}), None).positions == {Q0: 50}


LOSSES = [
    (Cluster({Q0: 3}), at({Q0: 50}), "t/broker-a/0 was read up to offset 50, but now ends at 3"),
    (Cluster({Q0: 60}), at({Q0: 50}, StoreIdentity("old", 1)), "broker-a/0 was read up to offset 50.*another store"),
    (
        Cluster({Q0: 60}, store=StoreIdentity("s", 1, 9)),
        at({Q0: 50}),
        "offset 50, but its topic was deleted or made anew",
    ),
    (
        Cluster({Q0: 60}, store=StoreIdentity("s", 1, 9)),
        at({Q0: 50}, StoreIdentity("s", 1, 8)),
        "its topic was deleted or made anew",
    ),
    (Cluster({Q0: 60}), at({Q0: 50}, StoreIdentity("s", 0)), r"lost the end of its store.*incarnation 0 is now 1"),
]


@pytest.mark.parametrize(("before", "now"), [(StoreIdentity(), STORE), (STORE, StoreIdentity())])
def test_one_store_that_rocketmqs_broker_and_ours_serve_in_turns(before: StoreIdentity, now: StoreIdentity) -> None:
    """RocketMQ's says nothing of its store. The error names what reads nothing twice: failOnDataLoss=false would read
    all of it once more."""
    start = at({Q0: 50}, before)
    with pytest.raises(DataLoss, match="another store") as ended:
        progress(Cluster({Q0: 60}, store=now)).latest(start, None)
    assert f"another checkpointLocation, group={start.group}, startingOffsets=group." in ended.value.hint
    assert progress(Cluster({Q0: 60}, store=now), fail_on_data_loss=False).latest(start, None).positions == {Q0: 0}


def test_a_deletion_that_is_told_no_more_is_none() -> None:
    """RocketMQ leaves it out when it writes the broker's table: what was read before is not read once more."""
    start = at({Q0: 50}, StoreIdentity("s", 1, 8))
    query = progress(Cluster({Q0: 60}))
    entered = query.latest(start, None)
    assert entered.positions == {Q0: 50}
    assert query.latest(entered, None).positions == {Q0: 60}


@pytest.mark.parametrize(("cluster", "start", "story"), LOSSES)
def test_lost_messages_end_the_query_in_words(cluster: Cluster, start: Offsets, story: str) -> None:
    """failOnDataLoss: the error names queue and offset, what happened, and how to go on."""
    with pytest.raises(DataLoss, match=f"{story}.*failOnDataLoss=false"):
        progress(cluster).latest(start, None)


@pytest.mark.parametrize(("cluster", "start", "story"), LOSSES)
def test_lost_messages_may_be_let_go(
    cluster: Cluster, start: Offsets, story: str, caplog: pytest.LogCaptureFixture
) -> None:
    """failOnDataLoss=false: a warning, and the query goes on in the queue as it now is, without reading across."""
    query = progress(cluster, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        entered = query.latest(start, None)
    assert "the query goes on with what is there" in caplog.text
    assert ranges(start, entered) == []
    after = query.latest(entered, None)
    assert after.positions == cluster.ends
    assert query.latest(after, None) == after


def test_a_checkpoint_of_other_topics_is_refused() -> None:
    """A checkpoint that says nothing about what is read is a mistake, not a query that starts at the beginning."""
    other = MessageQueue("other", "broker-a", 0)
    with pytest.raises(InvalidArgument, match=r"other topics or queues: other\..*checkpointLocation"):
        progress(Cluster({Q0: 10})).latest(at({other: 3}), None)
    matching = progress(Cluster({Q0: 10}), subscription=EVERY)
    with pytest.raises(InvalidArgument, match="other topics"):
        matching.latest(at({other: 3}), None)
    assert matching.latest(at({}), None).positions == {Q0: 0}


def test_a_checkpoint_of_another_cluster_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Where brokers have other names than in the checkpoint, the query does not start over in silence."""
    elsewhere = at({MessageQueue("t", "broker-x", 0): 7})
    with pytest.raises(DataLoss, match="t/broker-x/0 was read up to offset 7.*is the checkpoint of another cluster"):
        progress(Cluster({Q0: 10})).latest(elsewhere, None)
    tolerant = progress(Cluster({Q0: 10}), fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        entered = tolerant.latest(elsewhere, None)
    assert "another cluster" in caplog.text
    assert tolerant.latest(entered, None).positions[Q0] == 10


def test_a_store_of_which_nothing_was_read_is_no_loss() -> None:
    """A broker that was set up anew before anything was read from it does not end the query."""
    start = at({Q0: 0}, StoreIdentity("old", 1))
    assert progress(Cluster({Q0: 4})).latest(start, None).positions == {Q0: 0}


@pytest.mark.parametrize(("asked", "entered"), [(3, 3), (0, 2), (99, 60)])
def test_a_reset_of_the_group_reaches_the_query(asked: int, entered: int) -> None:
    """The queue enters anew at its new place, or the nearest there is; the others go on where they are."""
    cluster = Cluster({Q0: 60, Q1: 70}, {Q0: 2})
    query = progress(cluster)
    cluster.resets = {Q0: asked}
    start = at({Q0: 50, Q1: 65})
    moved = query.latest(start, None)
    assert moved.positions == {Q0: entered, Q1: 65}
    assert moved.epochs == {"t": 1}
    assert ranges(start, moved) == []
    after = query.latest(moved, None)
    assert [(each.queue, each.start, each.end) for each in ranges(moved, after)] == [
        (queue, begin, end) for queue, begin, end in [(Q0, entered, 60), (Q1, 65, 70)] if begin < end
    ]


def test_a_reset_settles_what_was_lost() -> None:
    """Where an operator says from where to go on, messages that are gone end nothing."""
    cluster = Cluster({Q0: 3})
    cluster.resets = {Q0: 1}
    assert progress(cluster).latest(at({Q0: 50}), None).positions == {Q0: 1}


def test_a_reset_of_a_queue_that_is_away_waits_for_it() -> None:
    """Only what has been carried out is over: a queue that is not to be seen just now is set when it is back."""
    cluster = Cluster({Q0: 60})
    query = progress(cluster)
    cluster.resets = {Q1: 3}
    away = query.latest(at({Q0: 60, Q1: 50}), None)
    assert (away.positions, cluster.resets) == ({Q0: 60, Q1: 50}, {Q1: 3})
    cluster.ends = {Q0: 60, Q1: 70}
    assert query.latest(away, None).positions == {Q0: 60, Q1: 3}
    assert cluster.resets == {}


def test_a_reset_of_all_that_is_in_sight_makes_no_strangers_of_the_rest() -> None:
    """Where the group is set to another place while a broker of the topic is away, or the topic has fewer queues, the
    others are known as before: the checkpoint is not taken for one of another cluster."""
    cluster = Cluster({Q1: 70})
    query = progress(cluster)
    cluster.resets = {Q1: 3}
    moved = query.latest(at({Q0: 50, Q1: 65}), None)
    assert (moved.positions, cluster.resets) == ({Q0: 50, Q1: 3}, {})
    assert query.latest(moved, None).positions == {Q0: 50, Q1: 70}


MADE_ANEW = StoreIdentity("s", 1, topic_deleted_ms=9)


def test_a_topic_made_anew_with_fewer_queues() -> None:
    """A queue that went with its topic is lost data too, and when it comes back it is read from its first message."""
    start = at({Q0: 0, Q1: 50})
    with pytest.raises(DataLoss, match="t/broker-a/1 was read up to offset 50, but its topic was deleted or made anew"):
        progress(Cluster({Q0: 4}, store=MADE_ANEW)).latest(start, None)
    cluster = Cluster({Q0: 4}, store=MADE_ANEW)
    query = progress(cluster, fail_on_data_loss=False)
    entered = query.latest(start, None)
    assert entered.positions == {Q0: 0}
    cluster.ends = {Q0: 4, Q1: 60}
    grown = query.latest(entered, None)
    assert grown.positions == {Q0: 4, Q1: 0}
    assert query.latest(grown, None).positions == {Q0: 4, Q1: 60}


PENDING = at({Q0: 5, Q1: 9})
"""The end of a batch that begins with the first messages, which an earlier run planned and did not finish."""

REPLAYS = [
    (Cluster({Q0: 60, Q1: 60}, store=StoreIdentity("other", 1)), "broker-a/0 was read up to offset 0.*another store"),
    (Cluster({Q0: 60, Q1: 60}, store=StoreIdentity("s", 1, 9)), "offset 0, but its topic was deleted or made anew"),
    (Cluster({Q1: 60}, store=StoreIdentity("s", 1, 9)), "offset 0, but its topic was deleted or made anew"),
]


def gone() -> Cluster:
    """Without the topic, and sure that it is gone."""
    cluster = Cluster({})
    cluster.deleted = {"t"}
    return cluster


@pytest.mark.parametrize(("cluster", "story"), [*REPLAYS, (gone(), "its topic was deleted: messages may be gone")])
def test_a_batch_run_again_reads_no_other_messages(
    cluster: Cluster, story: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What an earlier run planned is not there any more: the numbers are nobody's, or count others by now."""
    planned = ranges(at({Q0: 0, Q1: 0}), PENDING)
    with pytest.raises(DataLoss, match=f"{story}.*failOnDataLoss=false"):
        progress(cluster).readable(planned, PENDING)
    with caplog.at_level(logging.WARNING):
        assert progress(cluster, fail_on_data_loss=False).readable(planned, PENDING) == []
    assert "the query goes on with what is there" in caplog.text


def test_a_batch_run_again_where_a_broker_lost_its_tail() -> None:
    """What is left has the same numbers, and has not been read."""
    planned, cluster = ranges(at({Q0: 0, Q1: 0}), PENDING), Cluster({Q0: 3, Q1: 60}, store=StoreIdentity("s", 2))
    with pytest.raises(DataLoss, match="lost the end of its store"):
        progress(cluster).readable(planned, PENDING)
    assert progress(cluster, fail_on_data_loss=False).readable(planned, PENDING) == planned


def test_the_first_batch_run_again_where_a_broker_lost_its_tail() -> None:
    """Its beginning is in no checkpoint, so it is looked up again, in a store that has begun a new life since."""
    first = progress(Cluster({Q0: 5, Q1: 9}), start=Earliest())
    end = first.latest(first.initial(), None)
    for fails in (True, False):
        cluster = Cluster({Q0: 3, Q1: 60}, store=StoreIdentity("s", 2))
        again = progress(cluster, start=Earliest(), fail_on_data_loss=fails)
        planned = ranges(again.initial(), end)
        if fails:
            with pytest.raises(DataLoss, match="offset 0, but its broker has since lost the end of its store"):
                again.readable(planned, end)
        else:
            assert again.readable(planned, end) == [range_in(STORE, Q0, 0, 5), range_in(STORE, Q1, 0, 9)]


def test_a_batch_run_again_while_a_broker_is_away() -> None:
    """It may come back: tasks wait for it, or fail."""
    planned = ranges(at({Q0: 0, Q1: 0}), PENDING)
    assert progress(Cluster({})).readable(planned, PENDING) == planned


def test_nobody_is_asked_about_a_batch_of_this_run() -> None:
    """It has just been planned from what the cluster said."""
    cluster = Cluster({Q0: 5, Q1: 9})
    query = progress(cluster)
    end = query.latest(at({Q0: 0, Q1: 0}), None)
    looks = cluster.looks
    planned = ranges(at({Q0: 0, Q1: 0}), end)
    assert (query.readable(planned, end), cluster.looks) == (planned, looks)
    assert progress(cluster).readable(planned, end) == planned
    assert cluster.looks == looks + 1
