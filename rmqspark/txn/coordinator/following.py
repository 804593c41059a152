"""Decisions that groups have still to follow: a disk or slave that is late may keep whoever asked from hearing of one.

Who reads on for a group goes by where that is. So it is moved before anybody hears of the decision, whoever asks next,
and before the coordinator forgets what was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.model import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from rmqspark.protocol.bodies.txn import InputRange, TxnDecision
    from rmqspark.txn.coordinator.events import Pending


class Following:
    """`follow` moves the groups of one decision, `is_waiting` says whether a broker has still to hear of any of these
    ranges. In memory: a start moves the groups of all that is not finished."""

    def __init__(
        self, follow: Callable[[TxnDecision], Awaitable[None]], is_waiting: Callable[[Iterable[InputRange]], bool]
    ) -> None:
        self._follow = follow
        self._is_waiting = is_waiting
        self._left: dict[str, dict[int, TxnDecision]] = {}  # by transactional id and version, as they were decided

    def note(self, transactional_id: str, version: int, decision: TxnDecision) -> None:
        """It is decided."""
        self._left.setdefault(transactional_id, {})[version] = decision

    def left(self) -> list[str]:
        """The transactional ids with such decisions."""
        return list(self._left)

    def read(self, group: str) -> set[MessageQueue]:
        """The queues that any of these decisions has read for the group, which is to follow it."""
        return {
            MessageQueue(each.topic, each.brokerName, each.queueId)
            for left in self._left.values()
            for decision in left.values()
            for each in decision.inputs
            if each.group == group and not decision.ownVersion
        }

    def is_done(self, transactional_id: str, pending: Pending) -> bool:
        """Whether groups have gone on behind a decision, where those who lease their queues know it."""
        is_left = pending.version in self._left.get(transactional_id, {})
        return not is_left and (pending.decision.ownVersion or not self._is_waiting(pending.decision.inputs))

    def is_behind(self, transactional_id: str) -> bool:
        """Whether there is any under this id."""
        return transactional_id in self._left

    async def catch_up(self, transactional_id: str) -> None:
        """Moves the groups of all that was decided under it, in that order, or a later one would be taken back. To be
        called in its turn, once the decisions are safe."""
        left = self._left.get(transactional_id, {})
        for version in list(left):
            await self._follow(left[version])
            del left[version]
        self._left.pop(transactional_id, None)
