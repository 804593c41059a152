"""Who coordinates an id, completions that fail, and groups' offsets: against peers that a test scripts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from errno import ENOSPC
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from rmqspark.client.spark.coordinator import DECIDE_TIMEOUT_MS
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import (
    FlushTimeout,
    GroupNotFound,
    NoPermission,
    NotSupported,
    NotWritable,
    TopicNotFound,
    TopicRemade,
    TransactionError,
    TwoCoordinators,
    Unreachable,
)
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueue
from rmqspark.protocol.bodies.txn import AuditedBatch, BrokersSeen, HeldAttempt, InputRange, OutputRange, TxnDecision
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import OffsetResponseHeader
from rmqspark.protocol.headers.fields import from_fields, to_fields
from rmqspark.protocol.headers.txn import NO_VERSION, TxnFindResponseHeader
from rmqspark.remoting.response import Response
from rmqspark.store.config import StoreConfig
from rmqspark.store.message_store import MessageStore
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.coordinator.coordination import Coordination, CoordinationConfig
from rmqspark.txn.coordinator.events import Decided, Finished, RunOpened
from rmqspark.txn.coordinator.input_offsets import InputOffsets
from rmqspark.txn.coordinator.ledger import MAX_PEERS, Ledger
from rmqspark.txn.coordinator.owners import Adoption, Owners, Past
from rmqspark.txn.coordinator.remote_participant import COMPLETE_TIMEOUT_MS, VOTE_TIMEOUT_MS
from rmqspark.txn.coordinator.rollout import FIRST_REST_MS, Rollout
from rmqspark.txn.ports import Remembered

from .no_leases import NoLeases

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rmqspark.errors import RmqError
    from rmqspark.txn.ports import Complete, Vote, VoteAnswer

T = "spark-q"


class ScriptedPeers:
    """Brokers by name, each with what it answers: a header, or an error to raise."""

    own_name = "a"
    retired: frozenset[str] = frozenset()

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.is_listed = True  # by a name server
        self.asked: list[tuple[str, RequestCode, Any]] = []

    def names(self) -> list[str]:
        return list(self.answers)

    async def refresh(self) -> bool:
        return self.is_listed

    async def listed(self, brokers: Collection[str]) -> set[str]:
        return self.answers.keys() & set(brokers)

    async def call(
        self, broker: str, code: RequestCode, header: Any, body: bytes = b"", *, timeout_ms: int
    ) -> Response:
        self.asked.append((broker, code, header))
        await asyncio.sleep(0)
        answer = self.answers.get(broker, Unreachable("away", address=broker))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Find):
            answering = TxnFindResponseHeader(
                answer.found, answer.adopting, answer.name or broker, answer.epoch, answer.completed
            )
            return Response(0, 1, None, 0, to_fields(answering), BrokersSeen(answer.seen).encode(standard=True))
        return Response(0, 1, None, 0, to_fields(answer), b"")


class Find(NamedTuple):
    """How a broker answers RMQ_TXN_FIND, under its own name if there is no other."""

    found: bool
    adopting: bool = False
    name: str = ""
    seen: tuple[str, ...] = ()
    epoch: int = 0
    completed: int = -1


FOUND, NOT_FOUND = Find(found=True), Find(found=False)
AWAY = Unreachable("away", address="x")


def owners(peers: ScriptedPeers, *seen: str, retired: tuple[str, ...] = ()) -> Owners:
    ledger = Ledger()
    ledger.peers.update(dict.fromkeys(seen))
    peers.retired = frozenset(retired)
    return Owners(ledger, peers, lambda _: Remembered(7, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "owner"),
    [
        ({}, None),
        ({"b": NOT_FOUND, "c": NOT_FOUND}, None),
        ({"b": NOT_FOUND, "c": FOUND}, "c"),
        ({"b": AWAY, "c": FOUND}, "c"),
        ({"b": NotSupported("a stock broker")}, None),
    ],
)
def test_an_unknown_id_is_asked_for_everywhere(answers: dict[str, Any], owner: str | None) -> None:
    """Whoever has it in its ledger coordinates it; a stock broker has no ledger; with nobody, it is free."""
    assert asyncio.run(owners(ScriptedPeers(**answers)).adopt(T)).owner == owner


def test_an_id_may_be_asked_for_twice_at_once() -> None:
    """As the first tasks of a query do."""
    ours = owners(ScriptedPeers(b=NOT_FOUND))

    async def both() -> list[str | None]:
        return [adopted.owner for adopted in await asyncio.gather(ours.adopt(T), ours.adopt(T))]

    assert (asyncio.run(both()), ours.is_adopting(T)) == ([None, None], False)


def test_an_id_is_not_free_while_somebody_cannot_be_asked() -> None:
    """Also a broker that no name server lists any more, unless it was declared gone for good."""
    with pytest.raises(Unreachable, match="'gone' may own") as told:
        asyncio.run(owners(ScriptedPeers(b=NOT_FOUND), "gone").adopt(T))
    assert "retired_brokers" in told.value.hint
    assert asyncio.run(owners(ScriptedPeers(b=NOT_FOUND), "gone", retired=("gone",)).adopt(T)).owner is None


def test_an_id_is_not_free_while_no_name_server_answers() -> None:
    """There may be brokers that this one has never seen; whoever owns the id is believed all the same."""
    peers = ScriptedPeers(b=NOT_FOUND)
    peers.is_listed = False
    for ask in (owners(peers).adopt, owners(peers).elsewhere):
        with pytest.raises(Unreachable, match="No name server"):
            asyncio.run(ask(T))
    peers.answers["b"] = FOUND
    assert asyncio.run(owners(peers).adopt(T)).owner == "b"


def test_a_newcomer_asks_whom_only_others_have_seen() -> None:
    """The owner may have been away since before this broker joined, or be known to nobody but a third one."""
    peers = ScriptedPeers(b=Find(found=False, seen=("a", "c")))
    peers.names = lambda: ["b"]  # type: ignore[method-assign]
    with pytest.raises(Unreachable, match="'c' may own"):
        asyncio.run(owners(peers).adopt(T))
    peers.answers |= {"c": Find(found=False, seen=("d",)), "d": FOUND}
    assert asyncio.run(owners(peers).adopt(T)).owner == "d"
    assert asyncio.run(owners(peers, retired=("c",)).adopt(T)).owner is None


def test_an_address_that_changed_hands_proves_nothing() -> None:
    """The broker that listens where another one was cannot say that the id is free."""
    with pytest.raises(Unreachable, match="'b' may own"):
        asyncio.run(owners(ScriptedPeers(b=Find(found=False, name="z"))).adopt(T))


def test_who_adopts_an_id_learns_which_epochs_are_remembered() -> None:
    """Here and elsewhere: below them nothing would be taken. A stock broker remembers none."""
    for epoch, newest in ((9, 9), (5, 7)):
        peers = ScriptedPeers(b=Find(found=False, epoch=epoch), c=NotSupported("a stock broker"))
        assert asyncio.run(owners(peers).adopt(T)).past.newest_epoch == newest


@pytest.mark.parametrize(("on_b", "completed", "by"), [(-1, 2, "a"), (1, 2, "a"), (3, 3, "b")])
def test_who_coordinates_an_id_learns_which_versions_are_completed(on_b: int, completed: int, by: str) -> None:
    """Before it adopts the id, and for each new run: its own store may have been set back. What only brokers have that
    cannot be asked then is not known."""
    peers = ScriptedPeers(b=Find(found=False, epoch=9, completed=on_b), c=NotSupported("a stock broker"))
    assert asyncio.run(owners(peers).adopt(T)) == Adoption(None, Past(9, completed, by))
    peers.answers["d"] = AWAY
    assert asyncio.run(owners(peers).refuse_second(T)) == Past(9, completed, by)


def test_an_earlier_broker_does_not_say_what_it_has_completed() -> None:
    """Nothing is concluded from that."""
    said = to_fields(TxnFindResponseHeader(found=False, adopting=False, brokerName="b", newestEpoch=9, completed=3))
    told = from_fields({name: value for name, value in said.items() if name != "completed"}, TxnFindResponseHeader)
    assert (told.newestEpoch, told.completed) == (9, NO_VERSION)


def test_two_that_adopt_at_once_both_give_up() -> None:
    """While a broker asks around it answers others that the id is its own."""

    async def main() -> list[bool]:
        asking = owners(ScriptedPeers(b=NOT_FOUND))
        task = asyncio.ensure_future(asking.adopt(T))
        before = asking.is_mine(T)
        await asyncio.sleep(0)
        during = asking.is_mine(T)
        await task
        return [before, during, asking.is_mine(T)]

    assert asyncio.run(main()) == [False, True, False]


def test_a_question_adopts_nothing() -> None:
    """A participant that checks back does not make others believe that it coordinates."""

    async def main() -> bool:
        asking = owners(ScriptedPeers(b=NOT_FOUND))
        task = asyncio.ensure_future(asking.elsewhere(T))
        await asyncio.sleep(0)
        during = asking.is_mine(T)
        await task
        return during

    assert asyncio.run(main()) is False


def test_a_second_coordinator_is_named() -> None:
    """One that cannot be asked is no proof of anything."""
    asyncio.run(owners(ScriptedPeers(b=NOT_FOUND, c=AWAY)).refuse_second(T))
    with pytest.raises(TwoCoordinators, match="'a' and 'b' both coordinate"):
        asyncio.run(owners(ScriptedPeers(b=FOUND, c=AWAY)).refuse_second(T))


def test_a_broker_that_is_about_to_ask_is_no_second_coordinator() -> None:
    """Tasks of a new run may ask another broker first, which then asks the owner: that is no dispute."""
    asyncio.run(owners(ScriptedPeers(b=Find(found=True, adopting=True))).refuse_second(T))


def test_another_owner_that_is_gone_is_forgotten() -> None:
    """Silent it may come back at any moment; what no name server lists any more has been stopped."""
    peers = ScriptedPeers(b=FOUND)
    mine = owners(peers)
    mine._ledger.apply(RunOpened(T, "q", "r", 1, 0))

    def look() -> None:
        with suppress(TwoCoordinators):
            mine.require_sole(T)
        asyncio.run(mine.look_for_others())

    look()
    peers.answers["b"] = AWAY
    look()
    with pytest.raises(TwoCoordinators, match="Stop one of them"):
        mine.require_sole(T)
    del peers.answers["b"]
    look()
    mine.require_sole(T)


def test_a_new_run_goes_by_who_answers_now() -> None:
    peers = ScriptedPeers(b=FOUND)
    mine = owners(peers)
    mine._ledger.apply(RunOpened(T, "q", "r", 1, 0))
    with pytest.raises(TwoCoordinators):
        asyncio.run(mine.refuse_second(T))
    peers.answers["b"] = AWAY
    asyncio.run(mine.refuse_second(T))
    mine.require_sole(T)


def test_others_are_asked_for_every_id_in_its_turn() -> None:
    """However many are in use all the time."""
    peers = ScriptedPeers(b=NOT_FOUND)
    mine = owners(peers)
    ids = [f"T{number}" for number in range(700)]
    for _ in range(2):
        for each in ids:
            mine.require_sole(each)
        asyncio.run(mine.look_for_others())
    assert {header.transactionalId for _, _, header in peers.asked} == set(ids)


class ScriptedParticipant:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.remembers = True  # where its messages went
        self.first = 0  # offset of its queue
        self.told: list[tuple[int, bool]] = []

    async def complete(self, request: Complete) -> list[OutputRange]:
        self.told.append((request.version, request.durable))
        if self.error is not None:
            raise self.error
        first = self.first + request.version
        return [OutputRange("t", "b", 0, first, first + 1)] if self.remembers else []

    async def vote(self, request: Vote) -> VoteAnswer:
        raise AssertionError("nobody votes here")


async def on_disk() -> None:
    """Everything is."""


def decided(*versions: int) -> Ledger:
    ledger = Ledger()
    ledger.apply(RunOpened(T, "q", "r", 1, 0))
    for version in versions:
        ledger.apply(Decided(T, 1, version, TxnDecision("q", {"b": [HeldAttempt(0, "x")]}), 0, "driver"))
    return ledger


def test_a_broker_that_fails_is_left_alone_longer_and_longer() -> None:
    """And told again, oldest version first, when it is back."""
    ledger, there, clock = decided(3, 4), ScriptedParticipant(), ManualClock()
    rollout = Rollout(ledger, lambda broker: there, clock, on_disk)
    txn = ledger.require(T)

    def round_() -> int:
        before = len(there.told)
        asyncio.run(rollout.complete(txn, durable=True, patient=True))
        return len(there.told) - before

    there.error = AWAY
    assert (round_(), round_(), rollout.unreadable(txn)) == (1, 0, {"b"})
    clock.advance(ms=FIRST_REST_MS)
    assert round_() == 1
    clock.advance(ms=FIRST_REST_MS)
    assert round_() == 0
    there.error = None
    clock.advance(ms=FIRST_REST_MS)
    there.told.clear()
    events = asyncio.run(rollout.complete(txn, durable=True, patient=True))
    assert there.told == [(3, True), (4, True)]
    for event in events:
        ledger.apply(event)
    assert (txn.pending, rollout.unreadable(txn)) == ([], set())


def test_a_coordinator_gives_a_broker_that_hangs_up_before_a_driver_does() -> None:
    """So the driver is told which broker it is, and a batch that is decided meanwhile is a success at once."""
    assert VOTE_TIMEOUT_MS + COMPLETE_TIMEOUT_MS < DECIDE_TIMEOUT_MS


def test_an_id_that_cannot_be_completed_holds_up_no_other() -> None:
    """A topic that is gone is one id's trouble, told once, and named where its next batch is refused."""
    ledger, there, clock = decided(3), ScriptedParticipant(), ManualClock()
    ledger.apply(RunOpened("other", "q", "r", 1, 0))
    rollout = Rollout(ledger, lambda broker: there, clock, on_disk)
    txn, other = ledger.require(T), ledger.require("other")
    with capture_logs() as logs:
        for version in range(3):
            there.error = TopicNotFound("t")
            asyncio.run(rollout.complete(txn, patient=True))
            there.error = None
            ledger.apply(Decided("other", 1, version, TxnDecision("q", {"b": [HeldAttempt(0, "x")]}), 0, "driver"))
            asyncio.run(rollout.complete(other, durable=True, patient=True))
            clock.advance(ms=10 * FIRST_REST_MS)
    assert (rollout.unreadable(other), rollout.unreadable(txn)) == (set(), {"b"})
    assert len(logs) == 1
    assert "'t'" in rollout.obstacle("b", txn)
    assert rollout.obstacle("b", other) == ""
    assert rollout.obstacles(txn).startswith("b: an earlier version is not complete there yet (Topic 't'")
    assert rollout.obstacles(other) == ""


