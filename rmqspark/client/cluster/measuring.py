"""How far budgets of bytes reach into queues of one broker: rmqspark's own request, spoken only where `capabilities`
says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import then
from rmqspark.errors import BodyError
from rmqspark.protocol.bodies.bulk import MAX_MEASURED_QUEUES, QueueBudget, QueueBudgets, QueueExtents
from rmqspark.protocol.codes import RequestCode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response

TIMEOUT_MS = 30_000


class Budget(NamedTuple):
    """How many of the messages of [start, end) fit into `max_bytes`?"""

    queue: MessageQueue
    start: int
    end: int
    max_bytes: int


class Extent(NamedTuple):
    """Those below `end`: `size_bytes` in the log. The next one has `next_bytes` and did not fit; 0 where there is none
    in the range, or where the broker did not look further and may be asked again from `end` on."""

    end: int
    size_bytes: int
    next_bytes: int


def submit_measure(broker: BrokerClient, budgets: Sequence[Budget]) -> list[Future[list[Extent]]]:
    """RMQ_MEASURE for queues of this broker; the answers, one after the other, are in the order of `budgets`.

    They fail with BodyError where the broker answers what cannot be.
    """
    pieces = [budgets[at : at + MAX_MEASURED_QUEUES] for at in range(0, len(budgets), MAX_MEASURED_QUEUES)]
    return [_submit(broker, piece) for piece in pieces]


def _submit(broker: BrokerClient, budgets: Sequence[Budget]) -> Future[list[Extent]]:
    body = QueueBudgets(
        [
            QueueBudget(budget.queue.topic, budget.queue.queue_id, budget.start, budget.end, budget.max_bytes)
            for budget in budgets
        ]
    ).encode(standard=True)
    answer = broker.submit(RequestCode.RMQ_MEASURE, None, body, timeout_ms=TIMEOUT_MS)
    return then(answer, lambda response: _extents(response, budgets))


def _extents(response: Response, budgets: Sequence[Budget]) -> list[Extent]:
    answered = QueueExtents.decode(response.raise_for_code().body).queues
    if len(answered) != len(budgets):
        raise BodyError(f"The broker measured {len(answered)} queues instead of {len(budgets)}.")
    for budget, extent in zip(budgets, answered, strict=True):
        fits = 0 <= extent.bytes <= budget.max_bytes and extent.nextBytes >= 0
        if not (fits and budget.start <= extent.nextOffset <= budget.end):
            raise BodyError(f"The broker measured {extent} where {budget} was asked.")
    return [Extent(extent.nextOffset, extent.bytes, extent.nextBytes) for extent in answered]
