"""When a participant asks a coordinator what has become of half batches that nobody speaks of any more. Pure.

First `timeout_ms` after the last half batch of a batch came (RocketMQ's transactionTimeOut), then after twice that,
four times that, and so on, at most `interval_ms` apart (its transactionCheckInterval): a driver that died costs
seconds, one that takes hours costs a question a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rmqspark.txn.participant.half_batch import Batch


class _Turn(NamedTuple):
    due_ms: int
    asked: int  # how often


class CheckBacks:
    """Times are of a clock that never goes back."""

    def __init__(self, *, timeout_ms: int, interval_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._interval_ms = interval_ms
        self._turns: dict[Batch, _Turn] = {}

    def expect(self, batch: Batch, now_ms: int) -> None:
        """Something of this batch has just come."""
        self._turns[batch] = _Turn(now_ms + self._timeout_ms, 0)

    def hurry(self, batch: Batch, now_ms: int) -> None:
        """Makes it due now: somebody waits for it."""
        turn = self._turns.get(batch)
        self._turns[batch] = _Turn(now_ms, turn.asked if turn is not None else 0)

    def forget(self, batch: Batch) -> None:
        """Nothing of it is held any more."""
        self._turns.pop(batch, None)

    def due(self, now_ms: int) -> list[Batch]:
        """Whom to ask about now, and plans when to ask again."""
        due = [batch for batch, turn in self._turns.items() if turn.due_ms <= now_ms]
        for batch in due:
            asked = self._turns[batch].asked + 1
            pause_ms = min(self._timeout_ms << min(asked, 30), self._interval_ms)
            self._turns[batch] = _Turn(now_ms + pause_ms, asked)
        return due
