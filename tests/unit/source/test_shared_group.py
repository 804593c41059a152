"""Single stories of a shared group; any order of them is tried in test_shared_group_model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from rmqspark.errors import DataLoss, InvalidArgument, LeaseLost, NotSupported
from rmqspark.rebalance.strategies import Strategy
from rmqspark.source.groups.sharing import Sharing
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import SourceOptions
from rmqspark.source.partitions import Holder
from rmqspark.source.planning.planner import QueueRange, Snapshot, ranges
from rmqspark.source.planning.resumption import Resumption
from rmqspark.source.subscription import Subscription
from rmqspark.source.tasks.leases import make_sure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.patience import Patience
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.groups.membership import Membership

    from .shared_world import Presence

from .shared_world import LEASE_MS, OTHERS, QUEUES, QUIET, Query, World


def run(query: Query, steps: int = 12) -> None:
    for _ in range(steps):
        query.step()


def owned(query: Query) -> list[int]:
    return sorted(queue.queue_id for queue in query.bounds()[1].positions)


@pytest.fixture
def world() -> World:
    made = World()
    made.ends = dict.fromkeys(QUEUES, 5)
    return made


def test_a_queue_is_handed_over_where_it_was_left(world: World) -> None:
    """Who joins gets its share after a batch of the old owner's, and starts where that one ended."""
    first, second = Query(world), Query(world)
    run(first)
    assert owned(first) == [0, 1, 2, 3]
    run(second)
    assert owned(second) == [], "nothing is free yet"
    world.clock.advance(seconds=2)
    run(first)
    world.clock.advance(seconds=2)
    run(second)
    assert (len(owned(first)), len(owned(second))) == (2, 2)
    assert set(second.bounds()[1].positions.values()) == {5}


def test_who_reads_a_batch_is_still_a_member_wherever_there_are_queues() -> None:
    """Also at brokers, and of topics, of which it has none itself: those of a group that are consumers of RocketMQ go
    by what its members say, and were refused the topic that this one did not name."""
    world = World([*QUEUES, *OTHERS])
    first, second = Query(world), Query(world)
    for _ in range(8):
        run(first, 3)
        run(second, 3)
        world.clock.advance(seconds=2)
    world.ends = dict.fromkeys(world.ends, 3)
    for query in (first, second):
        run(query, 2)
        assert query.read
        assert cast("Presence", query.group._membership).reached == {"broker-a", "broker-b"}


def test_a_query_that_stops_between_batches_leaves_its_queues_at_once(world: World) -> None:
    """The others need not wait for its leases to run out; in the middle of a batch they must."""
    first, second = Query(world), Query(world)
    run(first)
    first.stop()
    run(second)
    assert owned(second) == [0, 1, 2, 3]
    for queue in QUEUES:
        world.ends[queue] += 1
    second.step()
    second.step()
    assert second.read
    second.stop()
    run(first)
    assert owned(first) == []
    world.clock.advance(ms=LEASE_MS + 1)
    run(first)
    assert owned(first) == [0, 1, 2, 3]
    assert len(world.written) == len(set(world.written)) == 24


