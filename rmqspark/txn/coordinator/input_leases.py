"""Whether what a batch has read of shared groups was still its query's to read when the batch is decided; and where its
groups go on then.

The coordinator renews the leases, in the query's name, when all brokers have voted: who has lost one has read what
another member reads as well, and its batch is refused; who has not keeps it for as long as a lease lasts, in which the
decision is made and the group's offsets move, under the same leases. So a driver that was away does no harm, whatever
its tasks have sent. The brokers remember who has asked: should that one be cut off from them between the two, until
leases have run out, they ask it before anybody else gets a queue (`orphaned_leases` of the broker).
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqspark.errors import Busy, LeaseLost, RmqError, TransactionError
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GroupLeasesRequestHeader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqspark.protocol.bodies.txn import InputRange
    from rmqspark.txn.coordinator.peers import Peers

_TIMEOUT_MS: Final = 3_000
_MOST_HOLDERS: Final = 1_000


class LeasesHere(Protocol):
    """This broker's own."""

    def keep(
        self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue], coordinator: str
    ) -> list[LeasedQueue]:
        """Renews leases of a run of a group's member, and commits offsets above -1; those that are still its own. The
        coordinator is remembered until it commits."""

    async def make_safe(self) -> None:
        """Returns when what was committed is there to stay. Raises NotWritable."""


class _Holder(NamedTuple):
    broker: str
    group: str
    member: str
    run: int


class _Read(NamedTuple):
    """Of a queue: under which lease, and up to where."""

    lease: int
    end: int


class InputLeases:
    """Asks the brokers that hold the queues; `here` has those of this one."""

    def __init__(self, here: LeasesHere, peers: Peers) -> None:
        self._own_name = peers.own_name
        self._here = here
        self._peers = peers
        self._asked: Counter[tuple[str, MessageQueue]] = Counter()

    def are_asked(self, group: str, queues: Iterable[MessageQueue]) -> bool:
        """Whether a batch that has read any of these queues for the group may be decided as soon as is known whose they
        are."""
        return any((group, queue) in self._asked for queue in queues)

    async def lost(self, inputs: Iterable[InputRange], *, are_followed: bool = True) -> str | None:
        """In words, a queue that was given to somebody else; None if there is none. Busy where it cannot be told.

        Nobody waits for this broker's word where no group is to follow what is decided. Raises TransactionError for
        inputs of more groups and members than any query has.
        """
        by_holder = _by_holder(inputs)
        if len(by_holder) > _MOST_HOLDERS:
            raise TransactionError(f"A batch has leases of {_MOST_HOLDERS} groups and brokers at most.")
        asked = Counter((holder.group, queue) for holder, read in by_holder.items() for queue in read)
        self._asked += asked
        try:
            return await self._lost(by_holder, self._own_name if are_followed else "")
        finally:
            self._asked -= asked

    async def _lost(self, by_holder: Mapping[_Holder, Mapping[MessageQueue, _Read]], coordinator: str) -> str | None:
        listed = await self._peers.listed({holder.broker for holder in by_holder} - {self._own_name})
        for holder in by_holder:
            if holder.broker not in (self._own_name, *listed):
                raise Busy(f"Broker {holder.broker!r} cannot be asked for leases: no name server lists it.")
        kept = await asyncio.gather(
            *(
                self._keep(holder, [LeasedQueue(*queue, each.lease) for queue, each in read.items()], coordinator)
                for holder, read in by_holder.items()
            )
        )
        for (holder, read), still in zip(by_holder.items(), kept, strict=True):
            gone = sorted(read.keys() - still)
            if gone:
                return (
                    f"queue {gone[0]} of the shared group {holder.group!r} is another member's, or another run's, now."
                )
        return None

    async def commit(self, inputs: Sequence[InputRange]) -> list[InputRange]:
        """Has groups go on behind these ranges, which is safe where they were read when this returns. What is left to
        be said another way: of brokers that do not answer now, of leases lost meanwhile, and what was read under none.
        """
        by_holder = _by_holder(inputs)
        done = await asyncio.gather(*(self._commit(holder, read) for holder, read in by_holder.items()))
        moved = {(holder.group, queue) for holder, queues in zip(by_holder, done, strict=True) for queue in queues}
        return [each for each in inputs if (each.group, _queue(each)) not in moved]

    async def _commit(self, holder: _Holder, read: Mapping[MessageQueue, _Read]) -> set[MessageQueue]:
        try:
            wanted = [LeasedQueue(*queue, *each) for queue, each in read.items()]
            moved = await self._keep(holder, wanted, self._own_name)
            if holder.broker == self._own_name:
                await self._here.make_safe()
        except RmqError:
            return set()
        return moved

    async def _keep(self, holder: _Holder, wanted: Sequence[LeasedQueue], coordinator: str) -> set[MessageQueue]:
        if holder.broker == self._own_name:
            return set(map(_queue, self._here.keep(holder.group, holder.member, holder.run, wanted, coordinator)))
        header = GroupLeasesRequestHeader(holder.group, holder.member, holder.run, coordinator or None)
        body = GroupLeasesBody(keep=list(wanted)).encode()
        try:
            response = await self._peers.call(
                holder.broker, RequestCode.RMQ_GROUP_LEASES, header, body, timeout_ms=_TIMEOUT_MS
            )
        except LeaseLost:
            return set()
        except RmqError as error:
            raise Busy(f"Broker {holder.broker!r} cannot be asked for leases now: {error}") from error
        return set(map(_queue, GroupLeasesAnswerBody.decode(response.body).held))


def _by_holder(inputs: Iterable[InputRange]) -> dict[_Holder, dict[MessageQueue, _Read]]:
    """What was read under leases; of several ranges of a queue the last."""
    by_holder: dict[_Holder, dict[MessageQueue, _Read]] = defaultdict(dict)
    for each in inputs:
        if each.lease and each.member:
            read = by_holder[_Holder(each.brokerName, each.group, each.member, each.leaseRun or 0)]
            known = read.get(_queue(each))
            if known is None or known.end < each.toOffset:
                read[_queue(each)] = _Read(each.lease, each.toOffset)
    return by_holder


def _queue(each: InputRange | LeasedQueue) -> MessageQueue:
    return MessageQueue(each.topic, each.brokerName, each.queueId)
