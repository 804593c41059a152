"""A broker that hangs, dead to nobody's eyes: whom it keeps waiting."""

from __future__ import annotations

import asyncio
from errno import EIO
from typing import TYPE_CHECKING, Any, cast

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.state.locks import QueueLocks
from rmqspark.errors import NotWritable, RequestTimeout, SlaveNotAvailable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.txn import HeldAttempt, InputRange, OutputRange, TxnDecision
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.txn.coordinator.coordinator import Coordinator
from rmqspark.txn.coordinator.events import Decided, RunOpened, VersionBegun
from rmqspark.txn.coordinator.following import Following
from rmqspark.txn.coordinator.input_leases import InputLeases
from rmqspark.txn.coordinator.ledger import Ledger
from rmqspark.txn.coordinator.rollout import FIRST_REST_MS, Rollout
from rmqspark.txn.coordinator.rounds import Rounds
from rmqspark.txn.coordinator.uptime import Uptime
from rmqspark.txn.ports import VoteAnswer

from .no_leases import NoLeases

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.client import LeasedQueue
    from rmqspark.txn.coordinator.events import Event
    from rmqspark.txn.ports import Complete, Vote

T = "spark-q"


class Broker:
    """Answers at once, unless it hangs."""

    def __init__(self) -> None:
        self.hangs = False
        self.told: list[tuple[str, int]] = []

    async def complete(self, request: Complete) -> list[OutputRange]:
        self.told.append((request.transactional_id, request.version))
        if self.hangs:
            await asyncio.Event().wait()
        return []

    async def vote(self, request: Vote) -> VoteAnswer:
        return VoteAnswer(yes=True)


