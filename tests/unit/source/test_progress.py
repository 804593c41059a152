"""What the driver of a streaming query decides, over a cluster that does as the test says."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark.errors import BrokerNotRegistered, DataLoss, InvalidArgument, InvalidQueue, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.options import Moment
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import SourceOptions, Subscription
from rmqspark.source.planning.admission import Limits
from rmqspark.source.planning.planner import Snapshot, range_in, ranges
from rmqspark.source.planning.start import resolve
from rmqspark.source.positions import (
    LATEST_MARK,
    AtOffsets,
    AtTime,
    AtTimes,
    BeforeEnd,
    Committed,
    Earliest,
    Latest,
    Position,
)
from rmqspark.testing.manual_clock import ManualClock

from .one_cluster import EVERY, Q0, Q1, STORE, Cluster, at, progress

if TYPE_CHECKING:
    from collections.abc import Iterable


@pytest.mark.parametrize(
    ("start", "positions"),
    [
        (Latest(), {Q0: 10, Q1: 20}),
        (Earliest(), {Q0: 3, Q1: 0}),
        (AtOffsets({Q0: -2, Q1: -1}), {Q0: 3, Q1: 20}),
        (AtOffsets({Q0: 7, Q1: 0}), {Q0: 7, Q1: 0}),
        (AtTime(Moment(5)), {Q0: 4, Q1: 9}),
        (AtTime(Moment(5), else_latest=True), {Q0: 4, Q1: 9}),
        (AtTime(Moment(11), else_latest=True), {Q0: 10, Q1: 15}),
        (AtTimes({"t": Moment(5)}), {Q0: 4, Q1: 9}),
        (AtTimes({"t": Moment(6)}, {Q1: Moment(5)}), {Q0: 5, Q1: 9}),
        (BeforeEnd(8), {Q0: 3, Q1: 12}),
        (BeforeEnd(1), {Q0: 9, Q1: 19}),
        (Committed("g"), {Q0: 6, Q1: 20}),
        (Committed("g", else_latest=False), {Q0: 6, Q1: 0}),
    ],
)
def test_a_new_query_starts_where_it_was_told(start: Position, positions: dict[MessageQueue, int]) -> None:
    """startingOffsets and startingTimestamp name an offset for each queue."""
    cluster = Cluster({Q0: 10, Q1: 20}, {Q0: 3})
    cluster.by_time = {Q0: 4, Q1: 9}
    cluster.committed_offsets = {Q0: 6}
    assert progress(cluster, start=start).initial().positions == positions


@pytest.mark.parametrize(
    ("start", "story"),
    [
        (AtOffsets({Q0: 1}), "startingOffsets says nothing about queue t/broker-a/1.*-2 is earliest"),
        (
            AtOffsets({Q0: 1, Q1: 1, MessageQueue("t", "broker-b", 0): 1}),
            "startingOffsets names queue t/broker-b/0, which is not read",
        ),
        (
            AtOffsets({Q0: 11, Q1: 1}),
            "startingOffsets names offset 11 of queue t/broker-a/0, which ends at 10.*-1 stands for",
        ),
        (
            AtTimes({}, {Q0: Moment(5)}),
            "startingOffsetsByTimestamp says nothing about queue t/broker-a/1.*0 being the first",
        ),
        (
            AtTimes({"t": Moment(5)}, {MessageQueue("u", "b", 0): Moment(5)}),
            "startingOffsetsByTimestamp names queue u/b/0, which is not read",
        ),
        (
            AtTimes({"t": Moment(5), "typo": Moment(5)}),
            "startingOffsetsByTimestamp names 'typo', which is not read.*Read are: t",
        ),
        (AtTimes({"t": Moment(5), "typo": Moment(5)}, else_latest=True), "names 'typo', which is not read"),
        (AtTimes({"t": Moment(5)}), "t/broker-a/1 has no message stored at or after 5.*Strategy=latest"),
        (Committed("g"), "'g' has committed offset 11 of queue t/broker-a/0, which ends at 10"),
        (AtTime(Moment(5)), "t/broker-a/1 has no message stored at or after 5.*Strategy=latest"),
    ],
)
def test_a_start_that_does_not_fit_is_refused(start: Position, story: str) -> None:
    """A start that the topic cannot give is an error that names the queue."""
    cluster = Cluster({Q0: 10, Q1: 20})
    cluster.by_time = {Q0: 4, Q1: 20}
    cluster.committed_offsets = {Q0: 11}
    with pytest.raises(InvalidArgument, match=story):
        progress(cluster, start=start).initial()


def test_a_group_that_reads_on_while_it_is_asked_about_is_no_mistake() -> None:
    """What its members commit may lie behind the end that was seen a moment before."""

    class Busy(Cluster):
        def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
            self.ends = {Q0: 12, Q1: 20}
            return super().committed(group, queues)

    cluster = Busy({Q0: 10, Q1: 20})
    cluster.committed_offsets = {Q0: 11, Q1: 20}
    assert progress(cluster, start=Committed("g")).initial().positions == {Q0: 11, Q1: 20}


@pytest.mark.parametrize(
    ("end", "story"),
    [
        ({"endingOffsets": '{"t":{"broker-a":{"0":5}}}'}, "endingOffsets says.*t/broker-a/1.*-1 is latest"),
        ({"endingOffsets": '{"t":{"broker-a":{"0":5,"1":21}}}'}, "endingOffsets names offset 21 of queue t/broker-a/1"),
        ({"endingOffsetsByTimestamp": '{"t":{"broker-a":{"0":5}}}'}, 'endingOffsetsByTimestamp says.*"-0s" being now'),
        ({"endingOffsetsByTimestamp": '{"t":5,"u":5}'}, "endingOffsetsByTimestamp names 'u', which is not read"),
    ],
)
def test_an_end_that_does_not_fit_is_refused(end: dict[str, str], story: str) -> None:
    """The error names the option that ends the read, and advises what that option takes."""
    cluster = Cluster({Q0: 10, Q1: 20})
    options = SourceOptions.parse({"subscribe": "t", **end}, streaming=False)
    with pytest.raises(InvalidArgument, match=story):
        resolve(options.end, cluster.snapshot(), cluster, now_ms=9)


@pytest.mark.parametrize(
    "start", [AtTime(Moment(5)), AtTimes({"t": Moment(5)}), AtTimes({}, {Q0: Moment(5), Q1: Moment(5)})]
)
@pytest.mark.parametrize("end", [0, 20])
def test_a_start_by_time_passes_over_queues_that_hold_nothing(start: Position, end: int) -> None:
    """Nothing was sent to the queue yet, or all of it has expired: what comes is read from its first message on."""
    cluster = Cluster({Q0: 10, Q1: end}, {Q1: end})
    cluster.by_time = {Q0: 4, Q1: end}
    assert progress(cluster, start=start).initial().positions == {Q0: 4, Q1: end}


def test_a_start_by_a_time_to_come_is_refused_in_empty_queues_too() -> None:
    """What is sent until then would be read, though it was not asked for."""
    cluster = Cluster({Q0: 0})
    cluster.by_time = {Q0: 0}
    clock = ManualClock(now_ms=4)
    with pytest.raises(InvalidArgument, match="t/broker-a/0 has no message stored at or after 5"):
        progress(cluster, clock, start=AtTime(Moment(5))).initial()


def test_the_first_offset_stays_the_same_and_has_a_group() -> None:
    """Spark asks for the first offset again while nothing comes: messages in between are not skipped."""
    cluster = Cluster({Q0: 10})
    query = progress(cluster)
    first = query.initial()
    cluster.ends = {Q0: 12}
    assert query.initial() == first
    assert first.group.startswith("spark-")
    assert progress(cluster, group="billing").initial().group == "billing"


def test_a_start_at_latest_is_recorded_before_anything_is_read() -> None:
    """A query whose very first batch fails starts again where it started first, not at the latest of then."""
    cluster = Cluster({Q0: 10})
    query = progress(cluster)
    first = query.initial()
    cluster.ends = {Q0: 12}
    assert query.latest(first, None) == first
    assert query.latest(first, None).positions == {Q0: 12}
    again = progress(cluster)  # after a restart: the batch that ends at `first` is planned from a later start
    assert ranges(again.initial(), first) == []
    assert again.latest(first, None).positions == {Q0: 12}


def test_progress_is_reported_from_where_the_next_batch_starts() -> None:
    """The group's committed offsets are those of finished batches."""
    cluster = Cluster({Q0: 12})
    progress(cluster).latest(at({Q0: 5}), None)
    assert cluster.reports == [at({Q0: 5})]


