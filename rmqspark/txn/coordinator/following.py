"""Decisions that groups have still to follow: a disk or slave that is late may keep whoever asked from hearing of one.

Who reads on for a group goes by where that is. So it is moved before anybody hears of the decision, whoever asks next,
and before the coordinator forgets what was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.model import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from rmqspark.protocol.bodies.txn import TxnDecision


class Following:
    """`follow` moves the groups of one decision. In memory: a start moves those of all that is not complete."""

    def __init__(self, follow: Callable[[TxnDecision], Awaitable[None]]) -> None:
        self._follow = follow
        self._left: dict[str, dict[int, TxnDecision]] = {}  # by transactional id and version, as they were decided

    def note(self, transactional_id: str, version: int, decision: TxnDecision) -> None:
        """It is decided."""
        self._left.setdefault(transactional_id, {})[version] = decision

    def left(self) -> list[str]:
        """The transactional ids with such decisions."""
        return list(self._left)

    def has_read(self, group: str, queues: Collection[MessageQueue]) -> bool:
        """Whether any of these decisions is about one of these queues, read for the group."""
        return any(
            each.group == group and MessageQueue(each.topic, each.brokerName, each.queueId) in queues
            for left in self._left.values()
            for decision in left.values()
            for each in decision.inputs
        )

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
