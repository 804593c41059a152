"""Who consumes which queue in order. Pure: the caller says what time it is.

A lock is a lease: its owner renews it by locking again (RocketMQ's client does so every 20 s), and whoever finds it
expired may take it, so a consumer that died holds a queue up for no longer than the lease.
RocketMQ: RebalanceLockManager; spec: semantics, section 8.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.model import MessageQueue


class QueueLock(NamedTuple):
    client_id: str
    renewed_ms: int


class QueueLocks:
    """Per consumer group, the leases on queues. Times are monotonic milliseconds."""

    def __init__(self, *, lease_ms: int) -> None:
        self._lease_ms = lease_ms
        self._groups: dict[str, dict[MessageQueue, QueueLock]] = {}

    def lock(self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int) -> list[MessageQueue]:
        """Takes or renews what it can for `client_id`; returns the queues it now owns, in the order asked for."""
        locks = self._groups.setdefault(group, {})
        owned = [queue for queue in queues if self._is_free_for(client_id, locks.get(queue), now_ms)]
        locks.update((queue, QueueLock(client_id, now_ms)) for queue in owned)
        if not locks:
            del self._groups[group]
        return owned

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Gives up what `client_id` owns of `queues`; what others own is left alone."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

    def expire(self, now_ms: int) -> None:
        """Forgets leases that ran out, so that the table holds no more than what is in use."""
        for group, locks in list(self._groups.items()):
            alive = {queue: lock for queue, lock in locks.items() if not self._has_expired(lock, now_ms)}
            if alive:
                self._groups[group] = alive
            else:
                del self._groups[group]

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def _is_free_for(self, client_id: str, lock: QueueLock | None, now_ms: int) -> bool:
        return lock is None or lock.client_id == client_id or self._has_expired(lock, now_ms)

    def _has_expired(self, lock: QueueLock, now_ms: int) -> bool:
        return now_ms - lock.renewed_ms > self._lease_ms