def test_nothing_is_reported_of_a_queue_that_is_away() -> None:
    """A topic that lost queues, or a broker that is down, does not keep the rest from being reported."""
    cluster = Cluster({Q0: 12})
    progress(cluster).latest(at({Q0: 5, Q1: 3}), None)
    assert cluster.reports == [at({Q0: 5})]


class Dying(Cluster):
    """Has broker-b in sight, which answers nothing; with `noticed`, the next look is without it."""

    there = MessageQueue("t", "broker-b", 0)

    def __init__(self, *, noticed: bool) -> None:
        super().__init__({Q0: 10, self.there: 20})
        self.noticed, self.asked = noticed, 0

    def due(self, start: Offsets, snapshot: Snapshot, *, is_idle: bool) -> dict[MessageQueue, int]:
        self.asked += 1
        if "broker-b" not in snapshot.stores:
            return super().due(start, snapshot, is_idle=is_idle)
        if self.noticed:
            del self.ends[self.there]
        raise Unreachable("Nothing answers.", address="b:1")

    def snapshot(
        self, *, fresh: bool = False, missing_topics_allowed: bool = False, outages_allowed: bool = False
    ) -> Snapshot:
        self.looks += 1
        return Snapshot(dict(self.ends), {queue.broker_name: self.store for queue in self.ends})


