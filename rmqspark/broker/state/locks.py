"""Who consumes which queue in order. Pure: the caller says what time it is.

A lock is a lease: its owner renews it by locking again (RocketMQ's client does so every 20 s), and whoever finds it
expired may take it, so a consumer that died holds a queue up for no longer than the lease.
RocketMQ: RebalanceLockManager; spec: semantics, section 8.8.

Queries that share a group need more than an orderly consumer, and get it in the same table, so that the two respect
each other. Their leases are numbered: a number is given out once, so an owner that was away can tell whether anybody
else had the queue meanwhile. And they are remembered, over a restart of the broker too, until somebody else takes the
queue: its last owner may come back, however late, and go on. It comes back as another run of the query, under the same
client id. Runs are numbered, too, as they begin, and a lease belongs to the latest one that asked for it: an earlier
one that was paused, and wakes, can neither use it nor give it up.

What was read under a lease a broker may have decided, as the coordinator of its query's transactions, and not have said
so yet. So a lease remembers the broker that is about to decide, until it has said where the group goes on. One that
runs out before that is nobody else's until it was asked (`orphaned_leases`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import Busy, LeaseLost
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import QueueLease, QueueLeaseTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MAX_LOCKS: Final = 300_000
"""Of all groups together: a lease is remembered for days, and all of them are written with every change."""
_TERM_BITS: Final = 40  # so many numbers are there for the leases and runs of one master, until another takes its place
LEASE_MEMORY_MS: Final = 7 * 24 * 3_600_000
"""How long a lease that ran out is remembered for its last owner."""


class QueueLock(NamedTuple):
    client_id: str
    renewed_ms: int
    number: int = 0  # of a lease that is remembered; 0 is RocketMQ's lock
    run: int = 0  # of the client that has the lease
    coordinator: str = ""  # a broker that may have decided what was read under it
    has_said: bool = False  # where the group goes on behind that. Not remembered: it is asked once more then

    @property
    def is_awaited(self) -> bool:
        """Whether the coordinator's word is still to come."""
        return bool(self.coordinator) and not self.has_said