class Journal:
    """Its disk is full where `refuses` is concerned."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.refuses = ""
        self.late: SlaveNotAvailable | None = None

    def record(self, events: Iterable[Event]) -> None:
        for event in list(events):
            if self.refuses and self.refuses in repr(event):
                raise NotWritable("The disk is full.")
            self._ledger.apply(event)

    async def flushed(self) -> None:
        """Everything is, unless it is said to be late."""
        if self.late is not None:
            raise self.late


class Nobody:
    """The other owners and brokers of this cluster, its leases, and its groups."""

    own_name = "here"

    async def elsewhere(self, transactional_id: str) -> None: ...

    def require_sole(self, transactional_id: str) -> None: ...

    async def lost(self, inputs: Any, *, are_followed: bool = True) -> None: ...

    async def commit(self, inputs: Any) -> list[Any]:
        return []

    def want(self, inputs: Any) -> None: ...

    def is_waiting(self, inputs: Any, *, shared_alone: bool = False) -> bool:
        return False

    async def listed(self, brokers: Any) -> set[str]:
        return set()


class Bench:
    def __init__(self, leases: Any = None) -> None:
        self.ledger, self.clock = Ledger(), ManualClock()
        self.slow, self.quick = Broker(), Broker()
        self.slow.hangs = True
        self.brokers = {"slow": self.slow, "quick": self.quick}
        self.journal = Journal(self.ledger)
        journal: Any = self.journal
        brokers: Any = lambda name: self.brokers[name]  # noqa: E731
        rollout = Rollout(self.ledger, brokers, self.clock, journal.flushed)
        nobody = cast("Any", Nobody())
        self.following, uptime = Following(leases or nobody, nobody), Uptime(self.clock, 0)
        self.coordinator = Coordinator(
            self.ledger, journal, nobody, rollout, brokers, self.following, self.clock, uptime
        )
        turns = self.coordinator.turns
        self.rounds = Rounds(self.ledger, journal, rollout, self.following, turns, self.clock, uptime)

    def decided(self, transactional_id: str, version: int, *brokers: str) -> None:
        self.ledger.apply(RunOpened(transactional_id, "q", "r", 1, 0))
        self.ledger.apply(Decided(transactional_id, 1, version, decision(*brokers), 0, "driver"))

    async def confirm(self) -> None:
        """The second round asks for what the first one has seen."""
        for _ in range(2):
            await asyncio.wait_for(self.rounds.complete_pending(), 10)

    def versions_left(self, transactional_id: str) -> list[int]:
        return [pending.version for pending in self.ledger.require(transactional_id).pending]


def decision(*brokers: str) -> TxnDecision:
    held = {broker: [HeldAttempt(place, f"x{place}", 1, 1)] for place, broker in enumerate(brokers)}
    return TxnDecision("q", held, rows=len(brokers), checksum="1")


def test_a_version_that_does_not_touch_a_broker_does_not_wait_for_it() -> None:
    """Its rows are readable, and it is told so, while an earlier one waits for a broker that hangs."""

    async def main() -> None:
        bench = Bench()
        bench.decided(T, 0, "slow", "quick")
        bench.ledger.apply(VersionBegun(T, 1, 0))
        for outcome in (TxnOutcome.COMMITTED, TxnOutcome.ALREADY_COMMITTED):
            ruling = await asyncio.wait_for(bench.coordinator.decide(T, "r", 1, 1, decision("quick")), 5)
            assert (ruling.answer.outcome, ruling.unreadable) == (outcome, frozenset())
        assert bench.slow.told == []
        assert bench.quick.told[:2] == [(T, 0), (T, 1)]  # in their order there

    asyncio.run(main())


def test_confirmations_of_other_brokers_do_not_wait_for_one_that_hangs() -> None:
    """It is asked once, and what others have is confirmed round after round."""

    async def main() -> None:
        bench = Bench()
        bench.decided(T, 0, "slow", "quick")
        bench.decided("a", 0, "quick")
        await bench.confirm()
        bench.decided("b", 0, "quick")
        await bench.confirm()
        assert (bench.versions_left("a"), bench.versions_left("b"), bench.versions_left(T)) == ([], [], [0])
        assert bench.ledger.require(T).pending[0].brokers_left() == ["slow"]
        assert bench.slow.told == [(T, 0)]
        await bench.rounds.close()
        bench.slow.hangs = False
        await bench.confirm()
        assert bench.versions_left(T) == []

    asyncio.run(main())


def test_nothing_is_completed_that_no_slave_has_yet() -> None:
    """With SYNC_MASTER: readers would know of a batch that a slave, made the master, does not. It is logged once."""

    async def main() -> None:
        bench = Bench()
        bench.decided(T, 0, "quick")
        with capture_logs() as logs:
            bench.journal.late = SlaveNotAvailable("Stored, but not on a slave.")
            await bench.confirm()
            await bench.confirm()
            assert (bench.quick.told, bench.versions_left(T), len(logs)) == ([], [0], 1)
            bench.journal.late = None
            await bench.confirm()
        assert (bench.quick.told, bench.versions_left(T), len(logs)) == ([(T, 0)], [], 1)

    asyncio.run(main())


MANY = [f"id{number:02}" for number in range(16)]  # as many as are asked for at once


def test_a_decision_is_confirmed_in_the_second_round_that_finds_it() -> None:
    """The vote on the next batch is to do it, and costs nothing, where there is one."""

    async def main() -> None:
        bench = Bench()
        bench.decided(T, 0, "quick")
        await bench.rounds.complete_pending()
        assert (bench.quick.told, bench.versions_left(T)) == ([], [0])
        await bench.rounds.complete_pending()
        assert (bench.quick.told, bench.versions_left(T)) == ([(T, 0)], [])

    asyncio.run(main())


def test_those_that_always_time_out_keep_no_other_from_its_turn() -> None:
    """Their broker is given a rest each time, after which others are asked for first."""

    class TimesOut(Broker):
        async def complete(self, request: Complete) -> list[OutputRange]:
            if request.transactional_id in MANY:
                raise RequestTimeout("no answer")
            return await super().complete(request)

    async def main() -> None:
        bench = Bench()
        bench.brokers["quick"] = TimesOut()
        for name in (*MANY, "last"):
            bench.decided(name, 0, "quick")
        for _ in range(20):
            await bench.confirm()
            bench.clock.advance(seconds=40)
        assert (bench.versions_left("last"), bench.versions_left("id00")) == ([], [0])

    asyncio.run(main())


def test_each_broker_has_turns_of_its_own() -> None:
    """However many others are asked in the same round."""
    first, second = ([f"{name}{number:02}" for number in range(16)] for name in ("first", "second"))

    class TimesOut(Broker):
        async def complete(self, request: Complete) -> list[OutputRange]:
            if request.transactional_id in first:
                raise RequestTimeout("no answer")
            return await super().complete(request)

    async def main() -> None:
        bench = Bench()
        bench.brokers |= {"slow": TimesOut(), "quick": TimesOut()}
        for name in (*first, *second):
            bench.decided(name, 0, "slow", "quick")
        for _ in range(20):
            await bench.confirm()
            bench.clock.advance(seconds=40)
        assert [bench.versions_left(name) for name in second] == [[]] * 16

    asyncio.run(main())


def test_what_cannot_be_recorded_keeps_no_other_from_its_turn() -> None:
    """Nor does it leave any task that nobody waits for: the error is raised when all have ended."""

    async def main() -> None:
        bench = Bench()
        for name in (*MANY, "last"):
            bench.decided(name, 0, "quick")
        bench.journal.refuses = "'id"
        with pytest.raises(NotWritable):
            await bench.confirm()
        assert (bench.versions_left("last"), bench.versions_left("id00")) == ([], [0])
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


def test_a_disk_that_cannot_be_read_is_told_of_its_batch_alone() -> None:
    """The participant of the coordinator's own broker has half a batch where a sector is bad. That the batch is decided
    stands, and the others go on."""

    class Unreadable(Broker):
        async def complete(self, request: Complete) -> list[OutputRange]:
            if request.transactional_id == T:
                raise OSError(EIO, "Input/output error")
            return await super().complete(request)

    async def main() -> None:
        bench = Bench()
        bench.brokers["quick"] = Unreadable()
        bench.ledger.apply(RunOpened(T, "q", "r", 1, 0))
        bench.ledger.apply(VersionBegun(T, 0, 0))
        ruling = await bench.coordinator.decide(T, "r", 1, 0, decision("quick"))
        assert (ruling.answer.outcome, ruling.unreadable) == (TxnOutcome.COMMITTED, {"quick"})
        bench.decided("other", 0, "quick")
        await bench.confirm()
        assert (bench.versions_left(T), bench.versions_left("other")) == ([0], [])

    asyncio.run(main())


def test_answers_that_fail_together_are_one_failure() -> None:
    """The rest after it is the first one, not as long as after so many in a row."""

    class Away(Broker):
        async def complete(self, request: Complete) -> list[OutputRange]:
            self.told.append((request.transactional_id, request.version))
            raise RequestTimeout("no answer")

    async def main() -> None:
        bench = Bench()
        away = bench.brokers["quick"] = Away()
        for number in range(16):
            bench.decided(f"id{number:02}", 0, "quick")
        await bench.confirm()
        asked = len(away.told)
        bench.clock.advance(ms=FIRST_REST_MS)
        await bench.confirm()
        assert len(away.told) > asked

    asyncio.run(main())


def test_a_vote_that_outlasts_the_leases_is_no_decision_for_who_lost_them_meanwhile() -> None:
    """Its driver has died, and another member was given the queue: it reads what the batch has read, from the group's
    offset on."""
    queue, locks = MessageQueue("orders", "here", 0), QueueLocks(lease_ms=60_000)
    run = locks.begin_run()
    lease = locks.take("g", "m", [queue], 0, run)[queue]
    read = InputRange("g", *queue, 0, 5, member="m", lease=lease, run="r", leaseRun=run)

    async def main() -> None:
        class Here(NoLeases):
            def keep(
                self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue], coordinator: str
            ) -> list[LeasedQueue]:
                (asked,) = wanted
                kept = locks.keep(group, member, {queue: asked.lease}, bench.clock.monotonic_ms(), run)
                return [asked] if kept else []

        bench = Bench(InputLeases(Here(), cast("Any", Nobody())))

        class TakesLong(Broker):
            async def vote(self, request: Vote) -> VoteAnswer:
                bench.clock.advance(ms=60_001)
                assert locks.take("g", "other", [queue], bench.clock.monotonic_ms(), locks.begin_run())
                return await super().vote(request)

        bench.brokers["quick"] = TakesLong()
        bench.ledger.apply(RunOpened(T, "q", "r", 1, 0))
        bench.ledger.apply(VersionBegun(T, 0, 0))
        wanted = decision("quick")
        wanted.inputs = [read]
        ruling = await bench.coordinator.decide(T, "r", 1, 0, wanted)
        assert ruling.answer.outcome is TxnOutcome.REFUSED
        assert ruling.remark == f"queue {queue} of the shared group 'g' is another member's, or another run's, now."
        assert bench.ledger.require(T).last_version == -1

    asyncio.run(main())


def test_groups_of_many_ids_wait_for_a_broker_that_hangs_side_by_side() -> None:
    """Each is left alone when its time is over: that takes as long as one of them, and the round goes on."""

    async def main() -> None:
        asked, time_is_over = asyncio.Semaphore(0), asyncio.Event()

        class Hanging(Nobody):
            async def commit(self, inputs: Any) -> list[Any]:
                asked.release()
                await time_is_over.wait()
                return []

        bench = Bench(Hanging())
        for transactional_id in ("a", "b", "c"):
            bench.decided(transactional_id, 0, "quick")
            bench.following.note(transactional_id, 0, decision("quick"))
        under_way = asyncio.create_task(bench.rounds.complete_pending())
        async with asyncio.timeout(5):
            for _ in range(3):
                await asked.acquire()
            time_is_over.set()
            await under_way
        assert bench.following.left() == []

    asyncio.run(main())
