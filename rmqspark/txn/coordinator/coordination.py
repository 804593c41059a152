"""Everything a broker needs to coordinate, lined up: ledger → journal → owners, rollout → coordinator, rounds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import FlushSlaveTimeout, FlushTimeout, RmqError, SlaveNotAvailable, TransactionError
from rmqspark.protocol.bodies.txn import TxnDecision
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import TxnOutcome, TxnStatusRequestHeader, TxnStatusResponseHeader
from rmqspark.protocol.names import MAX_TRANSACTIONAL_ID_LENGTH
from rmqspark.txn.coordinator.coordinator import Coordinator, Ruling
from rmqspark.txn.coordinator.events import InputReported, PeerSeen
from rmqspark.txn.coordinator.following import Following
from rmqspark.txn.coordinator.input_leases import InputLeases
from rmqspark.txn.coordinator.input_offsets import InputOffsets
from rmqspark.txn.coordinator.inputs import InputReports
from rmqspark.txn.coordinator.journal import Journal
from rmqspark.txn.coordinator.ledger import MAX_PEERS, Answer, Ledger
from rmqspark.txn.coordinator.owners import Owners
from rmqspark.txn.coordinator.remote_participant import RemoteParticipant
from rmqspark.txn.coordinator.report import Reports
from rmqspark.txn.coordinator.rollout import Rollout
from rmqspark.txn.coordinator.rounds import Rounds
from rmqspark.txn.coordinator.uptime import Uptime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

    from rmqspark.clock import Clock
    from rmqspark.model import MessageQueue
    from rmqspark.protocol.bodies.client import LeasedQueue
    from rmqspark.store.files import FileSystem
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.coordinator.events import Event
    from rmqspark.txn.coordinator.input_leases import LeasesHere
    from rmqspark.txn.coordinator.input_offsets import CommitHere
    from rmqspark.txn.coordinator.journal import Append
    from rmqspark.txn.coordinator.peers import Peers
    from rmqspark.txn.ports import ParticipantHere, ParticipantPort

_PEERS_INTERVAL_MS: Final = 30_000
_OTHERS_INTERVAL_MS: Final = 5_000
_STATUS_TIMEOUT_MS: Final = 10_000

log = structlog.get_logger("rmqspark.txn")


@dataclass(frozen=True)
class CoordinationConfig:
    """What a coordinator can be told. Times in ms."""

    max_open_ms: int  # of uptime: a version of which no attempt was heard for so long is closed
    expiration_ms: int  # of uptime: an id that nobody has used for so long is forgotten
    max_decision_bytes: int  # with all its output ranges
    restate_after_bytes: int


class Coordination:
    """A coordinator with all its parts. Its ledger is replayed when it is made; raises DamagedFile for one that cannot
    be read."""

    def __init__(
        self,
        config: CoordinationConfig,
        store: MessageStore,
        files: FileSystem,
        clock: Clock,
        *,
        peers: Peers,
        append: Append,
        flush_to: Callable[[int], Awaitable[None]],
        participant_here: ParticipantHere,
        commit_here: CommitHere,
        leases_here: LeasesHere,
    ) -> None:
        self._config = config
        self._clock = clock
        self._here = participant_here
        self._peers_due_ms = clock.monotonic_ms()
        self._others_due_ms = clock.monotonic_ms() + _OTHERS_INTERVAL_MS
        self._looking: asyncio.Task[None] | None = None
        self._leaves_brokers_out = False
        self.ledger = Ledger()
        self.inputs = InputReports(max_event_bytes=config.max_decision_bytes)
        self.peers = peers
        self._offsets = InputOffsets(commit_here, leases_here.make_safe, peers)
        self.journal = Journal(
            store,
            files,
            clock,
            append=append,
            flush_to=flush_to,
            apply=self._apply,
            max_decision_bytes=config.max_decision_bytes,
            restate_after_bytes=config.restate_after_bytes,
        )
        self.owners = Owners(self.ledger, peers, participant_here.remembered)
        self.following = following = Following(InputLeases(leases_here, peers), self._offsets)
        self.rollout = Rollout(self.ledger, self._participant, clock, self.journal.flushed, following.is_done)
        self.journal.replay()
        self.ledger.start()
        self.uptime = Uptime(clock, self.ledger.uptime_ms)
        self.coordinator = Coordinator(
            self.ledger,
            self.journal,
            self.owners,
            self.rollout,
            self._participant,
            following,
            clock,
            self.uptime,
        )
        self.rounds = Rounds(
            self.ledger, self.journal, self.rollout, following, self.coordinator.turns, clock, self.uptime
        )
        self.reports = Reports(peers.own_name, self.ledger, self.journal.queue, self.rollout, self.uptime)
        for pending in (pending for txn in self.ledger for pending in txn.pending):
            following.note_again(pending.decision)

    @property
    def needed_offset(self) -> int:
        """Physical offset from which on the log must be kept for the ledger."""
        return self.journal.start.needed_offset

    async def tick(self) -> None:
        """A round of everything that no request asks for, about once a second. Raises what the disk raises: what comes
        last writes here, and is refused on a full disk."""
        await self.journal.restate(self._alive)  # it has room there, and lets files go
        if self._clock.monotonic_ms() >= self._peers_due_ms:
            await self._look_around()
        if self._clock.monotonic_ms() >= self._others_due_ms and (self._looking is None or self._looking.done()):
            self._others_due_ms = self._clock.monotonic_ms() + _OTHERS_INTERVAL_MS
            self._looking = asyncio.create_task(self.owners.look_for_others())  # a broker that hangs holds up no round
        if len(self._offsets):
            await self._move()
        await self.rounds.complete_pending()
        self.rounds.close_overdue(self._config.max_open_ms)
        self.rounds.forget_disused(self._config.expiration_ms)

    async def status_of(self, transactional_id: str, epoch: int, version: int) -> Ruling:
        """A participant's question, to whichever broker coordinates the id. UNKNOWN while that cannot be told.

        Raises what the way there raises.
        """
        ruling = await self.coordinator.status(transactional_id, epoch, version, fence=False)
        if ruling.coordinator is None:
            return ruling
        header = TxnStatusRequestHeader(transactional_id, epoch, version, fence=False)
        response = await self.peers.call(
            ruling.coordinator, RequestCode.RMQ_TXN_STATUS, header, timeout_ms=_STATUS_TIMEOUT_MS
        )
        told = response.header(TxnStatusResponseHeader)
        if told.outcome not in (TxnOutcome.COMMITTED, TxnOutcome.FENCED):
            return Ruling(Answer(TxnOutcome.UNKNOWN, told.epoch))
        decision = TxnDecision.decode(response.body) if response.body else None
        return Ruling(Answer(TxnOutcome(told.outcome), told.epoch, told.lastVersion, decision))

    async def group_offsets(self, group: str, queues: Collection[MessageQueue]) -> list[LeasedQueue]:
        """Where a group goes on behind what was decided here, in those of these queues of a broker to which
        that was not said yet. Raises Busy while it is being decided, and what keeps decisions from being safe."""
        await self.journal.flushed()
        return self.following.wanted(group, queues)

    def note_broker(self, name: str) -> None:
        """Remembers a broker that has been heard of. Raises NotWritable, TransactionError for one too many."""
        if name == self.peers.own_name or name in self.ledger.peers:
            return
        known = self.ledger.peers.keys() - self.peers.retired
        if len(known) >= MAX_PEERS or not 0 < len(name) <= MAX_TRANSACTIONAL_ID_LENGTH:
            raise TransactionError(f"Broker {name[:32]!r} is not one of this cluster, or one too many.")
        self.journal.record([PeerSeen(name)])

    async def meet(self, name: str) -> None:
        """Remembers a broker that is to be asked something later, once. Raises as `remember_broker`."""
        if name != self.peers.own_name and name not in self.ledger.peers:
            await self.remember_broker(name)

    async def remember_broker(self, name: str) -> None:
        """The same, of one that asks who owns an id, and may own it next: on the disk when this returns, so that this
        broker never takes the id without asking that one. A slave that follows this one asks name servers, too: that it
        has it is not waited for. TransactionError for one that no name server knows, too."""
        if name != self.peers.own_name and name not in self.ledger.peers:
            await self.peers.refresh()
            if name not in self.peers.names():
                raise TransactionError(f"Broker {name[:32]!r} is not one of this cluster, as its name servers know it.")
            self.note_broker(name)
        with suppress(SlaveNotAvailable, FlushSlaveTimeout):
            await self.journal.flushed()

    async def close(self) -> None:
        """Ends what goes on beside the requests, and all connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self.rounds.close()
        await self.peers.close()

    async def _move(self) -> None:
        """Has groups go on where they could not at once, if what was decided is as safe as promised: a slave that is
        made the master may know of no such decision, and nobody would read again what it was about."""
        with suppress(FlushTimeout):
            await self.journal.flushed()
            await self._offsets.move()

    async def _look_around(self) -> None:
        """Remembers every broker ever seen, as far as there is room: it may own an id (see `owners`). One that is left
        out can own none from now on, for this broker does not answer when it asks around."""
        self._peers_due_ms = self._clock.monotonic_ms() + _PEERS_INTERVAL_MS
        await self.peers.refresh()
        refusal = None
        for name in self.peers.names():
            try:
                self.note_broker(name)
            except RmqError as error:
                refusal = error
        if refusal is not None and not self._leaves_brokers_out:
            log.warning("brokers seen could not be noted", reason=str(refusal))
        self._leaves_brokers_out = refusal is not None

    def _participant(self, broker: str) -> ParticipantPort:
        return self._here if broker == self.peers.own_name else RemoteParticipant(broker, self.peers)

    def _apply(self, event: Event) -> None:
        if isinstance(event, InputReported):
            self.inputs.apply(event)
        else:
            self.ledger.apply(event)

    def _alive(self) -> Iterable[Callable[[], Sequence[Event]]]:
        """All there is to restate: each gives its events when it is asked, none if it has gone meanwhile."""
        brokers = [PeerSeen(name) for name in (self.peers.own_name, *self.ledger.peers)]
        yield lambda: brokers
        for txn in self.ledger:
            yield partial(self.ledger.restated, txn.transactional_id)
        for query_id in self.inputs:
            yield partial(self.inputs.restated, query_id)