def test_a_broker_that_was_away_and_refuses_is_not_away_any_more() -> None:
    """A store that was set back, say: each driver waited a minute for it, and was told what had been true before."""
    ledger, there = decided(3), ScriptedParticipant()
    rollout = Rollout(ledger, lambda broker: there, ManualClock(), on_disk)
    txn = ledger.require(T)
    there.error = AWAY
    asyncio.run(rollout.complete(txn))
    assert rollout.is_away("b")
    there.error = TransactionError("It does not hold that.")
    asyncio.run(rollout.complete(txn))
    assert not rollout.is_away("b")
    assert rollout.obstacle("b", txn) == "It does not hold that."


def test_nothing_is_completed_that_is_not_on_disk() -> None:
    """A power loss could still undo it, though its rows are readable. What is decided meanwhile has to wait, too."""
    ledger, there = decided(3), ScriptedParticipant()

    async def late() -> None:
        ledger.apply(Decided(T, 1, 4, TxnDecision("q", {"b": [HeldAttempt(0, "x")]}), 0, "driver"))

    async def never() -> None:
        raise FlushTimeout("the disk does not answer")

    asyncio.run(Rollout(ledger, lambda broker: there, ManualClock(), late).complete(ledger.require(T)))
    assert there.told == [(3, False)]
    with pytest.raises(FlushTimeout):
        asyncio.run(Rollout(ledger, lambda broker: there, ManualClock(), never).complete(ledger.require(T)))
    assert there.told == [(3, False)]


