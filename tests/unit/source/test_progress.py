"""What the driver of a streaming query decides, over a cluster that does as the test says."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.measuring import Extent
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import DataLoss, InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.options import Moment
from rmqspark.source.admission import Limits
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import RetryPolicy, SourceOptions, Subscription
from rmqspark.source.ownership import WholeGroup
from rmqspark.source.planner import QueueRange, Snapshot, ranges
from rmqspark.source.positions import (
    AtOffsets,
    AtTime,
    AtTimes,
    BeforeEnd,
    Committed,
    Earliest,
    Latest,
    Position,
)
from rmqspark.source.progress import Progress
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.clock import Clock

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
STORE = StoreIdentity("s", 1)


class Cluster:
    """Stands in for `ClusterView`, `GroupProgress` and `Rewinds`: a topic whose queues the test sets."""

    def __init__(
        self, ends: dict[MessageQueue, int], begins: dict[MessageQueue, int] | None = None, store: StoreIdentity = STORE
    ) -> None:
        self.ends, self.lowest, self.store = ends, begins or {}, store
        self.looks = 0
        self.recovers_after_looks: int | None = None
        self.by_time: dict[MessageQueue, int] = {}
        self.reports: list[Offsets] = []
        self.deleted: set[str] = set()
        self.committed_offsets: dict[MessageQueue, int | None] = {}
        self.resets: dict[MessageQueue, int] = {}

    def snapshot(self, *, fresh: bool = False, missing_topics_allowed: bool = False) -> Snapshot:
        self.looks += 1
        if self.recovers_after_looks is not None and self.looks > self.recovers_after_looks:
            self.ends = dict.fromkeys(self.ends, 100)
        deletions_ms = {("t", "broker-a"): self.store.topic_deleted_ms}
        return Snapshot(dict(self.ends), {"broker-a": self.store}, deletions_ms=deletions_ms)

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.lowest.get(queue, 0) for queue in queues}

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        return {queue: self.by_time[queue] + timestamp_ms - 5 for queue in queues}

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        return {queue: self.committed_offsets.get(queue) for queue in queues}

    def is_deleted(self, topic: str, broker_names: Iterable[str]) -> bool:
        return topic in self.deleted

    def measure(self, budgets: Sequence[tuple[QueueRange, int]]) -> list[Extent]:
        """Messages of ten bytes each."""
        ends = [min(wanted.end, wanted.start + size // 10) for wanted, size in budgets]
        return [
            Extent(end, 10 * (end - wanted.start), 10 if end < wanted.end else 0)
            for (wanted, _), end in zip(budgets, ends, strict=True)
        ]

    def report(self, reached: Offsets) -> None:
        self.reports.append(reached)

    def due(self, start: Offsets, *, is_idle: bool) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self.resets.items() if queue in start.positions}

    def planned(self, end: Offsets, resets: dict[MessageQueue, int]) -> None:
        self.resets = {queue: offset for queue, offset in self.resets.items() if queue not in resets}


def progress(cluster: Cluster, clock: Clock | None = None, **options: object) -> Progress:
    given = SourceOptions(Subscription(("t",)), retry=RetryPolicy(2, 0))
    chosen = replace(given, **options)  # type: ignore[arg-type]
    return Progress(
        chosen, cluster, WholeGroup(cluster), cluster, clock=clock or ManualClock(), entropy=SystemEntropy(1)
    )  # type: ignore[arg-type]


def at(positions: dict[MessageQueue, int], store: StoreIdentity = STORE, epoch: int = 0) -> Offsets:
    return Offsets("g", positions, {("t", "broker-a"): store}, {"t": epoch})


@pytest.mark.parametrize(
    ("start", "positions"),
    [
        (Latest(), {Q0: 10, Q1: 20}),
        (Earliest(), {Q0: 3, Q1: 0}),
        (AtOffsets({Q0: -2, Q1: -1}), {Q0: 3, Q1: 20}),
        (AtOffsets({Q0: 7, Q1: 0}), {Q0: 7, Q1: 0}),
        (AtTime(Moment(5)), {Q0: 4, Q1: 9}),
        (AtTime(Moment(5), else_latest=True), {Q0: 4, Q1: 9}),
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
        (AtOffsets({Q0: 1}), "say nothing about queue t/broker-a/1"),
        (AtOffsets({Q0: 1, Q1: 1, MessageQueue("t", "broker-b", 0): 1}), "t/broker-b/0, which is not read"),
        (AtOffsets({Q0: 11, Q1: 1}), "Offset 11 lies behind the end of queue t/broker-a/0, which is 10"),
        (AtTimes({}, {Q0: Moment(5)}), "timestamps given say nothing about queue t/broker-a/1"),
        (AtTimes({"t": Moment(5)}, {MessageQueue("u", "b", 0): Moment(5)}), "u/b/0, which is not read"),
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


@pytest.mark.parametrize("start", [Latest(), BeforeEnd(3), Committed("g"), AtTime(Moment(ago_ms=5), else_latest=True)])
def test_starts_that_move_are_recorded_first(start: Position) -> None:
    """Whatever would be another place when asked again is in the checkpoint before anything is read from it."""
    cluster = Cluster({Q0: 10}, {Q0: 0})
    cluster.by_time = {Q0: -(10**13)}
    query = progress(cluster, start=start)
    first = query.initial()
    cluster.ends = {Q0: 12}
    assert query.latest(first, None) == first


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


EVERY = Subscription((), pattern="t.*")


def test_topics_that_match_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    """subscribePattern: a topic that comes is read from its first message; one that was deleted is lost data."""
    new = MessageQueue("t2", "broker-a", 0)
    cluster = Cluster({Q0: 10, new: 3})
    strict = progress(cluster, subscription=EVERY)
    entered = strict.latest(at({Q0: 10}), None)
    assert (entered.positions, ranges(at({Q0: 10}), entered)) == ({Q0: 10, new: 0}, [])
    assert ranges(entered, strict.latest(entered, None)) == [QueueRange(new, 0, 3)]
    cluster.ends = {Q0: 10}
    assert strict.latest(entered, None) == entered  # out of sight: its broker may be away
    cluster.deleted = {"t2"}
    with pytest.raises(DataLoss, match="t2/broker-a/0 was read up to offset 0, but its topic was deleted"):
        strict.latest(entered, None)
    with caplog.at_level(logging.WARNING):
        left = progress(cluster, subscription=EVERY, fail_on_data_loss=False).latest(entered, None)
    assert left.positions == {Q0: 10}
    assert "its topic was deleted" in caplog.text


def test_a_topic_no_longer_subscribed_leaves_the_offset() -> None:
    """A query restarted with fewer topics goes on with those it still has."""
    other = MessageQueue("other", "broker-a", 0)
    assert progress(Cluster({Q0: 10})).latest(at({Q0: 5, other: 3}), None).positions == {Q0: 10}


def test_a_broker_that_flaps_is_looked_at_again() -> None:
    """A lower end that mends itself within the retries is nobody's loss."""
    cluster = Cluster({Q0: 3})
    cluster.recovers_after_looks = 2
    assert progress(cluster).latest(at({Q0: 50}), None).positions == {Q0: 100}