def test_a_broker_that_goes_after_it_was_seen_is_out_of_sight() -> None:
    """The others are read on, and its queues wait where they were: patience with it alone would end the query."""
    cluster = Dying(noticed=True)
    start = replace(at({Q0: 4, cluster.there: 5}), stores={("t", "broker-a"): STORE, ("t", "broker-b"): STORE})
    assert progress(cluster).latest(start, None).positions == {Q0: 10, cluster.there: 5}
    assert cluster.asked == 2


def test_a_broker_that_stays_in_sight_and_answers_nothing_ends_the_query() -> None:
    """Nothing has been found out about it, so what it holds is missed."""
    cluster = Dying(noticed=False)
    with pytest.raises(Unreachable):
        progress(cluster).latest(at({Q0: 4}), None)
    assert cluster.asked == 2


def test_brokers_that_hang_are_left_out_of_looks_that_can_be_made_up_for() -> None:
    """Not of the one that decides where a query begins, nor of those that say when it is at its pinned end."""
    cluster = Asked({Q0: 10})
    query = progress(cluster)
    query.initial()
    assert cluster.allowed == [False]
    end = query.latest(at({Q0: 4}), None)
    query.readable([], at({Q0: 3}))
    assert cluster.allowed == [False, True, True]
    query.pin()
    query.latest(end, None)
    assert cluster.allowed == [False, True, True, False, False]


class Asked(Cluster):
    """Remembers of each look whether brokers that hang may be missing in it."""

    def __init__(self, ends: dict[MessageQueue, int]) -> None:
        super().__init__(ends)
        self.allowed: list[bool] = []

    def snapshot(
        self, *, fresh: bool = False, missing_topics_allowed: bool = False, outages_allowed: bool = False
    ) -> Snapshot:
        self.allowed.append(outages_allowed)
        return super().snapshot()