def test_what_is_readable_is_known_before_it_is_finished() -> None:
    """Outputs can be audited from the first answer on, and are forgotten when the decision is finished."""
    ledger, there = decided(3), ScriptedParticipant()
    rollout = Rollout(ledger, lambda broker: there, ManualClock(), on_disk)
    txn = ledger.require(T)
    assert asyncio.run(rollout.complete(txn)) == []
    assert rollout.outputs(txn, txn.pending[0]) == {"b": [OutputRange("t", "b", 0, 3, 4)]}
    for event in rollout.confirmations(txn, {"b": [3]}):
        ledger.apply(event)
    rollout.forget_finished()
    assert rollout._outputs == {}


def test_where_rows_went_is_told_though_their_broker_has_forgotten() -> None:
    """A broker that was started again since, with too much to remember, confirms without saying where."""
    ledger, there = decided(3), ScriptedParticipant()
    rollout = Rollout(ledger, lambda broker: there, ManualClock(), on_disk)
    txn = ledger.require(T)
    asyncio.run(rollout.complete(txn))
    there.remembers = False
    (finished,) = asyncio.run(rollout.complete(txn, durable=True))
    assert isinstance(finished, Finished)
    assert finished.batch.outputs == [OutputRange("t", "b", 0, 3, 4)]


