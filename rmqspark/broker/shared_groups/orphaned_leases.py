"""Leases of shared groups that ran out, before anybody else is given their queues.

A driver may have died just after its last batch was decided, and the coordinator's broker before it could say so here,
or it is cut off, or waits for its slave. The next member would begin where the group was before, and write that batch
once more. So whoever may have decided under a lease (`locks` remembers it) is asked where the group goes on, and until
it has answered the queue is nobody's. A slave that was made the master does not know who that is, and asks all brokers
before it gives queues of a group away. One that is gone for good is an operator's to name (`retired_brokers`).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import FlushTimeout, NotSupported, RequestTimeout, RmqError, TopicRemade, Unreachable
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueue, LeasedQueues
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.txn import TxnGroupOffsetsRequestHeader, TxnGroupOffsetsResponseHeader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from rmqspark.broker.shared_groups.group_leases import GroupLeases
    from rmqspark.broker.state.locks import QueueLock
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.coordinator.peers import Peers

_TIMEOUT_MS: Final = 3_000
_QUEUES_OF_A_REQUEST: Final = 1_000
_NAME_SERVERS: Final = "the name servers, which know all brokers"
_AWAY: Final = "Start it again. If it is gone for good, name it in retired_brokers."
_WRONG_VERSION: Final = "Start the version of rmqspark there again that decided: what runs there now cannot say it."

log = structlog.get_logger("rmqspark.broker")


class OrphanedLeases:
    """Frees the queues of such leases once it is known where their groups go on. `seen` names all brokers that may have
    decided something; `decided_here` says of this one what others are asked for."""

    def __init__(
        self,
        store: MessageStore,
        tables: BrokerTables,
        leases: GroupLeases,
        peers: Peers,
        seen: Callable[[], Iterable[str]],
        decided_here: Callable[[str, Collection[MessageQueue]], Awaitable[list[LeasedQueue]]],
        clock: Clock,
    ) -> None:
        self._deletions = store.deletions
        self._locks = tables.locks
        self._leases = leases
        self._peers = peers
        self._seen = seen
        self._decided_here = decided_here
        self._clock = clock
        self._waiting: dict[tuple[str, str], str] = {}  # why, by coordinator and group

    async def run_round(self) -> None:
        """Asks all coordinators at once, each about one group after the other. To be called about once a second."""
        orphans = self._locks.orphans(self._clock.monotonic_ms())
        doubted = list(self._leases.doubted)
        is_listed = not doubted or await self._peers.refresh()
        named = {(coordinator, group) for coordinator, groups in orphans.items() for group in groups}
        self._waiting = {key: story for key, story in self._waiting.items() if key in named or key[1] in doubted}
        asking = [self._settle_all(coordinator, groups) for coordinator, groups in orphans.items()]
        ask = self._ask_everybody if is_listed else self._wait_for_list
        await asyncio.gather(*asking, *map(ask, doubted))

    async def _settle_all(self, coordinator: str, groups: Mapping[str, Mapping[MessageQueue, QueueLock]]) -> None:
        """One that is silent, or waits for its disk, is asked no more in this round: each group would take seconds."""
        silence: RmqError | None = None
        for group, leases in groups.items():
            try:
                if silence is not None:
                    raise silence
                await self._settle(coordinator, group, leases)
            except RmqError as error:
                self._tell(coordinator, group, error)
                silence = error if isinstance(error, Unreachable | RequestTimeout | FlushTimeout) else None

    async def _ask_everybody(self, group: str) -> None:
        """One of another kind has decided nothing of ours."""
        for broker in self._seen():
            left = iter(self._leases.places(group))
            try:
                while piece := list(islice(left, _QUEUES_OF_A_REQUEST)):
                    self._move(group, await self._ask(broker, group, piece))
            except NotSupported:
                continue
            except RmqError as error:
                self._tell(broker, group, error)
                return
        self._leases.trust(group)

    async def _wait_for_list(self, group: str) -> None:
        """A broker that nobody names cannot be asked."""
        silence = Unreachable("No name server answers.", address=_NAME_SERVERS)
        self._tell(_NAME_SERVERS, group, silence, "Is a name server running? Ask rmq doctor.")

    async def _settle(self, coordinator: str, group: str, leases: Mapping[MessageQueue, QueueLock]) -> None:
        left = iter(leases.items())
        while piece := dict(islice(left, _QUEUES_OF_A_REQUEST)):
            if coordinator not in self._peers.retired:
                self._move(group, await self._ask(coordinator, group, piece))
            self._locks.settle(group, piece)

    async def _ask(self, coordinator: str, group: str, queues: Collection[MessageQueue]) -> list[LeasedQueue]:
        if coordinator == self._peers.own_name:
            return await self._decided_here(group, queues)
        header, body = TxnGroupOffsetsRequestHeader(group), LeasedQueues([LeasedQueue(*queue) for queue in queues])
        answer = await self._peers.call(
            coordinator, RequestCode.RMQ_TXN_GROUP_OFFSETS, header, body.encode(), timeout_ms=_TIMEOUT_MS
        )
        name = answer.header(TxnGroupOffsetsResponseHeader).brokerName
        if name != coordinator:
            raise Unreachable(f"Broker {name!r} answers where {coordinator!r} was.", address=coordinator)
        told = LeasedQueues.decode(answer.body).queues
        return [each for each in told if (each.topic, each.brokerName, each.queueId) in queues]

    def _move(self, group: str, told: Iterable[LeasedQueue]) -> None:
        """Never back, for the owner itself may have said more; nor in a topic that was made anew since."""
        for each in told:
            with suppress(TopicRemade):
                self._deletions.require_not_remade(each.topic, each.topicDeleted)
                self._leases.follow(group, {MessageQueue(each.topic, each.brokerName, each.queueId): each.offset})

    def _tell(self, coordinator: str, group: str, error: RmqError, hint: str | None = None) -> None:
        if self._waiting.get((coordinator, group)) != error.message:
            log.warning(
                "queues of a shared group wait for a broker that may have decided what was read of them",
                coordinator=coordinator,
                group=group,
                reason=error.message,
                hint=hint or (_WRONG_VERSION if isinstance(error, NotSupported) else _AWAY),
            )
        self._waiting[coordinator, group] = error.message