LOSSES = [
    (Cluster({Q0: 3}), at({Q0: 50}), "t/broker-a/0 was read up to offset 50, but now ends at 3"),
    (Cluster({Q0: 60}), at({Q0: 50}, StoreIdentity("old", 1)), "broker-a/0 was read up to offset 50.*another store"),
    (
        Cluster({Q0: 60}, store=StoreIdentity("s", 1, 9)),
        at({Q0: 50}),
        "offset 50, but its topic was deleted and made anew",
    ),
    (
        Cluster({Q0: 60}, store=StoreIdentity("s", 1, 9)),
        at({Q0: 50}, StoreIdentity("s", 1, 8)),
        "its topic was deleted and made anew",
    ),
    (Cluster({Q0: 60}), at({Q0: 50}, StoreIdentity("s", 0)), r"lost the end of its store.*incarnation 0 is now 1"),
]


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


def test_a_group_may_be_renamed() -> None:
    """Option group counts, not what the checkpoint was made with: progress is reported under the new name."""
    cluster = Cluster({Q0: 12})
    renamed = progress(cluster, group="new").latest(at({Q0: 5}), None)
    assert (renamed.group, renamed.positions, cluster.reports[-1].group) == ("new", {Q0: 12}, "new")
    assert progress(cluster).latest(at({Q0: 5}), None).group == "g"


MADE_ANEW = StoreIdentity("s", 1, topic_deleted_ms=9)


def test_a_topic_made_anew_with_fewer_queues() -> None:
    """A queue that went with its topic is lost data too, and when it comes back it is read from its first message."""
    start = at({Q0: 0, Q1: 50})
    with pytest.raises(
        DataLoss, match="t/broker-a/1 was read up to offset 50, but its topic was deleted and made anew"
    ):
        progress(Cluster({Q0: 4}, store=MADE_ANEW)).latest(start, None)
    cluster = Cluster({Q0: 4}, store=MADE_ANEW)
    query = progress(cluster, fail_on_data_loss=False)
    entered = query.latest(start, None)
    assert entered.positions == {Q0: 0}
    cluster.ends = {Q0: 4, Q1: 60}
    grown = query.latest(entered, None)
    assert grown.positions == {Q0: 4, Q1: 0}
    assert query.latest(grown, None).positions == {Q0: 4, Q1: 60}