def test_rows_that_a_power_loss_took_are_told_of_where_others_took_their_places() -> None:
    """Readers may have seen both. Once, by transactional id and version; what stays where it was is no news."""
    ledger, there = decided(3), ScriptedParticipant()
    rollout = Rollout(ledger, lambda broker: there, ManualClock(), on_disk)
    with capture_logs() as logs:
        for there.first, there.remembers in ((0, True), (0, True), (5, True), (5, True), (5, False)):
            asyncio.run(rollout.complete(ledger.require(T)))
    (line,) = logs
    assert (line["log_level"], line["transactional_id"], line["version"], line["broker"]) == ("warning", T, 3, "b")


def moved(peers: ScriptedPeers) -> list[int]:
    return [header.commitOffset for _, code, header in peers.asked if code is RequestCode.UPDATE_CONSUMER_OFFSET]


def test_offsets_here_move_at_once_and_elsewhere_by_request() -> None:
    """As far as the decided batch has read; a range without a group moves nothing."""
    here: list[InputRange] = []
    peers = ScriptedPeers(b=OffsetResponseHeader(4))

    def commit_here(reads: Sequence[InputRange]) -> list[tuple[InputRange, RmqError]]:
        here.extend(reads)
        return []

    offsets = InputOffsets(commit_here, on_disk, peers)  # type: ignore[arg-type]
    of_here = InputRange("g", "t", "a", 0, 0, 9, topicDeleted=5)
    offsets.want([of_here, InputRange("", "t", "a", 1, 0, 9)])
    offsets.want([InputRange("g", "t", "b", 0, 0, 7), InputRange("g", "t", "b", 0, 7, 9)])
    asyncio.run(offsets.move())
    assert (here, moved(peers)) == ([of_here], [9])
    asyncio.run(offsets.move())
    assert len(moved(peers)) == 1


