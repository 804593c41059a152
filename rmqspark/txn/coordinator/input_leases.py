"""Whether what a batch has read of shared groups was still its query's to read when the batch is decided.

The coordinator renews the leases, in the query's name, when all brokers have voted: who has lost one has read what
another member reads as well, and its batch is refused; who has not keeps it for as long as a lease lasts, in which the
decision is made and the group's offsets move. So a driver that was away does no harm, whatever its tasks have sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import Busy, LeaseLost, RmqError, TransactionError
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GroupLeasesRequestHeader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.txn import InputRange
    from rmqspark.txn.coordinator.peers import Peers

_TIMEOUT_MS: Final = 3_000
_MOST_HOLDERS: Final = 1_000

LeasesHere = Callable[[str, str, int, Mapping[MessageQueue, int]], Collection[MessageQueue]]
"""Renews leases of a run of a group's member on this broker; those that are still its own."""


class _Holder(NamedTuple):
    broker: str
    group: str
    member: str
    run: int


class InputLeases:
    """Asks the brokers that hold the queues; `leases_here` is this one's own table."""

    def __init__(self, own_name: str, leases_here: LeasesHere, peers: Peers) -> None:
        self._own_name = own_name
        self._leases_here = leases_here
        self._peers = peers

    async def lost(self, inputs: Iterable[InputRange]) -> str | None:
        """In words, a queue that was given to somebody else; None if there is none. Busy where it cannot be told.

        Raises TransactionError for inputs of more groups and members than any query has.
        """
        by_holder: dict[_Holder, dict[MessageQueue, int]] = {}
        for each in inputs:
            if each.lease and each.member:
                holder = _Holder(each.brokerName, each.group, each.member, each.leaseRun or 0)
                queue = MessageQueue(each.topic, each.brokerName, each.queueId)
                by_holder.setdefault(holder, {})[queue] = each.lease
        if len(by_holder) > _MOST_HOLDERS:
            raise TransactionError(f"A batch has leases of {_MOST_HOLDERS} groups and brokers at most.")
        listed = await self._peers.listed({holder.broker for holder in by_holder} - {self._own_name})
        for holder in by_holder:
            if holder.broker not in (self._own_name, *listed):
                raise Busy(f"Broker {holder.broker!r} cannot be asked for leases: no name server lists it.")
        kept = await asyncio.gather(*(self._keep(holder, leases) for holder, leases in by_holder.items()))
        for (holder, leases), still in zip(by_holder.items(), kept, strict=True):
            gone = sorted(leases.keys() - still)
            if gone:
                return (
                    f"queue {gone[0]} of the shared group {holder.group!r} is another member's, or another run's, now."
                )
        return None

    async def _keep(self, holder: _Holder, leases: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        if holder.broker == self._own_name:
            return set(self._leases_here(holder.group, holder.member, holder.run, leases))
        header = GroupLeasesRequestHeader(holder.group, holder.member, holder.run)
        body = GroupLeasesBody(keep=[LeasedQueue(*queue, number) for queue, number in leases.items()]).encode()
        try:
            response = await self._peers.call(
                holder.broker, RequestCode.RMQ_GROUP_LEASES, header, body, timeout_ms=_TIMEOUT_MS
            )
        except LeaseLost:
            return set()
        except RmqError as error:
            raise Busy(f"Broker {holder.broker!r} cannot be asked for leases now: {error}") from error
        held = GroupLeasesAnswerBody.decode(response.body).held
        return {MessageQueue(each.topic, each.brokerName, each.queueId) for each in held}
