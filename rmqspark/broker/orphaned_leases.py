"""Leases of shared groups that ran out, before anybody else is given their queues.

A driver may have died just after its last batch was decided, and the coordinator's broker before it could say so here,
or it is cut off. The next member would begin where the group was before, and write that batch once more. So a broker
asks whoever has decided under a lease (`locks` remembers it) where the group goes on, and until that one has answered
the queue is nobody's. One that is gone for good is an operator's to name (`retired_brokers`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import NotSupported, RmqError
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueue, LeasedQueues
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import TxnGroupOffsetsRequestHeader

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rmqspark.broker.offset_log import OffsetLog
    from rmqspark.broker.offsets import ConsumerOffsets
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.txn.coordinator.peers import Peers

_TIMEOUT_MS: Final = 3_000
_QUEUES_OF_A_REQUEST: Final = 1_000

log = structlog.get_logger("rmqspark.broker")


class OrphanedLeases:
    """`unasked` are the brokers that nobody waits for: those that are gone for good, and this one itself."""

    def __init__(
        self, tables: BrokerTables, offset_log: OffsetLog, peers: Peers, clock: Clock, *, unasked: Collection[str]
    ) -> None:
        self._locks = tables.locks
        self._offsets: ConsumerOffsets = tables.offsets
        self._offset_log = offset_log
        self._peers = peers
        self._clock = clock
        self._unasked = frozenset(unasked)
        self._silent: dict[str, str] = {}

    async def run_round(self) -> None:
        """Asks each coordinator once, as far as it answers. To be called about once a second."""
        orphans = self._locks.orphans(self._clock.monotonic_ms())
        for coordinator, by_group in orphans.items():
            try:
                for group, leases in by_group.items():
                    await self._settle(coordinator, group, leases)
            except RmqError as error:
                self._tell(coordinator, by_group, error)
            else:
                self._silent.pop(coordinator, None)
        self._silent = {name: story for name, story in self._silent.items() if name in orphans}

    async def _settle(self, coordinator: str, group: str, leases: Mapping[MessageQueue, int]) -> None:
        left = iter(leases.items())
        while piece := dict(islice(left, _QUEUES_OF_A_REQUEST)):
            if coordinator not in self._unasked:
                self._move(group, await self._ask(coordinator, group, piece))
            self._locks.settle(group, piece, self._clock.monotonic_ms())

    async def _ask(self, coordinator: str, group: str, leases: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        header, body = TxnGroupOffsetsRequestHeader(group), LeasedQueues([LeasedQueue(*queue) for queue in leases])
        try:
            answer = await self._peers.call(
                coordinator, RequestCode.RMQ_TXN_GROUP_OFFSETS, header, body.encode(), timeout_ms=_TIMEOUT_MS
            )
        except NotSupported:  # of an earlier version
            return {}
        told = LeasedQueues.decode(answer.body).queues
        places = {MessageQueue(each.topic, each.brokerName, each.queueId): each.offset for each in told}
        return {queue: offset for queue, offset in places.items() if queue in leases}

    def _move(self, group: str, places: Mapping[MessageQueue, int]) -> None:
        """Never back: the owner itself may have said more."""
        behind = {
            queue: offset
            for queue, offset in places.items()
            if (self._offsets.committed(group, queue.topic, queue.queue_id) or 0) < offset
        }
        self._offset_log.commit(group, behind)

    def _tell(self, coordinator: str, by_group: Mapping[str, Collection[MessageQueue]], error: RmqError) -> None:
        if self._silent.get(coordinator) != error.message:
            log.warning(
                "queues of shared groups wait for a broker that may have decided what was read of them",
                coordinator=coordinator,
                groups=sorted(by_group)[:8],
                reason=error.message,
                hint="Start it again. If it is gone for good, name it in retired_brokers.",
            )
        self._silent[coordinator] = error.message