def test_what_is_still_to_be_moved_can_be_asked_for() -> None:
    """By a broker whose leases have run out; of this one nothing is."""
    peers = ScriptedPeers(b=Unreachable("away", address="b"))
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("g", "t", "b", 0, 0, 9), InputRange("g", "t", "a", 0, 0, 9)])
    asyncio.run(offsets.move())
    queues = [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1), MessageQueue("t", "a", 0)]
    assert offsets.wanted("g", queues) == [LeasedQueue(*queues[0], offset=9)]
    assert offsets.wanted("h", queues) == []
    peers.answers["b"] = OffsetResponseHeader(4)
    asyncio.run(offsets.move())
    assert offsets.wanted("g", queues) == []


def test_offsets_of_a_topic_that_was_made_anew_are_dropped() -> None:
    """They are not tried again, and the others of the group are moved all the same. What is read of the next topic
    takes their place."""
    peers = ScriptedPeers(b=OffsetResponseHeader(0))
    plain = peers.call

    async def call(broker: str, code: RequestCode, header: Any, *rest: Any, **more: Any) -> Response:
        answer = await plain(broker, code, header, *rest, **more)
        if code is RequestCode.UPDATE_CONSUMER_OFFSET and header.topicDeleted == 5:
            raise TopicRemade("This is another one.")
        return answer

    peers.call = call  # type: ignore[method-assign]
    offsets = InputOffsets(lambda reads: [], on_disk, peers)
    offsets.want([InputRange("g", "t", "b", 0, 0, 9, topicDeleted=5), InputRange("g", "u", "b", 0, 0, 8)])
    asyncio.run(offsets.move())
    asyncio.run(offsets.move())
    assert moved(peers) == [9, 8]
    offsets.want([InputRange("g", "t", "b", 0, 0, 9, topicDeleted=5)])
    offsets.want([InputRange("g", "t", "b", 0, 0, 3, topicDeleted=6)])
    asyncio.run(offsets.move())
    assert moved(peers) == [9, 8, 3]


def test_offsets_never_move_back() -> None:
    """A group that is farther already stays where it is."""
    peers = ScriptedPeers(b=OffsetResponseHeader(100))
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("g", "t", "b", 0, 0, 9)])
    asyncio.run(offsets.move())
    assert moved(peers) == []


def test_offsets_that_cannot_be_moved_are_tried_again() -> None:
    """Until the broker is back."""
    peers = ScriptedPeers(b=AWAY)
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("g", "t", "b", queue, 0, 9) for queue in range(3)])
    asyncio.run(offsets.move())
    assert len(peers.asked) == 1  # a broker that is away is not asked for each queue
    peers.answers["b"] = OffsetResponseHeader(0)
    asyncio.run(offsets.move())
    assert moved(peers) == [9, 9, 9]


def test_a_decision_is_kept_until_a_broker_was_told_once() -> None:
    """Or could not be: it may be down for good, and decisions must not gather. One of a shared group waits for it."""
    peers = ScriptedPeers(b=AWAY)
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    plain = [InputRange("g", "t", "b", 0, 0, 9)]
    shared = [InputRange("shared", "t", "b", 0, 0, 9, "m", 1, "r", 1)]
    offsets.want([*plain, *shared, InputRange("g", "t", "a", 0, 0, 9)])
    assert [offsets.is_waiting(each) for each in (plain, shared)] == [True, True]
    assert [offsets.is_waiting(each, shared_alone=True) for each in (plain, shared)] == [False, True]
    assert not offsets.is_waiting([InputRange("g", "t", "a", 0, 0, 9)])
    asyncio.run(offsets.move())
    assert [offsets.is_waiting(each) for each in (plain, shared)] == [False, True]
    further = [InputRange("g", "t", "b", 0, 9, 12)]
    offsets.want(further)
    assert not offsets.is_waiting(further), "it is known to be away"
    peers.answers["b"] = OffsetResponseHeader(0)
    asyncio.run(offsets.move())
    offsets.want([InputRange("g", "t", "b", 0, 12, 15)])
    assert offsets.is_waiting(further), "it is there again"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_decision_waits_for_its_own_place_not_for_the_next_ones(is_there: bool) -> None:
    """A query that is busy has always decided more when a move has ended."""
    peers = ScriptedPeers(b=OffsetResponseHeader(0) if is_there else AWAY)
    plain = peers.call
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    batches = [[InputRange("g", "t", "b", 0, first, first + 1)] for first in range(5)]
    decided = iter(batches)
    offsets.want(next(decided))

    async def call(broker: str, code: RequestCode, header: Any, *rest: Any, **more: Any) -> Response:
        if code is RequestCode.QUERY_CONSUMER_OFFSET:
            offsets.want(next(decided))
        return await plain(broker, code, header, *rest, **more)

    peers.call = call  # type: ignore[method-assign]
    for moves in range(1, 4):
        asyncio.run(offsets.move())
        waiting = [offsets.is_waiting(each) for each in batches[: moves + 1]]
        assert waiting == [*([False] * moves), is_there]


