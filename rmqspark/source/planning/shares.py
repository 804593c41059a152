"""How a limit on a micro-batch is dealt to queues that have more than it lets through. Pure: numbers in, numbers out.

Shares are by backlog, and nobody starves: a queue that waits gets at least one message, or its turn comes. Bytes are
dealt exactly: the only message that may exceed the limit is the one of the queue whose turn it is, for a message that
is larger than the whole limit could never be read otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.client.cluster.measuring import Extent

    Measure = Callable[[Sequence["Budget"]], Sequence[Extent]]

_NEGLIGIBLE = 16  # a round that moves less than one part in so many of what is left is the last


class Budget(NamedTuple):
    """How many of the messages [start, end) of queue `number` fit into `max_bytes`?"""

    number: int
    start: int
    end: int
    max_bytes: int


ANY_SIZE = (1 << 63) - 1


def share(backlogs: Sequence[int], limit: int, first: int = 0) -> list[int]:
    """Deals `limit` messages to queues by backlog. Each one that waits gets at least one, or, where there are more
    queues than messages, so many of them get one each, from number `first` of those that wait on, round and round.

    >>> share([100, 10, 0], 11)
    [9, 2, 0]
    """
    waiting = [index for index, backlog in enumerate(backlogs) if backlog > 0]
    shares = [0] * len(backlogs)
    if sum(backlogs) <= limit:
        return list(backlogs)
    if len(waiting) >= limit:
        for step in range(limit):
            shares[waiting[(first + step) % len(waiting)]] = 1
        return shares
    spare, rest = limit - len(waiting), sum(backlogs) - len(waiting)
    for index in waiting:
        shares[index] = 1 + (backlogs[index] - 1) * spare // rest
    left = limit - sum(shares)  # fewer than there are queues: rounding, dealt to the largest remainders
    for index in sorted(waiting, key=lambda index: -((backlogs[index] - 1) * spare % rest))[:left]:
        shares[index] += 1
    return shares


def share_bytes(
    starts: Sequence[int], backlogs: Sequence[int], max_bytes: int, measure: Measure, first: int = 0
) -> list[int]:
    """How many messages each queue gets of `max_bytes`, given where it stands and how many wait in it.

    Number `first` of the queues that wait moves on by one message at least, whatever its size. The rest is dealt by
    backlog; what a queue leaves over is dealt again to those that could use it, as long as that is worth a question.
    """
    deal = _Deal(starts, backlogs, max_bytes, measure)
    waiting = [index for index, backlog in enumerate(backlogs) if backlog > 0]
    if not waiting:
        return [0] * len(backlogs)
    turn = first % len(waiting)
    deal.move_one(waiting[turn])
    while deal.round():
        pass
    deal.fill(waiting[turn:] + waiting[:turn])
    return [at - start for at, start in zip(deal.positions, starts, strict=True)]


class _Deal:
    """One limit as it is being dealt out."""

    def __init__(self, starts: Sequence[int], backlogs: Sequence[int], max_bytes: int, measure: Measure) -> None:
        self.positions = list(starts)
        self._ends = [start + backlog for start, backlog in zip(starts, backlogs, strict=True)]
        self._left = max_bytes
        self._measure = measure
        self._next_bytes: dict[int, int] = {}  # what did not fit, by queue

    def move_one(self, index: int) -> None:
        at = self.positions[index]
        (extent,) = self._measure([Budget(index, at, at + 1, ANY_SIZE)])
        self.positions[index] = at + 1
        self._left -= extent.size_bytes

    def round(self) -> bool:
        """Deals what is left once; whether another round is worth it."""
        open_queues = [index for index in range(len(self._ends)) if self._could_use_more(index)]
        if self._left <= 0 or not open_queues:
            return False
        total = sum(self._ends[index] - self.positions[index] for index in open_queues)
        budgets = [self._budget(index, total) for index in open_queues]
        before = self._left
        cut_short = False
        for budget, extent in zip(budgets, self._measure(budgets), strict=True):
            self.positions[budget.number] = extent.end
            self._next_bytes[budget.number] = extent.next_bytes
            self._left -= extent.size_bytes
            cut_short |= budget.start < extent.end < budget.end and not extent.next_bytes
        return cut_short or (before - self._left) * _NEGLIGIBLE > before

    def fill(self, order: Sequence[int]) -> None:
        """One message more for each queue whose next one still fits."""
        for index in order:
            size_bytes = self._next_bytes.get(index, 0)
            if 0 < size_bytes <= self._left and self.positions[index] < self._ends[index]:
                self.positions[index] += 1
                self._left -= size_bytes

    def _could_use_more(self, index: int) -> bool:
        return self.positions[index] < self._ends[index] and self._next_bytes.get(index, 0) <= self._left

    def _budget(self, index: int, total: int) -> Budget:
        start, end = self.positions[index], self._ends[index]
        return Budget(index, start, end, self._left * (end - start) // total)
