"""Decisions that drivers asked for and that were refused, should an operator want one all the same.

In memory: an operator of a broker that was started again since can only roll back. Pure, and bounded.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rmqspark.protocol.bodies.txn import TxnDecision

_MOST: Final = 100
_MOST_BYTES: Final = 32 << 20


class _Proposal(NamedTuple):
    epoch: int
    version: int
    decision: bytes  # as it travels: taken apart, a large one has ten times as many


class Proposals:
    """The latest one of each transactional id, of the ids that were refused last."""

    def __init__(self) -> None:
        self._latest: dict[str, _Proposal] = {}
        self._bytes = 0

    def note(self, transactional_id: str, epoch: int, version: int, decision: TxnDecision) -> None:
        self.forget(transactional_id)
        proposal = self._latest[transactional_id] = _Proposal(epoch, version, decision.encode(standard=True))
        self._bytes += len(proposal.decision)
        while len(self._latest) > _MOST or self._bytes > _MOST_BYTES:
            self.forget(next(iter(self._latest)))

    def of(self, transactional_id: str, epoch: int, version: int) -> TxnDecision | None:
        """What a driver wanted for this version under this epoch."""
        found = self._latest.get(transactional_id)
        return TxnDecision.decode(found.decision) if found is not None and found[:2] == (epoch, version) else None

    def forget(self, transactional_id: str) -> None:
        found = self._latest.pop(transactional_id, None)
        if found is not None:
            self._bytes -= len(found.decision)
