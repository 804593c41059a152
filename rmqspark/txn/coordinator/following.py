"""Whether what a batch has read was its query's to read, and that its groups follow when it is decided.

A disk or slave that is late may keep whoever asked from hearing of a decision. Who reads on for a group goes by where
that is. So it is moved before anybody hears of the decision, whoever asks next, and before the coordinator forgets what
was read. A write in foreachBatch moves nothing: its batch may have more to write, and who took over behind it would
leave that out. The query itself says when it is done with the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import Busy
from rmqspark.model import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Collection

    from rmqspark.protocol.bodies.client import LeasedQueue
    from rmqspark.protocol.bodies.txn import TxnDecision
    from rmqspark.txn.coordinator.events import Pending, Transaction
    from rmqspark.txn.coordinator.input_leases import InputLeases
    from rmqspark.txn.coordinator.input_offsets import InputOffsets

_MOST_FOR_OTHERS: Final = 64  # decisions of one id that are kept until ordinary groups have gone on, too


class Following:
    """Groups go on under their `leases`, and by `offsets` where that cannot be at once. In memory: a start moves the
    groups of all that is not finished."""

    def __init__(self, leases: InputLeases, offsets: InputOffsets) -> None:
        self._leases = leases
        self._offsets = offsets
        self._left: dict[str, dict[int, TxnDecision]] = {}  # by transactional id and version, as they were decided

    async def lost(self, decision: TxnDecision) -> str | None:
        """Why it must not be made: see `InputLeases.lost`."""
        return await self._leases.lost(decision.inputs, are_followed=not decision.ownVersion)

    def note(self, transactional_id: str, version: int, decision: TxnDecision) -> None:
        """It is decided."""
        self._left.setdefault(transactional_id, {})[version] = decision

    def note_again(self, decision: TxnDecision) -> None:
        """It was decided before this start: the groups may not have gone on, or have been forgotten to have."""
        if not decision.ownVersion:
            self._offsets.want(decision.inputs)

    def left(self) -> list[str]:
        """The transactional ids with decisions that groups have still to follow."""
        return list(self._left)

    def is_behind(self, transactional_id: str) -> bool:
        """Whether there is any under this id."""
        return transactional_id in self._left

    def is_done(self, txn: Transaction, pending: Pending) -> bool:
        """Whether groups have gone on behind a decision, where those who have their queues know it. Shared groups alone
        are waited for where many wait already: more are decided then than brokers can be told of."""
        decision, are_many = pending.decision, len(txn.pending) > _MOST_FOR_OTHERS
        if pending.version in self._left.get(txn.transactional_id, {}):
            return False
        return decision.ownVersion or not self._offsets.is_waiting(decision.inputs, shared_alone=are_many)

    async def catch_up(self, transactional_id: str) -> None:
        """Moves the groups of all that was decided under it, in that order, or a later one would be taken back. To be
        called in its turn, once the decisions are safe.

        A shared group is safe where its queues are when this returns, or, where their broker is silent, before the
        decision is forgotten: its next member goes by it.
        """
        left = self._left.get(transactional_id, {})
        for version in list(left):
            if not left[version].ownVersion:
                self._offsets.want(await self._leases.commit(left[version].inputs))
            del left[version]
        self._left.pop(transactional_id, None)

    def moving(self, group: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those of these queues in which the group is still to go on."""
        waiting = self._offsets.wanted(group, queues)
        return self._read(group, queues) | {MessageQueue(each.topic, each.brokerName, each.queueId) for each in waiting}

    def wanted(self, group: str, queues: Collection[MessageQueue]) -> list[LeasedQueue]:
        """Where it is to go on in those of these queues of a broker to which that was not said yet. Raises Busy while
        what was read of any of them is being decided."""
        if self._leases.are_asked(group, queues) or self._read(group, queues):
            raise Busy(f"What a member of {group!r} has read is being decided.")
        return self._offsets.wanted(group, queues)

    def _read(self, group: str, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those that were read for the group by a decision that it has still to follow."""
        read = {
            MessageQueue(each.topic, each.brokerName, each.queueId)
            for left in self._left.values()
            for decision in left.values()
            for each in decision.inputs
            if each.group == group and not decision.ownVersion
        }
        return read.intersection(queues)
