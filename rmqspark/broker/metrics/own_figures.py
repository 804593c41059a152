"""What operators of this broker look at and RocketMQ has no name for: transactions of queries, and the queries."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rmqspark.broker.metrics.families import QUERY_BATCH, QUERY_OFFSETS_BEHIND, QUERY_SECONDS_BEHIND, TRANSACTIONS
from rmqspark.broker.metrics.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.broker.queries import SparkQueries
    from rmqspark.protocol.bodies.queries import QueryReport
    from rmqspark.txn.coordinator.coordination import Coordination
    from rmqspark.txn.coordinator.events import Transaction

_QUEUES_AT_ONCE: Final = 500
_STATES: Final = ("new", "open", "given_up", "completing", "committed")


def tell_transactions(figures: Figures, coordination: Coordination) -> None:
    """How many transactional ids are in which state; each counts once."""
    counts = Counter(_state(txn) for txn in coordination.ledger)
    for state in _STATES:
        figures.add(TRANSACTIONS, (state,), counts[state])


def _state(txn: Transaction) -> str:
    if txn.is_open:
        return "open"
    if txn.pending:
        return "completing"
    if txn.open_version > txn.last_version:
        return "given_up"
    return "new" if txn.last_version < 0 else "committed"


async def tell_queries(figures: Figures, queries: SparkQueries, now_ms: int) -> None:
    """Of queries that run, as far as is known."""
    turns = Turns(_QUEUES_AT_ONCE)
    for report in queries.running(now_ms):
        await turns.did(1 + len(report.queues))
        _tell_query(figures, report)


def _tell_query(figures: Figures, report: QueryReport) -> None:
    labels = report.name or report.queryId, report.queryId
    for group, messages in _behind_by_group(report).items():
        figures.add(QUERY_OFFSETS_BEHIND, (*labels, group), messages)
    if report.lag.maxMsBehindLatest is not None:
        figures.add(QUERY_SECONDS_BEHIND, labels, report.lag.maxMsBehindLatest / 1000)
    if (batch_ms := report.durationMs.get("triggerExecution")) is not None:
        figures.add(QUERY_BATCH, labels, batch_ms / 1000)


def _behind_by_group(report: QueryReport) -> Mapping[str, int]:
    """Of groups whose queues are all known of: no figure is better than one that is too low."""
    queues: dict[tuple[str, str, str, int], int] = {}
    for queue in report.queues:  # two sources of a query may read the same: it counts where the slower one is
        place = queue.group, queue.topic, queue.brokerName, queue.queueId
        queues[place] = max(queue.behind or 0, queues.get(place, 0))
    behind: Counter[str] = Counter()
    for (group, *_), messages in queues.items():
        behind[group] += messages
    unknown = {queue.group for queue in report.queues if queue.behind is None}
    return {group: messages for group, messages in behind.items() if group not in unknown}