def test_what_is_refused_here_is_told() -> None:
    read = InputRange("g", "t", "a", 0, 0, 9)
    offsets = InputOffsets(lambda reads: [(read, TopicRemade("Another one."))], on_disk, ScriptedPeers())  # type: ignore[arg-type]
    with capture_logs() as logs:
        offsets.want([read])
    assert [(log["event"], log["reason"]) for log in logs] == [("a group's offset was not moved", "Another one.")]


def test_offsets_of_shared_groups_are_tried_again_for_long() -> None:
    """The broker may be away for longer than a minute, with the driver that read it: the next member begins there when
    it is back, and the leases have run out. Others are only told about. The log hears of it once."""
    peers = ScriptedPeers(b=AWAY)
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    read = [InputRange("shared", "t", "b", 0, 0, 9, "m", 1, "r", 1), InputRange("g", "t", "b", 1, 0, 8)]
    offsets.want(read)
    with capture_logs() as logs:
        for _ in range(300):
            asyncio.run(offsets.move())
    told = [entry["event"] for entry in logs if entry["event"].startswith("a broker cannot be told")]
    assert len(told) == 1
    peers.answers["b"] = OffsetResponseHeader(0)
    asyncio.run(offsets.move())
    assert moved(peers) == [9]


@pytest.mark.parametrize("committed", [0, 9, 11])
def test_a_broker_hears_that_it_is_decided(committed: int) -> None:
    """So it takes none back, whoever went on there meanwhile, and has it on its disk; also where the group is there
    already: that may be in memory alone. One of an earlier version, which does not heed that, is asked for no less."""
    peers = ScriptedPeers(b=OffsetResponseHeader(committed))
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("shared", "t", "b", 0, 0, 9, "m", 1, "r", 1), InputRange("g", "t", "b", 1, 0, 9)])
    asyncio.run(offsets.move())
    updates = [header for _, code, header in peers.asked if code is RequestCode.UPDATE_CONSUMER_OFFSET]
    said = {header.consumerGroup: (header.commitOffset, header.decided) for header in updates}
    assert said == {"shared": (max(9, committed), True)} | ({} if committed > 9 else {"g": (9, True)})


def test_a_group_that_a_broker_refuses_holds_up_no_other() -> None:
    """Another query's group moves there all the same; the queues of the one that is refused are not asked for each."""
    peers = ScriptedPeers(b=OffsetResponseHeader(0))
    plain = peers.call

    async def call(broker: str, code: RequestCode, header: Any, *rest: Any, **more: Any) -> Response:
        if header.consumerGroup == "refused":
            peers.asked.append((broker, code, header))
            raise NoPermission("Not this one.")
        return await plain(broker, code, header, *rest, **more)

    peers.call = call  # type: ignore[method-assign]
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("refused", "t", "b", queue, 0, 7) for queue in range(3)])
    offsets.want([InputRange("g", "t", "b", 0, 0, 9)])
    asyncio.run(offsets.move())
    assert moved(peers) == [9]
    assert [header.consumerGroup for _, _, header in peers.asked].count("refused") == 1


def test_brokers_that_nobody_lists_are_not_looked_for() -> None:
    """Names come from clients: a decision that makes up thousands costs the coordinator nothing."""
    peers = ScriptedPeers(b=OffsetResponseHeader(0))
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("g", "t", f"ghost-{number}", 0, 0, 9) for number in range(3_000)])
    offsets.want([InputRange("g", "t", "b", 0, 0, 9)])
    asyncio.run(offsets.move())
    assert {broker for broker, _, _ in peers.asked} == {"b"}
    assert moved(peers) == [9]


