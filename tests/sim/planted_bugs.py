"""Bugs outside the store, each planted by changing one step of a server, or of the connection, while a test runs.

The product knows nothing of this: a step is one small method, and a bug is another method in its place.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.broker.delays.delayed_messages import DelayedMessages
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.parts import Parts
from rmqspark.broker.pulling.held_pulls import HeldPulls
from rmqspark.broker.pulling.long_poll import ParkedPulls
from rmqspark.broker.replica.replica_waiters import ReplicaWaiters
from rmqspark.broker.safekeeping.flusher import Flusher
from rmqspark.broker.safekeeping.safety import Safety
from rmqspark.broker.shared_groups.group_leases import GroupLeases
from rmqspark.broker.shared_groups.offset_log import OffsetLog
from rmqspark.broker.state import locks
from rmqspark.broker.state.locks import QueueLocks
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.broker.transactions.half_messages import HalfMessages
from rmqspark.client.pushing.process_queue import ProcessQueue
from rmqspark.remoting.pending import PendingCalls
from rmqspark.remoting.receive import FrameReceiver
from rmqspark.remoting.server_connection import ServerConnection
from rmqspark.replication.session import Session
from rmqspark.store.appending.writer import Writer
from rmqspark.store.lineage import FOLLOWING, Lineage
from rmqspark.threads import in_thread
from rmqspark.txn.coordinator.journal import Journal
from rmqspark.txn.half_messages.half_ledger import Outcome
from rmqspark.txn.participant.participant import Participant
from rmqspark.txn.participant.resolver import Resolver

if TYPE_CHECKING:
    import pytest

    from rmqspark.broker.state.locks import QueueLock
    from rmqspark.txn.participant.half_batch import HalfBatch


class PlantedBug(NamedTuple):
    """`seed` is a run that meets it."""

    name: str
    seed: int
    changes: tuple[tuple[Any, str, Any], ...]

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        for change in self.changes:
            patch.setattr(*change)


def _bug(name: str, seed: int, *changes: tuple[Any, str, Any]) -> PlantedBug:
    return PlantedBug(name, seed, changes)


def _nothing(*_args: object, **_kwargs: object) -> None:
    """A step that is left out."""


# --- what is on disk -------------------------------------------------------------------------------------------------


def _dispatch_all(self: Writer) -> None:
    self._dispatcher.advance(self._log.end_offset)


async def _settle_then_sync(self: Flusher, plan: Any) -> None:
    self._store.flusher.finish(plan, None)
    self._settle()
    await in_thread(plan.run)


async def _sync_come_what_may(self: Flusher, plan: Any) -> None:
    with suppress(OSError):
        await in_thread(plan.run)
    self._store.flusher.finish(plan, None)


# --- what is answered to whom ----------------------------------------------------------------------------------------


def _due_never(*_args: object) -> list[Any]:
    return []


_newest: dict[Any, ServerConnection] = {}  # of each server
_send_as_it_is = ServerConnection.send


def _made_as_newest(self: ServerConnection, transport: Any, made: Any = ServerConnection.connection_made) -> None:
    _newest[self._host] = self
    made(self, transport)


def _send_to_newest(self: ServerConnection, buffers: Any) -> None:
    newest = _newest[self._host]
    _send_as_it_is(self if newest.closed else newest, buffers)


def _every_other_opaque(self: PendingCalls) -> int:
    self._opaque = 1 - self._opaque
    return self._opaque


def _keep_rest_in_shared(self: FrameReceiver) -> bool:
    rest = self._end - self._at
    self._shared[:rest] = self._shared[self._at : self._end]
    self._at, self._end = 0, rest
    return rest > 0


def _write_behind_rest(self: FrameReceiver) -> memoryview:
    return self._shared[self._end :]


# --- groups ----------------------------------------------------------------------------------------------------------


def _commit_by_text(self: ConsumerOffsets, group: str, topic: str, queue_id: int, offset: int) -> bool:
    if str(offset) >= str(self.committed(group, topic, queue_id) or ""):
        self._store(group, topic, queue_id, offset)
    return True


def _store_unnoticed(self: ConsumerOffsets, group: str, topic: str, queue_id: int, offset: int) -> None:
    self._committed.setdefault((topic, group), {})[queue_id] = offset


def _kept_whoever_has_it(
    self: QueueLocks, group: str, _client: str, leases: Any, _now_ms: int, _run: int = 0
) -> list[Any]:
    return list(leases)


def _is_of_any_run(lock: QueueLock, client_id: str, _run: int) -> bool:
    return lock.client_id == client_id


# --- slaves ----------------------------------------------------------------------------------------------------------


def _confirmed_unseen(self: ReplicaWaiters, end_offset: int, done: Any) -> None:
    done(None)


def _take_and_confirm(self: Session, transfers: Any, take: Any = Session._take) -> Any:
    if transfers and self._is_joined:
        self._report(transfers[-1].offset + len(transfers[-1].data))
    return take(self, transfers)


def _unnoticed_by_readers(self: Lineage) -> bool:
    was_there = self._files.exists(FOLLOWING)
    if was_there:
        self._files.unlink(FOLLOWING)
        self._files.sync_directory("")
    return was_there


async def _flushed_here_alone(self: Safety, end_offset: int) -> None:
    await self._flusher.flushed(end_offset)


# --- transactions ----------------------------------------------------------------------------------------------------


def _never_completed(self: Participant, batch: Any) -> bool:
    return batch.version < 0


def _take_and_append(self: Resolver, half: HalfBatch, body: Any, take: Any = Resolver.take) -> HalfBatch:
    held: HalfBatch = take(self, half, body)
    batch, partition, attempt, _ = half.name
    completion = self._completer.begin(batch, [(partition, attempt)])
    for _ in self._completer.steps(completion):
        pass
    return held


async def _at_once(_: Journal) -> None:
    """Flushed, it says."""


def _commit_whatever(self: HalfMessages, request: Any, _: Outcome, end: Any = HalfMessages.end) -> int:
    end_offset: int = end(self, request, Outcome.COMMITTED)
    return end_offset


# --- groups of push consumers ----------------------------------------------------------------------------------------


def _free_for_all(*_args: object) -> bool:
    return True


# --- delays ----------------------------------------------------------------------------------------------------------


def _none_delivered(_: Deliveries, _log_offset: int) -> list[int]:
    return []


def _half_as_long(self: DelayedMessages, *parts: Any, begin: Any = DelayedMessages.__init__, **more: Any) -> None:
    begin(self, *parts[:-1], [delay_ms // 2 for delay_ms in parts[-1]], **more)


# --- what expires ----------------------------------------------------------------------------------------------------


def _needed_by_nobody(self: Parts) -> int:
    return self.store.end_offset


BUGS = (
    _bug("readable before it is on disk", 946, (Writer, "dispatch_safe", _dispatch_all)),
    _bug("answered before its fsync", 17, (Flusher, "_carry_out", _settle_then_sync)),
    _bug("error of an fsync swallowed", 402, (Flusher, "_carry_out", _sync_come_what_may)),
    _bug("waiting pull misses its wake-up", 7, (HeldPulls, "_wake", _nothing)),
    _bug("waiting pull is never given up", 7, (ParkedPulls, "due", _due_never)),
    _bug(
        "answered on another connection",
        7,
        (ServerConnection, "connection_made", _made_as_newest),
        (ServerConnection, "send", _send_to_newest),
    ),
    _bug("opaque used again", 7, (PendingCalls, "next_opaque", _every_other_opaque)),
    _bug(
        "rest of a frame left in the shared buffer",
        116,
        (FrameReceiver, "settle", _keep_rest_in_shared),
        (FrameReceiver, "writable", _write_behind_rest),
    ),
    _bug("committed offsets compared as text", 11, (ConsumerOffsets, "commit", _commit_by_text)),
    _bug("committed offsets not written", 531, (ConsumerOffsets, "_store", _store_unnoticed)),
    _bug("sender does not wait for slaves", 7, (ReplicaWaiters, "when_confirmed", _confirmed_unseen)),
    _bug("slave confirms before it writes", 7024, (Session, "_take", _take_and_confirm)),
    _bug("made the master without a word", 50_025, (Lineage, "end_following", _unnoticed_by_readers)),
    _bug("decision answered before a slave has it", 54_066, (Safety, "flushed", _flushed_here_alone)),
    _bug("half batch readable before it is decided", 15, (Resolver, "take", _take_and_append)),
    _bug("version completed twice", 84, (Participant, "is_completed", _never_completed)),
    _bug("decision answered before it is on disk", 140, (Journal, "flushed", _at_once)),
    _bug("half message committed that was rolled back", 72, (HalfMessages, "end", _commit_whatever)),
    _bug("locks of queues are anybody's", 3732, (QueueLocks, "_is_free_for", _free_for_all)),
    _bug(
        "committed what is not consumed yet",
        835,
        (ProcessQueue, "commit_offset", property(lambda held: held.next_offset)),
    ),
    _bug("lease answered before it is on disk", 60_179, (GroupLeases, "is_safe", True)),
    _bug("how far a shared group is only in the table", 60_179, (OffsetLog, "_write", _nothing)),
    _bug("committed under a lease that ran out", 60_243, (QueueLocks, "keep", _kept_whoever_has_it)),
    _bug(
        "lease used by a run that another has followed",
        60_243,
        (QueueLocks, "check_run", _nothing),
        (locks, "_is_own", _is_of_any_run),
    ),
    _bug("leases forgotten by a start", 60_179, (QueueLocks, "load", _nothing)),
    _bug("delivered again after a crash", 205, (Deliveries, "sources_from", _none_delivered)),
    _bug("delayed for half of its time", 231, (DelayedMessages, "__init__", _half_as_long)),
    _bug("expired while it waits for its time", 47_116, (Parts, "needed_offset", _needed_by_nobody)),
)
