"""Topics and queues that are taken out of the subscription of a query, and put back, over one checkpoint."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import DataLoss, InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.source import offsets as offsets_module
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import SourceOptions, Subscription
from rmqspark.source.planning.planner import range_in, ranges
from rmqspark.source.planning.resumption import Resumption

from .one_cluster import EVERY, Q0, Q1, STORE, Cluster, at, progress

OTHER = MessageQueue("t2", "broker-a", 0)
BOTH = Offsets("g", {Q0: 5, OTHER: 3}, {("t", "broker-a"): STORE, ("t2", "broker-a"): STORE}, {"t": 0, "t2": 4})


def recorded(offsets: Offsets) -> Offsets:
    """As it comes back from the checkpoint."""
    return Offsets.from_json(json.loads(json.dumps(offsets.to_json())))


def without_other(start: Offsets = BOTH) -> Offsets:
    return recorded(progress(Cluster({Q0: 10})).latest(start, None))


def test_a_topic_put_back_goes_on_where_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """A query restarted with fewer topics goes on with those it still has; the others lose nothing by it."""
    with caplog.at_level(logging.WARNING):
        fewer = without_other()
    assert fewer.positions == {Q0: 10}
    assert "queues that are read no longer, of: t2" in caplog.text
    assert without_other(fewer) == fewer, "nothing to do: no batch is made of it"
    cluster = Cluster({Q0: 10, OTHER: 7})
    again = progress(cluster, subscription=EVERY)
    end = recorded(again.latest(fewer, None))
    assert ranges(fewer, end) == [range_in(STORE, OTHER, 3, 7)]
    assert (end.positions, end.left, end.epochs) == ({Q0: 10, OTHER: 7}, None, {"t": 0, "t2": 4})
    assert cluster.reports[-1].positions == {Q0: 10, OTHER: 3}
    assert again.latest(end, None) == end


def test_what_is_read_no_longer_is_told_once_a_run(caplog: pytest.LogCaptureFixture) -> None:
    """Not with every batch."""
    query = progress(Cluster({Q0: 10}))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            query.latest(BOTH, None)
    assert caplog.text.count("queues that are read no longer") == 1


def test_a_shared_group_keeps_places_itself() -> None:
    """Those of queues that are read no longer are given back to it; of another group's checkpoint nothing is taken."""
    shared = {"subscribe": "t", "groupMode": "shared"}
    same, another = (SourceOptions.parse(shared | {"group": group}, streaming=True) for group in ("g", "h"))
    for start in (BOTH, at({OTHER: 3})):
        member = replace(start, member="m")
        assert Resumption(same).of(member) == member
    with pytest.raises(InvalidArgument, match="is of the shared group 'g'; option 'group' says 'h'"):
        Resumption(another).of(replace(BOTH, member="m"))


SHARED = {"subscribe": "t", "group": "g", "groupMode": "shared"}


@pytest.mark.parametrize(
    ("given", "planned", "story"),
    [
        (SHARED, at({Q0: 9}), "had its group to itself"),
        (SHARED, replace(at({Q0: 9}), group="other", member="m"), "shared group 'other'; option 'group' says 'g'"),
        ({"subscribe": "t"}, replace(at({Q0: 9}), member="m"), "a member of the shared group 'g'"),
        ({"subscribe": "t2"}, at({Q0: 9}), "reads other topics or queues: t"),
    ],
)
def test_a_batch_that_another_query_planned_is_not_run(given: dict[str, str], planned: Offsets, story: str) -> None:
    """Spark would take it for done, with the rows of this one or with none, and nobody would read its messages again,
    also not after the options are set right."""
    options = SourceOptions.parse(given, streaming=True)
    restarted = progress(
        Cluster({Q0: 9}), sharing=options.sharing, group=options.group, subscription=options.subscription
    )
    with pytest.raises(InvalidArgument, match=story):
        restarted.readable([range_in(STORE, Q0, 4, 9)], recorded(planned))


def test_a_queue_put_back_goes_on_where_it_was() -> None:
    """Option assign chooses among the queues of a topic."""
    first, both = (Subscription(("t",), frozenset(queues)) for queues in ({Q0}, {Q0, Q1}))
    fewer = recorded(progress(Cluster({Q0: 10}), subscription=first).latest(at({Q0: 5, Q1: 3}), None))
    assert fewer.positions == {Q0: 10}
    end = progress(Cluster({Q0: 10, Q1: 7}), subscription=both).latest(fewer, None)
    assert ranges(fewer, end) == [range_in(STORE, Q1, 3, 7)]


def test_other_queues_of_a_topic_are_no_strangers() -> None:
    """That none of the queues known of a topic is there says nothing where they are not to be read."""
    start = replace(BOTH, positions={Q0: 5, OTHER: 3})
    chosen = Subscription(("t", "t2"), frozenset({Q1, OTHER}))
    end = progress(Cluster({Q1: 9, OTHER: 3}), subscription=chosen).latest(start, None)
    assert end.positions == {Q1: 0, OTHER: 3}


