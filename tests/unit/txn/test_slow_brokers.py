"""A broker that hangs, dead to nobody's eyes: whom it keeps waiting."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from rmqspark.protocol.bodies_txn import HeldAttempt, OutputRange, TxnDecision
from rmqspark.protocol.headers_txn import TxnOutcome
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.txn.coordinator import Coordinator
from rmqspark.txn.events import Decided, RunOpened, VersionBegun
from rmqspark.txn.ledger import Ledger
from rmqspark.txn.ports import VoteAnswer
from rmqspark.txn.rollout import Rollout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.txn.events import Event
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
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def record(self, events: Iterable[Event]) -> None:
        for event in events:
            self._ledger.apply(event)

    async def flushed(self) -> None:
        """Everything is."""


class Nobody:
    """The leases and other owners of this cluster."""

    async def elsewhere(self, transactional_id: str, *, adopt: bool = False) -> None: ...

    async def lost(self, inputs: Any) -> None: ...


class Bench:
    def __init__(self) -> None:
        self.ledger, self.clock = Ledger(), ManualClock()
        self.slow, self.quick = Broker(), Broker()
        self.slow.hangs = True
        brokers = {"slow": self.slow, "quick": self.quick}
        journal: Any = Journal(self.ledger)
        rollout = Rollout(self.ledger, brokers.__getitem__, self.clock, journal.flushed)
        nobody = cast("Any", Nobody())
        self.coordinator = Coordinator(
            self.ledger, journal, nobody, rollout, brokers.__getitem__, nobody, lambda inputs: None, self.clock
        )

    def decided(self, transactional_id: str, version: int, *brokers: str) -> None:
        self.ledger.apply(RunOpened(transactional_id, "q", "r", 1, 0))
        self.ledger.apply(Decided(transactional_id, 1, version, decision(*brokers), 0, "driver"))

    async def confirm(self) -> None:
        await asyncio.wait_for(self.coordinator.complete_pending(older_than_ms=0), 10)

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
        await bench.coordinator.close()
        bench.slow.hangs = False
        await bench.confirm()
        assert bench.versions_left(T) == []

    asyncio.run(main())
