"""What a coordinator does by the clock, beside the requests: what is decided is confirmed, what is left over closed.

Nothing is done about an id of which a request is under way: that sees to it, and what the ledger says of it holds until
it is written.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from rmqspark.errors import FlushTimeout
from rmqspark.txn.coordinator.confirmations import Confirmations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.clock import Clock
    from rmqspark.txn.coordinator.events import EpochClosed, Forgotten, Transaction
    from rmqspark.txn.coordinator.following import Following
    from rmqspark.txn.coordinator.journal import Journal
    from rmqspark.txn.coordinator.ledger import Ledger
    from rmqspark.txn.coordinator.rollout import Rollout
    from rmqspark.txn.coordinator.turns import Turns
    from rmqspark.txn.coordinator.uptime import Uptime

log = structlog.get_logger("rmqspark.txn")


class Rounds:
    """`turns` are those of requests, by transactional id."""

    def __init__(
        self,
        ledger: Ledger,
        journal: Journal,
        rollout: Rollout,
        following: Following,
        turns: Turns,
        clock: Clock,
        uptime: Uptime,
    ) -> None:
        self._ledger = ledger
        self._journal = journal
        self._rollout = rollout
        self._following = following
        self._turns = turns
        self._clock = clock
        self._uptime = uptime
        self._confirmations = Confirmations(self._confirm)
        self._is_late = False
        self._pending: set[tuple[str, int]] = set()  # at the last round: ids, and their oldest version

    async def complete_pending(self) -> None:
        """Has decisions completed, and confirmed to be on disk, that no later batch does it for: those that were
        pending a round ago, too; none before the disk, and slaves where that is promised, have it."""
        pending = {(txn.transactional_id, txn.pending[0].version): txn for txn in self._ledger if txn.pending}
        due: dict[str, list[Transaction]] = {}
        for txn in (pending[key] for key in pending if key in self._pending):
            for broker in txn.brokers_left():
                due.setdefault(broker, []).append(txn)
        self._pending = set(pending)
        left = self._following.left()
        is_kept = bool(due or left) and await self._is_kept()
        if is_kept:
            await asyncio.gather(*map(self._follow, left))  # each may wait for a broker that hangs
        await self._confirmations.ask(due if is_kept else {})
        self._journal.record(self._rollout.followed())
        self._rollout.forget_finished()

    async def _follow(self, transactional_id: str) -> None:
        if not self._turns.is_taken(transactional_id):
            async with self._turns.of(transactional_id):
                await self._following.catch_up(transactional_id)

    async def _is_kept(self) -> bool:
        """Whether all that was decided is where it has to be. A slave may be away for long: that is logged once."""
        was_late, self._is_late = self._is_late, False
        try:
            await self._journal.flushed()
        except FlushTimeout as error:
            self._is_late = True
            if not was_late:
                log.warning("what is decided is completed later, trying on", reason=str(error))
        return not self._is_late

    async def _confirm(self, broker: str, txn: Transaction) -> None:
        """Takes no turn: a broker that hangs must not keep a driver waiting, and COMPLETE again is the same as once.
        What is complete is forgotten with what was read: groups go on behind it first."""
        if not (self._turns.is_taken(txn.transactional_id) or self._following.is_behind(txn.transactional_id)):
            self._journal.record(await self._rollout.complete(txn, [broker], durable=True, patient=True))

    def close_overdue(self, max_open_ms: int) -> None:
        """Closes what no attempt has been heard of for so long: its driver is dead."""
        self._record(self._ledger.overdue(self._uptime.now_ms(), max_open_ms, self._clock.now_ms()))

    def forget_disused(self, expiration_ms: int) -> None:
        """Forgets what nobody has used for so long, and nobody is about to use."""
        self._record(self._ledger.disused(self._uptime.now_ms(), expiration_ms))

    def _record(self, events: Iterable[EpochClosed | Forgotten]) -> None:
        self._journal.record([event for event in events if not self._turns.is_taken(event.transactional_id)])

    async def close(self) -> None:
        """Ends what is under way."""
        await self._confirmations.close()