class QueueLocks:
    """Per consumer group, the leases on queues, `MAX_LOCKS` at most. Times are monotonic milliseconds."""

    def __init__(self, *, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.revision = 0  # moves with every change that a restart must remember
        self._last_number = 0
        self._groups: dict[str, dict[MessageQueue, QueueLock]] = {}
        self._trusted: set[str] = set()  # groups, in this term

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Takes or renews what it can for `client_id`; returns the queues it now owns, in the order asked for.

        Raises Busy where there is no room for so many.
        """
        queues = list(queues)
        self._check_room(group, queues)
        locks = self._groups.setdefault(group, {})
        owned = [queue for queue in queues if self._is_free_for(client_id, locks.get(queue), now_ms)]
        for queue in owned:
            known = locks.get(queue)
            if known is not None and known.client_id == client_id:
                locks[queue] = known._replace(renewed_ms=now_ms)
                continue
            locks[queue] = QueueLock(client_id, now_ms)
            self.revision += known is not None and known.number > 0
        if not locks:
            del self._groups[group]
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Gives up what `client_id` owns of `queues`; what others own is left alone."""
        locks = self._groups.get(group, {})
        self._end(group, [q for q in {*queues} if (lock := locks.get(q)) is not None and lock.client_id == client_id])

    def has_live(self, group: str, now_ms: int) -> bool:
        """Whether a member of the group that consumes in order owns any queue; leases of queries do not count."""
        locks = self._groups.get(group, {}).values()
        return any(not lock.number and not self._has_expired(lock, now_ms) for lock in locks)

    def forget_topics(self, topics: Collection[str]) -> None:
        """Ends all that is held of them: the next one of a name has other messages in queues called the same."""
        for group, locks in list(self._groups.items()):
            self._end(group, [queue for queue in locks if queue.topic in topics])

    def forget_group(self, group: str) -> None:
        """Ends all that a group holds: the next one of the name has other members, and offsets of its own."""
        self._end(group, list(self._groups.get(group, ())))
        self._trusted.discard(group)

    def begin_term(self, successions: int) -> None:
        """To be called at each start as the master: leases and runs of a term before, after which other brokers of the
        name may have been the master, are nobody's, and no number is given out that another may have given out. Nor is
        it known any more who has still to say where a group goes on (`is_trusted`)."""
        first = successions << _TERM_BITS
        if self._last_number < first:
            self._last_number = first
            self._trusted.clear()
        for group, locks in list(self._groups.items()):
            self._end(group, [queue for queue, lock in locks.items() if lock.number >> _TERM_BITS < successions])

    def is_trusted(self, group: str) -> bool:
        """Whether a group is at least where brokers have decided, but for leases that remember who has still to say so:
        in a term that follows another one not before all have been asked."""
        return not self._last_number >> _TERM_BITS or group in self._trusted

    def trust(self, group: str) -> None:
        """All have been asked, or there is nothing to be asked about."""
        self.revision += group not in self._trusted
        self._trusted.add(group)

    # --- leases of queries -------------------------------------------------------------------------------------------

    def begin_run(self) -> int:
        """The number of a run that begins: above those of all that have begun here before."""
        self._last_number += 1
        self.revision += 1
        return self._last_number

    def check_run(self, group: str, client_id: str, run: int, queues: Iterable[MessageQueue]) -> None:
        """Raises LeaseLost for a run that was never given a number, and where a later one of the client has taken over
        one of these queues."""
        if not 0 < run <= self._last_number:
            raise LeaseLost(f"This broker knows nothing of run {run} of {client_id!r}.", hint="Start the query again.")
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id and lock.run > run:
                raise LeaseLost(
                    f"Queue {queue} was taken over by a later run of this query ({client_id}, group {group!r}).",
                    hint="Let that one go on. This one reads no more of it.",
                )

    def take(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int, run: int = 0
    ) -> dict[MessageQueue, int]:
        """Leases what it can to this run of `client_id`; returns their numbers. Who was the last owner keeps its own.

        Raises Busy where there is no room for so many.
        """
        queues = list(queues)
        self._check_room(group, queues)
        locks = self._groups.setdefault(group, {})
        numbers = {}
        for queue in queues:
            lock = locks.get(queue)
            if not self._is_free_for(client_id, lock, now_ms, run):
                continue
            if lock is None or not lock.number or not _is_own(lock, client_id, run):
                self._last_number += 1
                lock = QueueLock(client_id, now_ms, self._last_number)
                self.revision += 1
            self.revision += lock.run != run
            locks[queue] = lock._replace(renewed_ms=now_ms, run=run)
            numbers[queue] = lock.number
        if not locks:
            del self._groups[group]
        return numbers

    def of_earlier_runs(self, group: str, run: int, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Those of these queues that are leased to a run before this one."""
        locks = self._groups.get(group, {})
        return {queue for queue in queues if (lock := locks.get(queue)) is not None and lock.run < run}

    def keep(
        self, group: str, client_id: str, leases: Mapping[MessageQueue, int], now_ms: int, run: int = 0
    ) -> list[MessageQueue]:
        """Renews these leases; returns those that are still its own. One that ran out is, if nobody took the queue, and
        so is an earlier run's, which is taken over."""
        locks = self._groups.get(group, {})
        kept = {
            queue: lock._replace(renewed_ms=now_ms, run=run)
            for queue, number in leases.items()
            if (lock := locks.get(queue)) is not None and lock.number == number and _is_own(lock, client_id, run)
        }
        self._update(locks, kept)
        return list(kept)

    def await_word(
        self, group: str, queues: Iterable[MessageQueue], coordinator: str, said: Collection[MessageQueue] = ()
    ) -> None:
        """A broker is about to decide what was read under the leases on these queues, or, in those of them, says where
        the group goes on behind that."""
        locks = self._groups.get(group, {})
        waiting = {
            queue: lock._replace(coordinator=coordinator, has_said=queue in said)
            for queue in queues
            if (lock := locks.get(queue)) is not None
        }
        self._update(locks, waiting)

    def _update(self, locks: dict[MessageQueue, QueueLock], changed: dict[MessageQueue, QueueLock]) -> None:
        self.revision += any(_remembered(locks[queue]) != _remembered(lock) for queue, lock in changed.items())
        locks.update(changed)

    def orphans(self, now_ms: int) -> dict[str, dict[str, dict[MessageQueue, QueueLock]]]:
        """The leases that ran out of which a broker has still to say where the group goes on: by that broker, group and
        queue."""
        found: dict[str, dict[str, dict[MessageQueue, QueueLock]]] = {}
        for group, locks in self._groups.items():
            for queue, lock in locks.items():
                if lock.is_awaited and self._has_expired(lock, now_ms):
                    found.setdefault(lock.coordinator, {}).setdefault(group, {})[queue] = lock
        return found

    def settle(self, group: str, leases: Mapping[MessageQueue, QueueLock]) -> None:
        """It has said so: from now on anybody may have these queues, but for those that their owner came back to."""
        locks = self._groups.get(group, {})
        for queue, lock in leases.items():
            if locks.get(queue) == lock:
                locks[queue] = lock._replace(coordinator="")
                self.revision += 1

    def table(self) -> QueueLeaseTable:
        """The leases, in the form of config/queueLeases.json."""
        leases = [
            QueueLease(group, *queue, lock.client_id, lock.number, lock.run, lock.coordinator)
            for group, locks in self._groups.items()
            for queue, lock in locks.items()
            if lock.number
        ]
        return QueueLeaseTable(self._last_number, leases, trustedGroups=sorted(self._trusted))

    def load(self, table: QueueLeaseTable, now_ms: int) -> None:
        """Takes over a stored table. Every owner has the time of one lease to be heard of again."""
        in_term = (lease.group for lease in table.leases if lease.number >> _TERM_BITS)
        self._trusted = {*table.trustedGroups, *in_term}
        self._last_number = max([table.lastNumber, *(max(lease.number, lease.run) for lease in table.leases)])
        for lease in table.leases:
            queue = MessageQueue(lease.topic, lease.brokerName, lease.queueId)
            lock = QueueLock(lease.clientId, now_ms, lease.number, lease.run, lease.coordinator)
            self._groups.setdefault(lease.group, {})[queue] = lock

    # --- time --------------------------------------------------------------------------------------------------------

    def expire(self, now_ms: int) -> None:
        """Forgets leases that ran out, so that the table holds no more than what is in use."""
        for group, locks in list(self._groups.items()):
            self._end(group, [queue for queue, lock in locks.items() if self._may_be_forgotten(lock, now_ms)])

    def _end(self, group: str, gone: Iterable[MessageQueue]) -> None:
        """Of the queues that the group holds these are nobody's any more."""
        locks = self._groups.get(group, {})
        for queue in gone:
            self.revision += locks.pop(queue).number > 0
        if not locks:
            self._groups.pop(group, None)

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def _check_room(self, group: str, queues: Collection[MessageQueue]) -> None:
        known = self._groups.get(group, {})
        if len(self) + sum(queue not in known for queue in queues) > MAX_LOCKS:
            raise Busy(f"{len(self)} queues are locked or leased on this broker; there is no room for more.")

    def _is_free_for(self, client_id: str, lock: QueueLock | None, now_ms: int, run: int = 0) -> bool:
        if lock is None or _is_own(lock, client_id, run):
            return True
        return self._has_expired(lock, now_ms) and not lock.is_awaited

    def _has_expired(self, lock: QueueLock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self.lease_ms

    def _may_be_forgotten(self, lock: QueueLock, now_ms: int) -> bool:
        after_ms = max(self.lease_ms, LEASE_MEMORY_MS if lock.number else 0)
        return now_ms - lock.renewed_ms > after_ms and not lock.is_awaited


def _remembered(lock: QueueLock) -> QueueLock:
    """What a restart is to know of it."""
    return lock._replace(renewed_ms=0, has_said=False)


def _is_own(lock: QueueLock, client_id: str, run: int) -> bool:
    """Whether it is this run's to have: a later run of its client has it as its own."""
    return lock.client_id == client_id and lock.run <= run