@pytest.mark.parametrize("is_silent", [False, True])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_broker_that_is_out_of_sight_holds_nobody_up(is_restarted: bool, is_silent: bool) -> None:
    """The others are read on, also by a query that is started meanwhile, and its own queues when it is back. One that
    is registered and answers nothing is not asked: that would be waited for."""
    world = World([*QUEUES[:1], *OTHERS])
    query = Query(world)
    run(query)
    for in_sight in (False, True):
        world.brokers["broker-b"].in_sight = in_sight
        world.left_out = frozenset({"broker-b"} if is_silent and not in_sight else ())
        if is_restarted:
            query.crash()
        for queue in world.ends:
            world.ends[queue] += 1
        world.clock.advance(ms=LEASE_MS // 3)
        run(query)
        assert len(world.written) == (6 if in_sight else 1)
        assert not (is_silent and world.asked_in_vain)
    assert not query.failed


def test_what_is_read_once_more_after_a_restart_is_held_for_as_long_as_the_first_lease_lasts() -> None:
    """Its tasks may take longer than that; brokers may lease queues for different times."""
    world = World([*QUEUES[:1], *OTHERS])
    world.ends = dict.fromkeys(world.ends, 5)
    world.brokers["broker-b"].lease_ms = LEASE_MS // 2
    world.brokers["broker-b"].restart()
    query = Query(world)
    while not query.read:
        query.step()
    query.crash()
    query.begin()
    presence = cast("Presence", query.group._membership)
    assert (presence.held, presence.lease_ms) == (query.bounds()[1].leases, LEASE_MS // 2)


def test_a_broker_that_leases_no_queues_is_named(world: World) -> None:
    """As Apache RocketMQ's."""
    world.brokers["broker-a"].leases_queues = False
    with pytest.raises(NotSupported, match="Broker 'broker-a' leases no queues: groupMode=shared needs brokers of rmq"):
        Query(world).step()


@pytest.mark.parametrize(
    ("one", "another", "told"),
    [
        (Strategy("circle"), Strategy("averagely"), "averagely and circle"),
        (Strategy("machine-room-nearby", ("a",)), Strategy("machine-room-nearby", ("b",)), ""),
    ],
)
def test_members_that_divide_differently_are_told(
    one: Strategy, another: Strategy, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Once each: some queues are nobody's then. Rooms of members differ where they live there."""
    world = World([*QUEUES[:1], *OTHERS])
    queries = [Query(world, sharing=Sharing(strategy)) for strategy in (one, another)]
    for _ in range(4):
        for query in queries:
            run(query)
            world.clock.advance(seconds=2)
    warned = [record.message for record in caplog.records if "different strategies" in record.message]
    assert len(warned) == (2 if told else 0)
    assert all(f"group g divide its queues by different strategies, {told}: " in each for each in warned)


def test_a_look_that_is_older_than_a_hand_over_is_taken_again(world: World) -> None:
    """Messages come, are read and committed, and their queues given up, while another query is about to ask."""
    first, second = Query(world), Query(world)
    run(first)
    join = second.group._join

    def join_late(start: Offsets, queues: Iterable[MessageQueue], patience: Patience) -> Membership:
        second.group._join = join  # type: ignore[method-assign]
        for queue in QUEUES:
            world.ends[queue] += 7
        run(first)
        first.stop()
        return join(start, queues, patience)

    second.group._join = join_late  # type: ignore[method-assign]
    run(second)
    assert owned(second) == [0, 1, 2, 3]
    assert len(world.written) == len(set(world.written)) == 48


def test_a_broker_that_goes_between_two_looks_is_out_of_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues that have just been leased there are entered when it is back; the others meanwhile."""
    world = World([*QUEUES[:1], *OTHERS])
    first, second = Query(world), Query(world)
    join, look, looks = second.group._join, world.snapshot, []

    def join_late(start: Offsets, queues: Iterable[MessageQueue], patience: Patience) -> Membership:
        second.group._join = join  # type: ignore[method-assign]
        world.ends = dict.fromkeys(world.ends, 7)
        run(first)
        first.stop()
        monkeypatch.setattr(world, "snapshot", looked)
        return join(start, queues, patience)

    def looked(**kwargs: bool) -> Snapshot:
        looks.append(kwargs.get("fresh", False))
        world.brokers["broker-b"].in_sight = not looks[-1]
        return look(**kwargs)

    second.group._join = join_late  # type: ignore[method-assign]
    run(second, 1)
    assert looks == [True]
    world.ends = dict.fromkeys(world.ends, 8)
    run(second)
    assert sorted(world.written) == sorted((queue, offset) for queue in world.ends for offset in range(8))


def test_a_query_that_fails_before_it_has_committed_keeps_its_queues(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last batch is finished, and nobody knows: others would read it again. Started again it says so."""
    first, second = Query(world), Query(world)
    monkeypatch.setattr(first, "decide", lambda: setattr(first, "decided", first.decided + 1))  # at least once
    while first.commit_log < 2:
        first.step()
    membership = first.group._membership
    assert membership is not None
    monkeypatch.setattr(membership, "others", lambda _: pytest.fail("Unreachable"))
    with pytest.raises(pytest.fail.Exception):
        run(first, 1)
    first.stop()
    world.clock.advance(seconds=2)
    run(second)
    assert owned(second) == []


def test_who_lost_a_lease_fails_the_batch_and_goes_on_without_it(world: World) -> None:
    """The error names the queue; the run after it leaves out what others have been given."""
    first, second = Query(world), Query(world)
    run(first, 4)
    while not first.is_planned or first.read is not None or first.decided == len(first.offset_log):
        first.step()
    start, end = first.bounds()
    first.disappear()
    world.clock.advance(ms=LEASE_MS + 1)
    run(second)
    first.read = ranges(start, end)
    for late in (first.make_sure, lambda end: first.progress.hold(ranges(start, end), end)):
        with pytest.raises(LeaseLost, match="Queue t/broker-a/0 was given to another member of group 'g'"):
            late(end)
    first.start()
    first.begin()
    assert first.read == []
    assert sorted(world.written) == [(queue, offset) for queue in QUEUES for offset in range(5)]


def test_a_group_that_is_not_shared_is_asked_for_nothing() -> None:
    """Its brokers may be Apache RocketMQ's, which lease no queues."""
    read, nobody = [QueueRange(QUEUES[0], 0, 5)], cast("ClusterClient", None)
    make_sure(nobody, read, Holder("g").of(read), QUIET)


def test_a_run_that_was_frozen_leaves_the_queues_of_its_replacement_alone(world: World) -> None:
    """A second run is started from the checkpoint and has the queues at once. The first wakes: it is told, commits
    nothing, and what it gives up as it ends is not given up."""
    frozen, other = Query(world), Query(world)
    run(frozen)
    replacement = Query(world, list(frozen.offset_log), frozen.commit_log, frozen.decided)
    for queue in QUEUES:
        world.ends[queue] += 2
    run(replacement, 4)
    assert owned(replacement) == [0, 1, 2, 3]
    world.clock.advance(seconds=2)
    with pytest.raises(LeaseLost, match="taken over by a later run of this query"):
        frozen.plan(None)
    frozen.stop()
    run(other)
    assert owned(other) == []
    run(replacement)
    assert [world.offsets.committed("g", "t", queue.queue_id) for queue in QUEUES] == [7, 7, 7, 7]
    assert not replacement.failed


def test_a_run_that_was_frozen_as_it_began_moves_no_offset_back(world: World) -> None:
    """It read its checkpoint, and asked for nothing before another run had gone on: it is the later one to the broker.
    What it gives up as it ends is read on where the group has come."""
    query, other = Query(world), Query(world)
    run(query)
    query.crash()
    frozen, start = query.progress, query.bounds()[1]
    query.start()
    for queue in QUEUES:
        world.ends[queue] += 2
    run(query)
    assert frozen.latest(start, None) != start
    frozen.leave()
    query.disappear()
    run(other)
    assert owned(other) == [0, 1, 2, 3]
    assert len(world.written) == len(set(world.written)) == 28


def test_the_tasks_of_a_run_that_was_frozen_fail(world: World) -> None:
    """They read what the later run's tasks read: a sink that writes at least once would write it twice."""
    frozen = Query(world)
    while not frozen.read:
        frozen.step()
    replacement = Query(world, list(frozen.offset_log), frozen.commit_log, frozen.decided)
    replacement.begin()
    frozen.decide()
    assert frozen.failed
    run(replacement, 2)
    assert len(world.written) == len(set(world.written)) == 20


def test_a_queue_that_nobody_ever_read_has_a_beginning_at_once(world: World) -> None:
    """Where it begins is the group's committed offset from then on, whoever has it next."""
    run(Query(world), 1)
    assert [world.offsets.committed("g", "t", queue.queue_id) for queue in QUEUES] == [0, 0, 0, 0]


@pytest.mark.parametrize("now", [StoreIdentity("other", 1), StoreIdentity("s", 1, topic_deleted_ms=9)])
def test_what_begins_anew_is_read_from_its_beginning(world: World, now: StoreIdentity) -> None:
    """Another store, or another topic of the name: a group that never was in a queue begins at its end, but this one
    was, and nobody has read what is there."""
    query = Query(world, sharing=Sharing(from_earliest=False), fails_on_data_loss=False)
    run(query)
    for queue in QUEUES:
        world.ends[queue] += 2
    run(query)
    before = list(world.written)
    world.brokers["broker-a"].replace()
    world.store = now
    world.ends = dict.fromkeys(QUEUES, 3)
    query.crash()  # to its broker the run was never there
    run(query)
    assert sorted(world.written[len(before) :]) == [(queue, offset) for queue in QUEUES for offset in range(3)]


@pytest.mark.parametrize("is_started_again", [False, True])
def test_a_queue_that_came_later_is_read_from_its_first_message(world: World, is_started_again: bool) -> None:
    """A new group begins at the ends of its queues; what is sent to one that its topic got since is for it to read,
    also what came before the query had seen that queue."""
    world.ends = dict.fromkeys(QUEUES[:2], 5)
    query = Query(world, sharing=Sharing(from_earliest=False))
    run(query)
    assert world.written == []
    if is_started_again:
        query.crash()
    world.ends |= dict.fromkeys(QUEUES[2:], 3)
    world.clock.advance(seconds=2)
    run(query)
    assert sorted(world.written) == [(queue, offset) for queue in QUEUES[2:] for offset in range(3)]


@pytest.mark.parametrize("from_earliest", [False, True])
def test_where_its_group_was_deleted_a_query_goes_on_where_it_was(world: World, from_earliest: bool) -> None:
    """It knows that itself. What was sent meanwhile is read, and nothing else again."""
    query = Query(world, sharing=Sharing(from_earliest=from_earliest))
    run(query)
    before = list(world.written)
    world.ends = dict.fromkeys(QUEUES, 7)
    world.brokers["broker-a"].replace()  # its store is the same, the group is gone
    query.crash()
    run(query)
    assert sorted(world.written[len(before) :]) == [(queue, offset) for queue in QUEUES for offset in (5, 6)]


@pytest.mark.parametrize("is_decided", [False, True])
def test_a_batch_that_was_under_way_when_its_group_was_deleted_is_not_left_out(world: World, is_decided: bool) -> None:
    """Its messages are in no other batch: the query goes on where this one ends. What was decided stays as it is."""
    query = Query(world)
    run(query)
    world.ends = dict.fromkeys(QUEUES, 7)
    world.clock.advance(seconds=2)
    while not query.read:
        query.step()
    if is_decided:
        query.decide()
    world.brokers["broker-a"].delete_group("g")
    query.crash()
    run(query)
    assert sorted(world.written) == [(queue, offset) for queue in QUEUES for offset in range(7)]
    world.ends = dict.fromkeys(QUEUES, 8)
    world.clock.advance(seconds=2)
    run(query)
    assert sorted(world.written) == [(queue, offset) for queue in QUEUES for offset in range(8)]
    assert owned(query) == [0, 1, 2, 3]


def test_a_batch_that_comes_again_leaves_a_queue_to_whoever_has_been_in_it_since_its_group_was_deleted(
    world: World,
) -> None:
    """That the queue is nobody's by then makes no difference: the group has a place in it."""
    query = Query(world)
    run(query)
    world.ends[QUEUES[0]] = 7
    world.clock.advance(seconds=2)
    while not query.read:
        query.step()
    world.brokers["broker-a"].delete_group("g")
    world.offsets.commit("g", "t", 0, 6)
    query.crash()
    run(query)
    assert sorted(world.written[20:]) == [(QUEUES[0], 6)]


def test_a_query_that_is_killed_as_its_group_was_deleted_knows_where_it_was(world: World) -> None:
    """Its first look after that says it already: no offset of it is without a queue that nobody else has."""
    query = Query(world)
    run(query)
    before = list(world.written)
    world.brokers["broker-a"].delete_group("g")
    world.clock.advance(seconds=2)
    query.step()
    query.crash()
    run(query)
    assert world.written == before
    assert owned(query) == [0, 1, 2, 3]


def test_a_member_s_checkpoint_is_not_read_alone() -> None:
    """It has only some queues: the rest would be read from their beginning."""
    alone = SourceOptions(Subscription(("t",)))
    with pytest.raises(InvalidArgument, match="a member of the shared group 'g'.*groupMode=shared"):
        Resumption(alone).of(Offsets("g", member="m"))


def test_a_checkpoint_of_a_query_alone_is_not_shared(world: World) -> None:
    """What it has read is not what its group has committed: to go on there may repeat or skip messages."""
    query = Query(world)
    alone = Offsets("g", {QUEUES[0]: 3}, {("t", "broker-a"): StoreIdentity("s", 1)})
    with pytest.raises(InvalidArgument, match="had its group to itself.*Use another checkpointLocation"):
        query.progress.latest(alone, None)
    with pytest.raises(InvalidArgument, match="shared group 'other'; option 'group' says 'g'.*checkpointLocation"):
        query.progress.latest(replace(alone, group="other", member="m"), None)


@pytest.mark.parametrize("committed", [2, 9])
def test_messages_that_went_before_a_queue_was_taken_are_lost(world: World, committed: int) -> None:
    """What expired between two owners is missed by the tasks of the new one; a queue that ends before the group's place
    is an error at once."""
    world.offsets.commit("g", "t", 0, committed)
    world.begins = lambda queues: dict.fromkeys(queues, 4)  # type: ignore[method-assign]
    query = Query(world)
    if committed > world.ends[QUEUES[0]]:
        with pytest.raises(DataLoss, match="t/broker-a/0 was read up to offset 9, but now ends at 5"):
            query.step()
    else:
        query.step()
        assert query.bounds()[1].positions[QUEUES[0]] == committed


def test_a_queue_taken_out_of_the_subscription_goes_back_to_the_group(world: World) -> None:
    """With how far it was read: whoever takes it goes on there, at once."""
    query = Query(world)
    run(query, 8)
    query.subscription = Subscription(("t",), frozenset(QUEUES[:1]))
    query.crash()
    world.ends = {QUEUES[0]: 6}
    run(query, 8)
    assert owned(query) == [0]
    query.stop()
    world.ends = dict.fromkeys(QUEUES, 6)
    run(other := Query(world), 8)
    assert owned(other) == [0, 1, 2, 3]
    assert sorted(world.written) == sorted((queue, offset) for queue in QUEUES for offset in range(6))


def test_a_group_without_a_room_says_so_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Brokers that are not named after rooms are nobody's under allocateStrategy=machine-room."""
    query = Query(world, sharing=Sharing(Strategy("machine-room", ("EAST",))))
    run(query)
    assert owned(query) == []
    assert caplog.text.count("Nothing is read: allocateStrategy=machine-room:EAST") == 1
