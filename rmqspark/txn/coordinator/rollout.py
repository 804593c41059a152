"""From a decision to rows that can be read: COMPLETE to every broker that holds some, until all have them on disk.

Two things are told apart. *Readable*: the broker has answered COMPLETE; what it appended may not be on its disk yet.
*Confirmed*: it is, because the broker was asked for that (`durable`), or because it was told once more and then voted
on a later version, which flushes its whole log. Only what is confirmed everywhere is finished and may be forgotten: a
broker that loses power takes readable rows with it, and has to be told again.

On each broker the versions of one transactional id are completed in their order, oldest first.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.errors import RequestTimeout, RmqError, Unreachable
from rmqspark.fault_points import fault_point
from rmqspark.protocol.bodies.txn import AttemptName
from rmqspark.txn.ports import Complete

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.txn import OutputRange
    from rmqspark.txn.coordinator.events import Event, Pending, Transaction
    from rmqspark.txn.coordinator.ledger import Ledger
    from rmqspark.txn.ports import ParticipantPort

FIRST_REST_MS: Final = 250  # after a failure, doubled up to
LONGEST_REST_MS: Final = 30_000

log = structlog.get_logger("rmqspark.txn")


class _Rest(NamedTuple):
    until_ms: int
    pause_ms: int
    reason: str


class Rollout:
    """Completes decisions. `participant` gives the way to a broker by its name; `flushed` returns when what was decided
    so far is on disk; `is_followed` says whether groups have gone on behind a decision: before, it is not finished."""

    def __init__(
        self,
        ledger: Ledger,
        participant: Callable[[str], ParticipantPort],
        clock: Clock,
        flushed: Callable[[], Awaitable[None]],
        is_followed: Callable[[Transaction, Pending], bool] = lambda txn, pending: True,
    ) -> None:
        self._ledger = ledger
        self._participant = participant
        self._clock = clock
        self._flushed = flushed
        self._is_followed = is_followed
        self._outputs: dict[tuple[str, int, str], list[OutputRange]] = {}  # of id, version, broker: what is readable
        # By broker and id: what failed and is left alone for a while. With no id, the broker did not answer at all.
        self._rests: dict[tuple[str, str], _Rest] = {}

    async def complete(
        self, txn: Transaction, only: Collection[str] | None = None, *, durable: bool = False, patient: bool = False
    ) -> list[Event]:
        """Completes what is pending, on all brokers at once, or only on some. Returns what is to be recorded of it.

        Brokers that failed lately are left out if `patient`. One that fails is logged and will be asked again.
        """
        brokers = [broker for broker in txn.brokers_left() if only is None or broker in only]
        if patient:
            brokers = [broker for broker in brokers if not self._is_resting(broker, txn)]
        confirmed = await asyncio.gather(*(self.complete_on(broker, txn, durable=durable) for broker in brokers))
        return self.confirmations(txn, dict(zip(brokers, confirmed, strict=True))) if durable else []

    async def complete_on(self, broker: str, txn: Transaction, *, durable: bool = False) -> list[int]:
        """Completes what is pending on one broker; returns the versions it answered for, up to the first failure.

        Nothing is completed that a power loss could still undo. Raises FlushTimeout, NotWritable.
        """
        done = []
        decided = self.in_order(txn, broker)
        await self._flushed()
        for pending in decided:
            held = pending.decision.participants[broker]
            attempts = [AttemptName(attempt.partition, attempt.attempt) for attempt in held]
            request = Complete(txn.transactional_id, pending.epoch, pending.version, True, attempts, durable)
            fault_point("before_complete")
            try:
                outputs = await self._participant(broker).complete(request)
            except (RmqError, OSError) as error:  # the disk's, where the broker is this one
                self._rest(broker, error, txn, pending)
                break
            fault_point("after_complete")
            self._rests.pop((broker, ""), None)
            self._rests.pop((broker, txn.transactional_id), None)
            self._note_outputs(broker, txn, pending, outputs)
            done.append(pending.version)
        return done

    def _note_outputs(self, broker: str, txn: Transaction, pending: Pending, outputs: list[OutputRange]) -> None:
        """One that forgot where they are says nothing. Elsewhere they are where a power loss took them, and others took
        their places before they were completed again."""
        key = (txn.transactional_id, pending.version, broker)
        before = self._outputs.get(key, [])
        self._outputs[key] = outputs or before
        if before and self._outputs[key] != before:
            log.warning(
                "rows that were readable were lost with the power, and are under other offsets now",
                transactional_id=txn.transactional_id,
                version=pending.version,
                broker=broker,
            )

    def in_order(self, txn: Transaction, broker: str) -> list[Pending]:
        """What the broker has not confirmed, oldest first: N is readable there before N + 1."""
        return [pending for pending in txn.pending if broker in pending.brokers_left()]

    def confirmations(self, txn: Transaction, versions: Mapping[str, Sequence[int]]) -> list[Event]:
        """The events that say so: these brokers have these versions on their disks."""
        by_version: dict[int, dict[str, list[OutputRange]]] = {}
        for broker, confirmed in versions.items():
            for version in confirmed:
                outputs = self._outputs.get((txn.transactional_id, version, broker), [])
                by_version.setdefault(version, {})[broker] = outputs
        return [
            event
            for pending in txn.pending
            if (told := by_version.get(pending.version)) is not None
            for event in self._completed(txn, pending, told)
        ]

    def followed(self) -> list[Event]:
        """The events that finish what all brokers have on their disks, and groups have followed since."""
        return [
            event
            for txn in self._ledger
            for pending in txn.pending
            if not pending.brokers_left()
            for event in self._completed(txn, pending, {})
        ]

    def _completed(self, txn: Transaction, pending: Pending, outputs: Mapping[str, list[OutputRange]]) -> list[Event]:
        may_finish = self._is_followed(txn, pending)
        return self._ledger.completed(txn.transactional_id, pending.version, outputs, may_finish=may_finish)

    def outputs(self, txn: Transaction, pending: Pending) -> dict[str, list[OutputRange]]:
        """Where the rows of a decision are, by broker, as far as that is known."""
        readable = {
            broker: self._outputs[key]
            for broker in pending.decision.participants
            if (key := (txn.transactional_id, pending.version, broker)) in self._outputs
        }
        return {**readable, **pending.outputs}

    def unreadable(self, txn: Transaction, version: int | None = None) -> set[str]:
        """The brokers on which something decided, or this version of it, is not known to be readable yet."""
        return {
            broker
            for pending in txn.pending
            for broker in pending.brokers_left()
            if version in (None, pending.version)
            and (txn.transactional_id, pending.version, broker) not in self._outputs
        }

    def forget_finished(self) -> None:
        """Drops what is remembered of decisions that are finished."""
        alive = {(txn.transactional_id, pending.version) for txn in self._ledger for pending in txn.pending}
        self._outputs = {key: outputs for key, outputs in self._outputs.items() if key[:2] in alive}
        ids = {"", *(transactional_id for transactional_id, _ in alive)}
        self._rests = {key: rest for key, rest in self._rests.items() if key[1] in ids}

    def obstacle(self, broker: str, txn: Transaction) -> str:
        """What stood in the way when something was last completed on this broker; empty if nothing did."""
        return next((rest.reason for rest in self._rests_of(broker, txn)), "")

    def obstacles(self, txn: Transaction) -> str:
        """Which brokers failed to complete what is decided, and why; empty if none did."""
        brokers = sorted(txn.brokers_left())
        return "; ".join(f"{broker}: {self.story(broker, txn)}" for broker in brokers if self.obstacle(broker, txn))

    def story(self, broker: str, txn: Transaction) -> str:
        """What a driver is told whose version has to wait for those that are decided."""
        return f"an earlier version is not complete there yet ({self.obstacle(broker, txn)})"

    def is_away(self, broker: str) -> bool:
        """Whether the broker did not answer at all when it was last told to complete something."""
        return (broker, "") in self._rests

    def _is_resting(self, broker: str, txn: Transaction) -> bool:
        now_ms = self._clock.monotonic_ms()
        return any(now_ms < rest.until_ms for rest in self._rests_of(broker, txn))

    def _rests_of(self, broker: str, txn: Transaction) -> list[_Rest]:
        keys = (broker, ""), (broker, txn.transactional_id)
        return [self._rests[key] for key in keys if key in self._rests]

    def _rest(self, broker: str, error: RmqError | OSError, txn: Transaction, pending: Pending) -> None:
        key = broker, "" if isinstance(error, Unreachable | RequestTimeout) else txn.transactional_id
        if isinstance(error, RmqError) and not error.retriable:
            self._rests.pop((broker, ""), None)  # it is back, and says what it will not do later either
        known = self._rests.get(key)
        if known is None:
            log.warning(
                "a version cannot be completed yet, trying on",
                transactional_id=txn.transactional_id,
                version=pending.version,
                broker=broker,
                reason=str(error),
            )
        now_ms = self._clock.monotonic_ms()
        if known is not None and now_ms < known.until_ms:  # asked at the same time as the one that began the rest
            return
        pause_ms = FIRST_REST_MS if known is None else min(2 * known.pause_ms, LONGEST_REST_MS)
        self._rests[key] = _Rest(now_ms + pause_ms, pause_ms, str(error))
