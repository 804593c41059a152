"""The real brokers, from the handlers' answers down to the files, and a Spark that behaves as Spark does, under
everything that can happen to them: each row once, in order in its queue, in every moment and at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import structlog
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rmqspark.protocol.codes import RequestCode
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.txn.coordinator.journal import Journal
from rmqspark.txn.coordinator.ledger import Ledger
from rmqspark.txn.coordinator.rollout import Rollout
from rmqspark.txn.coordinator.voting import Voting
from rmqspark.txn.participant.completer import Completer
from rmqspark.txn.participant.half_store import HalfStore
from rmqspark.txn.participant.held import HeldTransaction
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.retention import Retention
from rmqspark.txn.ports import VoteAnswer

from .exactly_once_chance import AMID, STEPS_OF_A_WORLD, Story, broken_at
from .exactly_once_driver import CHECKPOINT, T, rows_of
from .exactly_once_node import BROKERS, Broken, PowerLost
from .exactly_once_world import COORDINATOR, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.property

STEPS = 50
EXAMPLES = 500
ENOUGH_STEPS = 20_000
places = st.integers(0, 40)
brokers = st.integers(0, 1)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What brokers say about requests that nobody answers is of no interest here."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50), cache_logger_on_first_use=False)
    yield
    structlog.configure(**before)


class ExactlyOnce(RuleBasedStateMachine):
    """Anything may happen next; at the end everything is repaired, and every batch is in, once and in order."""

    steps = 0  # of all examples

    def __init__(self) -> None:
        super().__init__()
        self.world = World(files_are_small=True)
        self.world.start_run()

    @rule(count=st.integers(1, 8))
    def messages_flow(self, count: int) -> None:
        self.world.flow(count)

    @rule(count=st.integers(1, 20))
    def more_messages_flow(self, count: int) -> None:
        self.world.flow(count)

    @rule(place=places)
    def a_message_overtakes(self, place: int) -> None:
        self.world.deliver(place)

    @rule(place=places)
    def a_message_is_lost(self, place: int) -> None:
        self.world.lose(place)

    @rule(place=places)
    def a_message_is_repeated(self, place: int) -> None:
        self.world.repeat(place)

    @rule(place=places)
    def a_request_is_held_back(self, place: int) -> None:
        self.world.hold_back(place)

    @rule(place=places)
    def a_request_arrives_late(self, place: int) -> None:
        self.world.arrive_late(place)

    @rule(place=places)
    def patience_ends(self, place: int) -> None:
        self.world.give_up(place)

    @rule(place=st.integers(0, 3), seconds=st.sampled_from([0, 1, 7, 70]))
    def time_passes(self, place: int, seconds: int) -> None:
        self.world.tick(place, seconds)

    @rule(place=brokers, count=st.sampled_from([1, 3, 9]))
    def others_write(self, place: int, count: int) -> None:
        self.world.fill(place, count)

    @rule(place=brokers, hours=st.sampled_from([0, 1, 24, 80]), ticks=st.booleans())
    def old_files_go(self, place: int, hours: int, *, ticks: bool) -> None:
        self.world.expire(place, hours, ticks=ticks)

    @rule(place=brokers, turns=st.integers(0, 3), amid=st.sampled_from(AMID), anew=st.booleans())
    def the_topic_is_deleted(self, place: int, turns: int, amid: RequestCode | None, *, anew: bool) -> None:
        self.world.delete_topic(place, turns, amid=amid, anew=anew)

    @rule(place=brokers)
    def the_topic_is_made_anew(self, place: int) -> None:
        self.world.make_topic(place)

    @rule(hours=st.sampled_from([-80, -1, 1, 80]))
    def the_clock_jumps(self, hours: int) -> None:
        self.world.set_clock(hours)

    @rule(place=brokers)
    def a_broker_flushes(self, place: int) -> None:
        self.world.flush(place)

    @rule(place=brokers)
    def a_broker_is_killed(self, place: int) -> None:
        self.world.crash(place, power=False)

    @rule(place=brokers, seed=st.none() | st.integers(0, 1 << 16))
    def a_broker_loses_power(self, place: int, seed: int | None) -> None:
        self.world.crash(place, power=True, seed=seed)

    @rule(place=brokers, changes=st.integers(0, 12), after_bytes=st.sampled_from([0, 1, 90, 200]))
    def a_broker_will_die_inside_a_write(self, place: int, changes: int, after_bytes: int) -> None:
        self.world.crash_within(place, changes, after_bytes)

    @rule(place=st.integers(0, 5), arrival=st.integers(0, 2))
    def a_broker_will_die_at_a_step_of_the_protocol(self, place: int, arrival: int) -> None:
        self.world.die_at(place, arrival, ProcessDied())

    @rule(place=st.integers(0, 5), arrival=st.integers(0, 2), seed=st.none() | st.integers(0, 1 << 16))
    def a_broker_will_lose_power_at_a_step_of_the_protocol(self, place: int, arrival: int, seed: int | None) -> None:
        self.world.die_at(place, arrival, PowerLost(seed))

    @rule()
    def brokers_are_started(self) -> None:
        self.world.restart(0)
        self.world.restart(1)

    @rule(place=places)
    def a_driver_is_killed(self, place: int) -> None:
        self.world.kill_driver(place)

    @rule()
    def the_query_is_started(self) -> None:
        self.world.start_run()

    @rule()
    def input_arrives(self) -> None:
        self.world.grow()

    @invariant()
    def counts(self) -> None:
        type(self).steps += 1

    def teardown(self) -> None:
        try:
            self.world.make_well()
        finally:
            self.world.close()


@pytest.fixture
def _telling(request: pytest.FixtureRequest, tell: Callable[[str], None]) -> None:
    request.cls.tell = staticmethod(tell)


@pytest.mark.slow_first
@pytest.mark.usefixtures("_telling")
class TestExactlyOnce(ExactlyOnce.TestCase):  # type: ignore[misc,name-defined]
    """All of it, and not by stories that end early."""

    tell: Callable[[str], None]
    settings = settings(max_examples=max(EXAMPLES, settings.default.max_examples), stateful_step_count=STEPS)

    def runTest(self) -> None:
        super().runTest()
        steps = ExactlyOnce.steps - EXAMPLES  # each story counts its beginning, too
        self.tell(f"{steps} steps")
        assert steps >= ENOUGH_STEPS


@pytest.mark.slow_first
def test_dice_find_nothing(amount: Callable[[int, int], int], seed: int, tell: Callable[[str], None]) -> None:
    """Longer stories, where faults come in bursts and some kinds not at all."""
    stories = amount(100, 10_000)
    first = seed % (1 << 30)
    assert broken_at(range(first, first + stories), 2 * STEPS_OF_A_WORLD) is None
    tell(f"{stories} stories of {2 * STEPS_OF_A_WORLD} steps, seeds from {first}")


async def nothing(*_: Any) -> None: ...


async def yes(*_: Any) -> VoteAnswer:
    return VoteAnswer(yes=True)


async def nothing_earlier(*_: Any) -> list[int]:
    return []


def newest_first(self: Rollout, txn: Any, broker: str, rule: Any = Rollout.in_order) -> list[Any]:
    return rule(self, txn, broker)[::-1]


ORDER: list[tuple[type, str, Any]] = [
    (Voting, "complete_earlier", nothing_earlier),  # complete what is pending, then vote
    (Rollout, "in_order", newest_first),  # complete in the order of versions
    (HeldTransaction, "comes_first", lambda self, batch: None),  # take no completion out of order
]


# what is switched off by which method
RULES: dict[str, tuple[type, str, Any]] = {
    "the idempotence check": (Ledger, "is_decided", lambda self, txn, version: False),
    "the idempotence check of participants": (Participant, "is_completed", lambda self, batch: False),
    "the preparedTransactionOffset scan": (HalfStore, "rows_present", lambda self, offset, halves: {}),
    "the flush of the ledger": (Journal, "flushed", nothing),
    "the vote": (Voting, "vote", yes),
    "the fence": (Ledger, "is_fenced", lambda self, txn, epoch: False),
    "what the store knows of deleted topics": (HalfStore, "was_deleted", lambda self, half: False),
    "the vote's look at topics": (Completer, "barred", lambda self, batch, attempts: ""),
}


@pytest.mark.parametrize("rule_off", [*RULES, "the completion order"])
def test_a_rule_switched_off_is_missed_by_dice(rule_off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same dice find a row lost, doubled or out of order where a rule of the protocol is not kept."""
    for owner, name, instead in [RULES[rule_off]] if rule_off in RULES else ORDER:
        monkeypatch.setattr(owner, name, instead)
    assert broken_at(range(200), 2 * STEPS_OF_A_WORLD) is not None