def test_a_queue_named_in_assign_that_never_was_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a query that is started again over its checkpoint, too; one that it has a place in is of a broker away, and
    of a broker that answers nothing nobody knows."""
    there, nowhere = MessageQueue("t", "broker-b", 0), MessageQueue("t", "broker-a", 7)
    start = at({Q0: 4, there: 5})
    assigned = progress(Cluster({Q0: 10}), subscription=Subscription(("t",), frozenset({Q0, there})))
    assert assigned.latest(start, None).positions == {Q0: 10, there: 5}
    assigned = progress(Cluster({Q0: 10}), subscription=Subscription(("t",), frozenset({Q0, there, nowhere})))
    with pytest.raises(InvalidArgument, match="t/broker-a/7, named in assign, does not exist"):
        assigned.latest(start, None)
    cluster = Cluster({Q0: 10})
    snapshot = replace(cluster.snapshot(), left_out=frozenset({"broker-a"}))
    monkeypatch.setattr(cluster, "snapshot", lambda **_: snapshot)
    assigned = progress(cluster, subscription=Subscription(("t",), frozenset({Q0, nowhere})))
    assert assigned.latest(at({Q0: 4}), None).positions == {Q0: 10}


def test_nothing_is_reported_of_a_checkpoint_that_is_refused() -> None:
    """Offsets of another topic or store are not committed to the group before somebody notices."""
    cluster = Cluster({Q0: 12})
    for start in (at({MessageQueue("other", "broker-a", 0): 3}), at({Q0: 5}, StoreIdentity("old", 1))):
        with pytest.raises((InvalidArgument, DataLoss)):
            progress(cluster).latest(start, None)
    assert cluster.reports == []


def test_limit_and_pinned_end() -> None:
    """maxOffsetsPerTrigger and Trigger.AvailableNow hold together."""
    cluster = Cluster({Q0: 10})
    query = progress(cluster)
    query.pin()
    cluster.ends = {Q0: 50}
    assert query.latest(at({Q0: 0}), Limits(max_rows=4)).positions == {Q0: 4}
    assert query.latest(at({Q0: 8}), Limits(max_rows=4)).positions == {Q0: 10}
    assert query.latest(at({Q0: 10}), None) == at({Q0: 10})
    newest = query.newest()
    assert newest.positions == {Q0: 50}


@pytest.mark.parametrize("comes_back", [False, True])
def test_what_is_pinned_is_read_or_the_query_fails(comes_back: bool) -> None:
    """Not done with as if it had been read, where no name server names its broker any more."""
    there = MessageQueue("t", "broker-b", 0)

    class Restarting(Cluster):
        def snapshot(self, **kwargs: bool) -> Snapshot:
            snapshot = super().snapshot(**kwargs)
            if comes_back and self.looks == 3:
                self.ends[there] = 9
            return replace(snapshot, stores=dict.fromkeys({queue.broker_name for queue in snapshot.ends}, STORE))

    cluster = Restarting({Q0: 10, there: 9})
    query = progress(cluster)
    query.pin()
    del cluster.ends[there]
    start = replace(at({Q0: 10, there: 5}), stores={("t", "broker-a"): STORE, ("t", "broker-b"): STORE})
    if comes_back:
        assert query.latest(start, None).positions == {Q0: 10, there: 9}
    else:
        with pytest.raises(BrokerNotRegistered, match="'broker-b' was there .* in sight any more"):
            query.latest(start, None)
        assert query.latest(start.at({Q0: 10, there: 9}), None).positions == {Q0: 10, there: 9}
        cluster.deleted = {"t"}
        assert query.latest(start, None) == start


def test_what_is_pinned_in_a_queue_that_its_topic_has_no_more_is_missed() -> None:
    """The topic was given fewer queues to read while the query ran: what is in the others is there, and was to be
    read."""
    cluster = Cluster({Q0: 10, Q1: 9})
    query = progress(cluster)
    query.pin()
    del cluster.ends[Q1]
    with pytest.raises(InvalidQueue, match="t/broker-a/1 .* not been read .* its topic .* fewer queues to read"):
        query.latest(at({Q0: 10, Q1: 5}), None)
    assert query.latest(at({Q0: 4, Q1: 9}), None).positions == {Q0: 10, Q1: 9}


def test_what_is_pinned_in_a_topic_that_was_made_anew_is_not() -> None:
    """It has gone with the topic, which is told of by itself: the next one has fewer queues."""
    cluster = Cluster({Q0: 10, Q1: 9})
    query = progress(cluster, fail_on_data_loss=False)
    query.pin()
    cluster.ends, cluster.store = {Q0: 2}, STORE._replace(topic_deleted_ms=7)
    assert query.latest(at({Q0: 4, Q1: 5}), None).positions == {Q0: 0}


@pytest.mark.parametrize(
    "start",
    [
        Latest(),
        BeforeEnd(3),
        Committed("g"),
        AtTime(Moment(ago_ms=5)),
        AtTime(Moment(5), else_latest=True),
        AtTimes({"t": Moment(ago_ms=5)}),
        AtTimes({"t": Moment(5)}, {Q0: Moment(ago_ms=5)}),
        AtTimes({"t": Moment(5)}, else_latest=True),
        AtOffsets({Q0: LATEST_MARK}),
    ],
)
def test_starts_that_move_are_recorded_first(start: Position) -> None:
    """Whatever would be another place when asked again is in the checkpoint before anything is read from it."""
    cluster = Cluster({Q0: 10}, {Q0: 0})
    cluster.by_time = {Q0: -(10**13)}
    query = progress(cluster, start=start)
    first = query.initial()
    cluster.ends = {Q0: 12}
    assert query.latest(first, None) == first


@pytest.mark.parametrize("start", [Earliest(), AtTime(Moment(5)), AtTimes({"t": Moment(5)}), AtOffsets({Q0: 3})])
def test_starts_that_stay_are_read_from_at_once(start: Position) -> None:
    """A batch that fails begins where it began when it is planned again."""
    cluster = Cluster({Q0: 10})
    cluster.by_time = {Q0: 3}
    query = progress(cluster, start=start)
    assert query.latest(query.initial(), None).positions == {Q0: 10}


def test_all_limits_hold_together_and_a_pinned_end_is_reached() -> None:
    """Rows, bytes and a minimum hold at once; Trigger.AvailableNow waits for no minimum, or it would never end."""
    cluster = Cluster({Q0: 50, Q1: 50})
    limits = Limits(max_rows=20, max_bytes=100, min_rows=90)
    query, clock = progress(cluster), ManualClock()
    assert sum(query.latest(at({Q0: 0, Q1: 0}), limits).positions.values()) == 10
    assert query.latest(at({Q0: 20, Q1: 20}), limits) == at({Q0: 20, Q1: 20})
    pinned = progress(cluster, clock)
    pinned.pin()
    cluster.ends = {Q0: 500, Q1: 500}
    where = at({Q0: 0, Q1: 0})
    batches = []
    while (after := pinned.latest(where, limits)) != where:
        batches.append(sum(after.positions.values()) - sum(where.positions.values()))
        where = after
    assert (where.positions, max(batches), sum(batches)) == ({Q0: 50, Q1: 50}, 10, 100)


def test_topics_that_match_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    """subscribePattern: a topic that comes is read from its first message; one that was deleted is lost data."""
    new = MessageQueue("t2", "broker-a", 0)
    cluster = Cluster({Q0: 10, new: 3})
    strict = progress(cluster, subscription=EVERY)
    entered = strict.latest(at({Q0: 10}), None)
    assert (entered.positions, ranges(at({Q0: 10}), entered)) == ({Q0: 10, new: 0}, [])
    assert ranges(entered, strict.latest(entered, None)) == [range_in(STORE, new, 0, 3)]
    cluster.ends = {Q0: 10}
    assert strict.latest(entered, None) == entered  # out of sight: its broker may be away
    cluster.deleted = {"t2"}
    with pytest.raises(DataLoss, match="t2/broker-a/0 was read up to offset 0, but its topic was deleted"):
        strict.latest(entered, None)
    with caplog.at_level(logging.WARNING):
        left = progress(cluster, subscription=EVERY, fail_on_data_loss=False).latest(entered, None)
    assert left.positions == {Q0: 10}
    assert "its topic was deleted" in caplog.text


def test_a_group_may_be_renamed() -> None:
    """Option group counts, not what the checkpoint was made with: progress is reported under the new name."""
    cluster = Cluster({Q0: 12})
    renamed = progress(cluster, group="new").latest(at({Q0: 5}), None)
    assert (renamed.group, renamed.positions, cluster.reports[-1].group) == ("new", {Q0: 12}, "new")
    assert progress(cluster).latest(at({Q0: 5}), None).group == "g"