def test_a_group_that_never_committed_gets_its_first_offset() -> None:
    """There is nothing to go back behind. A broker that does not know the group is introduced to it."""
    peers = ScriptedPeers(b=GroupNotFound("g"))
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    offsets.want([InputRange("g", "t", "b", 0, 0, 9)])
    plain = peers.call

    async def call(broker: str, code: RequestCode, header: Any, *rest: Any, **more: Any) -> Response:
        if code is RequestCode.PULL_MESSAGE:
            peers.answers["b"] = OffsetResponseHeader(0)
        return await plain(broker, code, header, *rest, **more)

    peers.call = call  # type: ignore[method-assign]
    asyncio.run(offsets.move())
    assert moved(peers) == [9, 9]  # refused, then taken
    peers.asked.clear()
    asyncio.run(offsets.move())
    assert peers.asked == []


async def complete(request: Complete) -> list[OutputRange]:
    """As a participant that has one row."""
    return [OutputRange("out", "a", 0, 0, 1)]


class Bench:
    """A broker's coordination on a disk whose power may fail; `b` is the only other broker there is."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.files = MemoryFileSystem(clock=self.clock)
        self.peers = ScriptedPeers(b=NOT_FOUND)
        self.start()

    def start(self) -> None:
        config = StoreConfig(mapped_file_size_commit_log=64 << 10, message_index_enable=False)
        self.store = MessageStore.open("s", config, files=self.files, clock=self.clock, entropy=SystemEntropy(1))
        self.coordination = Coordination(
            CoordinationConfig(3_600_000, 3_600_000, 1 << 20, 1 << 20),
            self.store,
            self.files.within("s"),
            self.clock,
            peers=self.peers,  # type: ignore[arg-type]
            append=self.store.append,
            flush_to=self.flush_to,
            participant_here=SimpleNamespace(remembered=lambda _: Remembered(7), complete=complete),  # type: ignore[arg-type]
            commit_here=lambda _: [],
            leases_here=NoLeases(),
        )

    async def flush_to(self, end_offset: int) -> None:
        self.store.flush()
        assert self.store.flushed_offset >= end_offset

    def lose_power(self) -> None:
        self.files.crash()
        self.start()


def test_who_asks_for_an_owner_is_on_the_disk_before_it_is_answered() -> None:
    """It may own the id next. Forgotten in a crash, and away then, it would not be asked: two would own the id."""
    bench = Bench()
    asyncio.run(bench.coordination.remember_broker("b"))
    bench.lose_power()
    assert bench.coordination.owners.seen() == ["b"]
    assert list(bench.coordination.ledger.peers) == ["b"]


def test_who_asks_for_an_owner_has_to_be_known_to_the_name_servers() -> None:
    """Each broker ever seen is asked before an id is adopted: a made-up one would stop them all."""
    bench = Bench()
    with pytest.raises(TransactionError, match="'ghost' is not one of this cluster"):
        asyncio.run(bench.coordination.remember_broker("ghost"))
    assert list(bench.coordination.ledger.peers) == []


def test_brokers_that_come_under_ever_new_names_do_not_fill_a_ledger() -> None:
    """Each is asked before an id is adopted, and restated for good. That is told once; those that an operator says are
    gone make room for others."""
    bench = Bench()
    peers: Any = bench.coordination.peers
    with capture_logs() as logs:
        for first in (0, 1_500):
            peers.answers = dict.fromkeys(f"broker-{number}" for number in range(first, first + 1_500))
            asyncio.run(bench.coordination._look_around())
    assert len(bench.coordination.ledger.peers) == MAX_PEERS
    assert [each["event"] for each in logs] == ["brokers seen could not be noted"]
    peers.retired = frozenset(list(bench.coordination.ledger.peers)[1:])
    peers.answers = {"another": None}
    asyncio.run(bench.coordination._look_around())
    assert "another" in bench.coordination.ledger.peers


def test_a_broker_that_has_seen_more_than_there_may_be_is_not_believed() -> None:
    """Each of them would be looked for, and nobody adopts an id where somebody is not believed."""
    many = tuple(f"ghost-{number}" for number in range(2 * MAX_PEERS + 1))
    peers = ScriptedPeers(b=Find(found=False, seen=many))
    with pytest.raises(Unreachable, match="'b' may own"):
        asyncio.run(owners(peers).adopt(T))
    assert [broker for broker, _, _ in peers.asked] == ["b"]


def test_an_id_that_somebody_is_about_to_use_is_not_forgotten() -> None:
    """A run that comes after a long time asks others first whether they own the id. Forgotten meanwhile, its last
    version would be none, and one below it be decided once more."""
    bench = Bench()
    coordinator, ledger = bench.coordination.coordinator, bench.coordination.ledger
    bench.coordination.journal.record([RunOpened("T", "", "r1", 1, 0), Decided("T", 1, 5, TxnDecision(), 0, "driver")])
    bench.coordination.journal.record([Finished(AuditedBatch("T", version=5))])
    bench.clock.advance(hours=2)

    async def scenario() -> None:
        preparing = asyncio.create_task(coordinator.prepare("T", "r2", 6, ""))
        await asyncio.sleep(0)
        await bench.coordination.tick()
        await preparing

    asyncio.run(scenario())
    assert (ledger.require("T").last_version, ledger.require("T").open_version) == (5, 6)
    bench.clock.advance(hours=2)
    bench.coordination.rounds.close_overdue(3_600_000)
    asyncio.run(bench.coordination.tick())
    assert "T" not in ledger


def test_a_write_of_foreachbatch_moves_no_group() -> None:
    """Its batch may have more to write: who takes the group over then, for the driver died, does not leave that out."""
    bench = Bench()
    coordinator, peers = bench.coordination.coordinator, bench.coordination.peers
    read = [InputRange("g", "t", "b", 0, 0, 9)]

    async def decide() -> None:
        for version, own_version in ((0, True), (1, False)):
            epoch = (await coordinator.prepare(T, "r", version, "q")).answer.epoch
            peers.answers["b"] = OffsetResponseHeader(0)  # type: ignore[attr-defined]
            decision = TxnDecision("q", checksum="0", inputs=read, ownVersion=own_version)
            await coordinator.decide(T, "r", epoch, version, decision)
            await bench.coordination.tick()
            assert moved(peers) == ([] if own_version else [9])  # type: ignore[arg-type]

    asyncio.run(decide())


def test_groups_follow_on_other_brokers_while_this_one_can_write_nothing() -> None:
    """What is overdue cannot be closed on a full disk. Did they not follow, another member of a shared group would read
    once more what is decided, when the leases of a driver that died run out."""
    bench = Bench()
    coordinator, peers = bench.coordination.coordinator, bench.coordination.peers

    async def decide_and_go_on() -> None:
        epoch = (await coordinator.prepare(T, "r", 0, "q")).answer.epoch
        read = [InputRange("g", "t", "b", 0, 0, 9)]
        await coordinator.decide(T, "r", epoch, 0, TxnDecision("q", checksum="0", inputs=read))
        await coordinator.prepare(T, "r", 1, "q")

    asyncio.run(decide_and_go_on())
    bench.clock.advance(hours=2)
    peers.answers["b"] = OffsetResponseHeader(0)  # type: ignore[attr-defined]
    for _ in range(2):  # the first is for what is seen around
        bench.files.fail_next("pwrite", OSError(ENOSPC, "no room"))
    with pytest.raises(NotWritable):
        asyncio.run(bench.coordination.tick())
    assert moved(peers) == [9]  # type: ignore[arg-type]


@pytest.mark.parametrize("held", [{"a": [HeldAttempt(0, "x", 1, 1)]}, {}], ids=["rows", "no row"])
def test_what_a_shared_group_was_not_told_outlives_restarts(held: dict[str, list[HeldAttempt]]) -> None:
    """The broker that was read from is away; the rows are readable meanwhile, and on all disks. Forgotten with that,
    the next member would begin where the group was before, and write the batch once more: or, where it has written
    nothing yet, for all is in the query's state, count it there once more."""
    bench = Bench()
    bench.peers.answers["b"] = AWAY
    read = InputRange("g", "t", "b", 0, 0, 9, "m", 1, "r", 1)
    decision, ledger = TxnDecision("q", held, rows=len(held), inputs=[read]), bench.coordination.ledger
    bench.coordination.journal.record([RunOpened(T, "q", "r", 1, 0)])
    bench.coordination.journal.record(ledger.record(T, 1, 5, decision, 0).events)

    async def told_of() -> list[int]:
        """Where the group goes on that nobody was told, after some rounds."""
        for _ in range(3):
            await bench.coordination.tick()
        return [each.offset for each in await bench.coordination.group_offsets("g", [MessageQueue("t", "b", 0)])]

    for _ in range(2):
        bench.files.kill()
        bench.start()
        assert asyncio.run(told_of()) == [9]
        (batch,) = bench.coordination.reports.batches(T, None, 10, None).batches
        assert (batch.completed, bench.coordination.ledger.require(T).brokers_left()) == (True, [])
    bench.peers.answers["b"] = OffsetResponseHeader(0)
    assert asyncio.run(told_of()) == []
    assert (moved(bench.peers), bench.coordination.ledger.require(T).pending) == ([9], [])


def test_a_broker_that_is_gone_for_good_is_told_nothing() -> None:
    """Nobody begins there any more; nothing is kept for it."""
    peers = ScriptedPeers(b=AWAY)
    peers.retired = frozenset("b")
    offsets = InputOffsets(lambda reads: [], on_disk, peers)  # type: ignore[arg-type]
    read = [InputRange("g", "t", "b", 0, 0, 9, "m", 1, "r", 1)]
    offsets.want(read)
    assert not offsets.is_waiting(read)