def broker_b_hears_of_version_0_late() -> None:
    """What COMPLETE says to broker b is lost until version 1 is decided."""
    world = World()
    try:
        world.start_run()
        world.grow()
        for _ in range(200):
            txn = world.nodes["a"].coordination.ledger.get(T)
            to_b = [place for place, message in enumerate(world.network)
                    if (message.code, message.target) == (RequestCode.RMQ_TXN_COMPLETE, "b")]  # fmt: skip
            if to_b and txn is not None and txn.last_version < 1:
                world.lose(to_b[0])
            elif world.network:
                world.deliver()
            else:
                world.give_up(-1)  # the one who waits for what was lost
        world.make_well()
    finally:
        world.close()


@pytest.mark.parametrize(
    "kept", [None, 0, 1, 2], ids=["none", "coordinator before votes", "coordinator", "participant"]
)
def test_the_completion_order(kept: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its three guards switched off readers see versions swapped; with any one of them left they do not."""
    for place, (owner, name, instead) in enumerate(ORDER):
        if place != kept:
            monkeypatch.setattr(owner, name, instead)
    if kept is not None:
        broker_b_hears_of_version_0_late()
        return
    with pytest.raises(Broken, match="b"):
        broker_b_hears_of_version_0_late()


def test_the_same_dice_tell_the_same_story() -> None:
    """A seed that was printed leads to the same end again."""
    stories = [Story(7), Story(7)]
    for story in stories:
        story.run()
    assert stories[0].told == stories[1].told


def test_nothing_of_a_dead_broker_goes_on() -> None:
    """Neither what it was about to do when it died, nor what that had begun, nor what would clean up."""
    world, gone_on = World(), list[str]()
    ready = [world.loop.create_future() for _ in world.nodes]

    async def wait(name: str, for_what: asyncio.Future[None]) -> None:
        try:
            await for_what
            await asyncio.create_task(note(name))
        finally:
            gone_on.append(f"end of {name}")

    async def note(name: str) -> None:
        gone_on.append(name)

    for node, future in zip(world.nodes.values(), ready, strict=True):
        node.begin(wait(node.name, future))
    world.loop.settle()
    world.nodes["a"].die(power=False)
    for future in ready:
        future.set_result(None)
    world.loop.settle()
    assert gone_on == ["b", "end of b"]
    world.close()


_DAY_S = 86_400
jumps = pytest.mark.parametrize("jump_days", [365, -365], ids=["ahead", "back"])


def with_another_clock(world: World, jump_days: int) -> None:
    """The coordinator's machine is started again, with a clock that is wrong, or right at last."""
    world.crash(BROKERS.index(COORDINATOR), power=False)
    world.set_clock(24 * jump_days)
    world.restart(BROKERS.index(COORDINATOR))


@jumps
def test_an_id_is_forgotten_in_its_time_whatever_the_clock_says(jump_days: int) -> None:
    """Too early, and its last batch would be written again; never, and the table would fill."""
    world, coordinator = World(expiration_ms=90 * _DAY_S * 1_000), BROKERS.index(COORDINATOR)
    world.start_run()
    world.make_well()
    with_another_clock(world, jump_days)
    world.tick(coordinator, 89 * _DAY_S)
    assert [txn.transactional_id for txn in world.nodes[COORDINATOR].coordination.ledger] == [T]
    world.tick(coordinator, 2 * _DAY_S)
    assert not list(world.nodes[COORDINATOR].coordination.ledger)
    world.close()


@jumps
def test_what_a_dead_driver_left_is_closed_in_its_time_whatever_the_clock_says(jump_days: int) -> None:
    """Not while its tasks may be at work, and not only when the clock has come to where it was."""
    world, coordinator = World(), BROKERS.index(COORDINATOR)
    world.start_run()
    while T not in world.nodes[COORDINATOR].coordination.ledger:
        world.deliver()
    with_another_clock(world, jump_days)
    for seconds, stays_open in ((3_500, True), (200, False)):
        world.tick(coordinator, seconds)
        assert world.nodes[COORDINATOR].coordination.ledger.require(T).is_open is stays_open
    world.close()


def test_an_id_that_begins_anew_goes_on_above_what_brokers_remember() -> None:
    """Its first epochs were given by a clock that was ahead: by the right one the new ones would be fenced."""
    world = World(expiration_ms=90 * _DAY_S * 1_000)
    world.set_clock(365 * 24)
    world.start_run()
    world.make_well()
    with_another_clock(world, -365)
    world.tick(BROKERS.index(COORDINATOR), 91 * _DAY_S)
    assert T not in world.nodes[COORDINATOR].coordination.ledger
    world.grow()
    world.make_well()
    world.close()


def test_on_a_full_disk_the_ledger_is_restated_though_all_else_fails() -> None:
    """It lets old files go; to give up what a dead driver left has to wait for that."""
    world, node_number = World(files_are_small=True), BROKERS.index(COORDINATOR)
    world.start_run()
    while T not in world.nodes[COORDINATOR].coordination.ledger:
        world.deliver()
    world.fill(node_number, 1_000)
    node = world.nodes[COORDINATOR]
    usage = node.files.disk_usage()
    node.files.set_budget((usage.total_bytes - usage.free_bytes) * 100 // 95)
    node.store.expire(world.clock.now_ms(), keep_from=node.coordination.needed_offset)
    pinned = node.coordination.needed_offset
    world.tick(node_number, 4_000)
    assert node.coordination.ledger.require(T).is_open
    assert node.coordination.needed_offset > pinned
    world.close()


def test_a_clock_that_is_put_back_holds_up_no_decision() -> None:
    """It is completed and confirmed at once, not only when the clock has come to where it was."""
    world = World()
    world.start_run()
    while (txn := world.nodes[COORDINATOR].coordination.ledger.get(T)) is None or txn.last_version < 0:
        world.deliver()
    assert txn.pending
    world.clock.set_now_ms(world.clock.now_ms() - 80 * 3_600_000)
    world.make_well()
    world.close()


def files_of_broker_b_go(before: RequestCode) -> None:
    """All its files that may go do so, while the first request of this kind is under way, which is lost to b."""
    world = World(files_are_small=True)
    try:
        world.start_run()
        while all(message.code is not before or message.target == CHECKPOINT for message in world.network):
            world.deliver() if world.network else world.give_up(-1)
        for place, message in enumerate(world.network):
            if (message.code, message.target) == (RequestCode.RMQ_TXN_COMPLETE, "b"):
                world.lose(place)
                break
        for _ in range(2):
            world.fill(1, 9)
            world.expire(1, 80)
        for _ in range(40):
            world.deliver()
        world.make_well()
    finally:
        world.close()


# what is switched off, and the request before which files go then
EXPIRY: dict[str, tuple[type, str, Any, RequestCode]] = {
    "what retention keeps": (Participant, "needed_offset", lambda self: None, RequestCode.RMQ_TXN_COMPLETE),
    "the vote's look at what has gone": (
        Retention, "forget_expired", lambda self: None, RequestCode.RMQ_TXN_DECIDE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("before", [each[-1] for each in EXPIRY.values()], ids=list(EXPIRY))
def test_files_that_go_take_nothing_that_was_voted_for(before: RequestCode) -> None:
    """Nor is there a vote for what they took: the batch is sent again."""
    files_of_broker_b_go(before)


@pytest.mark.parametrize("rule_off", EXPIRY)
def test_expiry_with_a_rule_switched_off_is_missed(rule_off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without either of them a decided batch is never readable."""
    owner, name, instead, before = EXPIRY[rule_off]
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises(Broken):
        files_of_broker_b_go(before)


def rows_of_broker_b_after_a_deletion_that_dies(changes: int, *, power: bool) -> int:
    """It dies that many changes of the disk into the deletion; before it is started again, the power may fail."""
    world = World()
    try:
        world.start_run()
        while not (node := world.nodes["b"]).seen:
            world.deliver()
        world.flush(1)
        world.crash_within(1, changes, 0)
        world.delete_topic(1, 0, amid=None, anew=True)
        if power:
            world.crash(1, power=True)
        world.make_well()
        return len(node.rows())
    finally:
        world.close()


def test_a_power_loss_before_the_next_start_may_take_back_a_deletion_that_was_cut_short() -> None:
    """A rename that was not yet made durable: the topic is there again, whole, and not a part of it."""
    after_kills = [rows_of_broker_b_after_a_deletion_that_dies(changes, power=False) for changes in range(12)]
    after_power_losses = [rows_of_broker_b_after_a_deletion_that_dies(changes, power=True) for changes in range(12)]
    whole = len(rows_of("b", 0))
    assert after_kills == sorted(after_kills, reverse=True)
    assert after_power_losses == sorted(after_power_losses, reverse=True)
    assert set(after_kills) == set(after_power_losses) == {0, whole}
    assert after_power_losses.count(whole) > after_kills.count(whole)