def test_a_topic_made_anew_while_nobody_read_it_is_lost() -> None:
    """Its places are none of the topic that has its name now."""
    fewer = without_other()
    cluster = Cluster({Q0: 10, OTHER: 7})
    look = cluster.snapshot
    cluster.snapshot = lambda **asked: replace(  # type: ignore[method-assign]
        look(**asked), deletions_ms={("t2", "broker-a"): 70}
    )
    with pytest.raises(DataLoss, match="t2/broker-a/0 was read up to offset 3, but its topic was deleted or made anew"):
        progress(cluster, subscription=EVERY).latest(fewer, None)
    query = progress(cluster, subscription=EVERY, fail_on_data_loss=False)
    entered = recorded(query.latest(fewer, None))
    assert (ranges(fewer, entered), entered.positions[OTHER], entered.epochs["t2"]) == ([], 0, 5)
    assert ranges(entered, query.latest(entered, None)) == [range_in(STORE._replace(topic_deleted_ms=70), OTHER, 0, 7)]


def test_a_matching_topic_deleted_while_nobody_read_it_is_lost() -> None:
    """subscribePattern: that it is gone is told when the pattern covers it again, and not before."""
    cluster = Cluster({Q0: 10})
    cluster.deleted = {"t2"}
    fewer = recorded(progress(cluster, subscription=Subscription((), pattern="t")).latest(BOTH, None))
    with pytest.raises(DataLoss, match="t2/broker-a/0 was read up to offset 3, but its topic was deleted"):
        progress(cluster, subscription=EVERY).latest(fewer, None)
    left = progress(cluster, subscription=EVERY, fail_on_data_loss=False).latest(fewer, None)
    assert (left.positions, left.left) == ({Q0: 10}, None)


@pytest.mark.parametrize(
    ("now", "recalled", "of"),
    [
        (StoreIdentity("s", 1), {Q0: 10, Q1: 3}, StoreIdentity("s", 1)),
        (StoreIdentity("s", 2), {Q0: 10, Q1: 3}, StoreIdentity("s", 1)),
        (StoreIdentity("s", 1, 70), {Q0: 10}, StoreIdentity("s", 1, 70)),
        (StoreIdentity("new", 1), {Q0: 10}, StoreIdentity("new", 1)),
    ],
)
def test_what_happened_to_the_store_meanwhile(
    now: StoreIdentity, recalled: dict[MessageQueue, int], of: StoreIdentity
) -> None:
    """A queue does not come back into another store or topic than it left, nor past a cut of its end; and what was read
    meanwhile is of the store that it was read in."""
    fewer = at({Q0: 5, Q1: 3}).reading({Q0}.__contains__)
    since = replace(fewer, positions={Q0: 10}, stores={("t", "broker-a"): now})
    back = recorded(since).reading({Q0, Q1}.__contains__)
    assert (back.positions, back.store_of(Q1), back.store_of(Q0)) == (recalled, of, now)
    assert recorded(back) == back


def test_places_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The offset is written with every batch: of thousands of queues that never come back some are forgotten."""
    monkeypatch.setattr(offsets_module, "MOST_LEFT", 2)
    many = {MessageQueue("u", "broker-a", number): 1 for number in range(3)}
    with caplog.at_level(logging.WARNING):
        fewer = without_other(at({Q0: 5, **many}))
    assert fewer.left is not None
    assert sorted(fewer.left.positions) == sorted(many)[:2]
    assert "1 places are forgotten, of: u" in caplog.text


queues = st.builds(MessageQueue, st.sampled_from("tuv"), st.sampled_from(["a", "b"]), st.integers(0, 2))


@pytest.mark.property
@given(st.dictionaries(queues, st.integers(0, 99)), st.lists(st.frozensets(queues)))
def test_no_change_of_the_subscription_loses_a_place(
    positions: dict[MessageQueue, int], subscriptions: list[frozenset[MessageQueue]]
) -> None:
    """However often it changes: what is read again is where it was."""
    stores = {(queue.topic, queue.broker_name): STORE for queue in positions}
    offsets = recorded(Offsets("g", positions, stores, {queue.topic: 2 for queue in positions}))
    start = offsets
    for chosen in subscriptions:
        offsets = recorded(offsets.reading(chosen.__contains__))
        assert offsets.positions == {queue: at for queue, at in positions.items() if queue in chosen}
    assert offsets.reading(positions.__contains__).to_json() == start.to_json()


def test_a_place_in_a_topic_of_a_stock_broker_that_was_made_anew_counts_no_more() -> None:
    """Such a broker tells nothing of its store: that the other queues were seen to begin anew has to do."""
    first, both = (Subscription(("t",), frozenset(queues)) for queues in ({Q1}, {Q0, Q1}))
    start = Offsets("g", {Q0: 100, Q1: 100}, {("t", "broker-a"): StoreIdentity()}, {"t": 0})
    fewer = start.reading(first.includes)
    since = recorded(replace(fewer, positions={Q1: 3}, epochs={"t": 1}))
    assert since.reading(both.includes).positions == {Q1: 3}
    assert recorded(replace(fewer, positions={Q1: 130})).reading(both.includes).positions == {Q0: 100, Q1: 130}
