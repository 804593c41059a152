"""A Spark query as an operator sees it, whether its driver has a listener or not.

With one, everything is as it reported last. Without, the queues are those of the group whose offsets its batches move,
and how far that group has come is asked of the brokers; state, name and batch times are unknown then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqspark.client.administration.drain import seconds_to_catch_up
from rmqspark.client.administration.groups_described import describe_groups
from rmqspark.client.cluster.silence import RollCall
from rmqspark.client.spark.lag import figures, look
from rmqspark.client.spark.queries import SeenQuery, name_of
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.queries import QueryLag, QueryReport
from rmqspark.protocol.names import is_made_by_brokers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.client.administration.descriptions import GroupDescription
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.client.spark.lag import QueueLag
    from rmqspark.protocol.bodies.queries import KnownQuery


@dataclass(frozen=True, slots=True)
class OwnedQueue:
    """One queue that a query reads: where it is and where the queue ends. None is unknown."""

    group: str
    queue: MessageQueue
    position: int | None
    end: int | None
    behind_ms: int | None = None

    @property
    def lag(self) -> int | None:
        return None if self.position is None or self.end is None else max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class QueryView:
    """`state` is running, stopped, failed, silent (it was running when last heard of), or unknown: nobody tells.

    `heard_ms` ago a broker last heard of it. `silent` are brokers that do not answer, and why, where they were asked:
    how far it is there is unknown.
    """

    query_id: str
    name: str
    state: str
    heard_ms: int
    batch_id: int
    queues: list[OwnedQueue] = field(default_factory=list)
    report: QueryReport | None = None
    bytes_behind: int | None = None
    behind_ms: int | None = None
    consumed_per_second: float | None = None
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def last_batch(self) -> int | None:
        """None where none has ended yet, and none is known to be under way."""
        return None if self.batch_id < 0 else self.batch_id

    @property
    def groups(self) -> list[str]:
        reported = self.report.groups if self.report is not None else []
        return sorted({queue.group for queue in self.queues if queue.group} | {*reported})

    @property
    def lag(self) -> int | None:
        """Messages: of all its queues or none where it is reported, for some may be of a broker that does not answer;
        else as far as known."""
        if self.report is not None and self.queues:
            return self.report.behind
        known = [queue.lag for queue in self.queues if queue.lag is not None]
        return sum(known) if known else None

    @property
    def figures(self) -> QueryLag:
        """Lag by Spark's names: as it was reported, else of the queues where it is known."""
        if self.report is not None:
            return self.report.lag
        known = [queue.lag for queue in self.queues if queue.lag is not None]
        average = sum(known) / len(known) if known else None
        return QueryLag(min(known, default=None), max(known, default=None), average, self.bytes_behind, self.behind_ms)

    @property
    def caught_up_in_s(self) -> int | None:
        return None if self.lag is None else seconds_to_catch_up(self.lag, self.behind_ms, self.consumed_per_second)


def view_of(cluster: ClusterClient, seen: SeenQuery, *, on_silent: OnSilent | None = None) -> QueryView:
    """What is known of this query; without a listener the brokers are asked about its group. One that does not answer
    is told to `on_silent` and left out; without that it is an error."""
    known = seen.known
    if known.report is not None:
        return _reported(seen, known.report)
    roll = RollCall(cluster, on_silent)
    view = _unreported(cluster, seen, roll)
    return replace(view, silent=roll.silent)


def _unreported(cluster: ClusterClient, seen: SeenQuery, roll: RollCall) -> QueryView:
    names = {piece.group for piece in seen.known.inputs if piece.group}
    groups = describe_groups(cluster, names, on_silent=roll.on_silent)
    return _by_group(seen, groups, cluster.clock.now_ms()) if groups else _by_inputs(cluster, seen, roll)


def _reported(seen: SeenQuery, report: QueryReport) -> QueryView:
    queues = [
        OwnedQueue(
            queue.group,
            MessageQueue(queue.topic, queue.brokerName, queue.queueId),
            queue.toOffset,
            None if queue.behind is None else queue.latestOffset,
            queue.behindMs,
        )
        for queue in report.queues
    ]
    return QueryView(
        report.queryId,
        name_of(seen.known),
        seen.state,
        seen.silent_ms,
        report.batchId,
        queues,
        report,
        report.lag.estimatedTotalBytesBehindLatest,
        report.lag.maxMsBehindLatest,
        _messages_per_second(report),
    )


def _messages_per_second(report: QueryReport) -> float | None:
    """How fast the last batch got through what waited. Spark's rate is of rows, and a filter may leave few of them."""
    took_ms = report.durationMs.get("triggerExecution", 0)
    return report.messages * 1000 / took_ms if took_ms else None


def _by_group(seen: SeenQuery, groups: list[GroupDescription], now_ms: int) -> QueryView:
    """Of all topics that its groups have offsets of: what its last batch read need not be all that it reads."""
    read = {piece.topic for piece in seen.known.inputs}
    queues = [
        OwnedQueue(
            group.name,
            each.queue,
            each.committed,
            each.max_offset,
            0 if each.lag == 0 else None if each.waiting_since_ms is None else max(0, now_ms - each.waiting_since_ms),
        )
        for group in groups
        for each in group.queues
        if each.queue.topic in read or not is_made_by_brokers(each.queue.topic)
    ]
    times = [queue.behind_ms for queue in queues if queue.behind_ms is not None]
    rates = [group.consumed_per_second for group in groups if group.consumed_per_second is not None]
    return _view(seen.known, seen.silent_ms, queues, max(times, default=None), sum(rates) if rates else None)


def _by_inputs(cluster: ClusterClient, seen: SeenQuery, roll: RollCall) -> QueryView:
    """Of a query that commits no offsets: what its last batch read is all there is to go by."""
    reached = {MessageQueue(each.topic, each.brokerName, each.queueId): each.toOffset for each in seen.known.inputs}
    lags, now_ms = _lags(cluster, reached, roll), cluster.clock.now_ms()
    queues = [OwnedQueue("", lag.queue, lag.position, lag.end, lag.behind_ms(now_ms)) for lag in lags]
    queues += [OwnedQueue("", queue, at, None) for queue, at in reached.items() if roll.is_silent(queue.broker_name)]
    return _view(seen.known, seen.silent_ms, queues, figures(lags, now_ms).max_ms, None)


def _lags(cluster: ClusterClient, reached: Mapping[MessageQueue, int], roll: RollCall) -> list[QueueLag]:
    lags: list[QueueLag] = []
    for name in sorted({queue.broker_name for queue in reached}):
        if not roll.is_silent(name):
            with roll.hears(name):
                lags += look(cluster, {queue: at for queue, at in reached.items() if queue.broker_name == name})
    return sorted(lags, key=lambda lag: lag.queue)


def _view(
    known: KnownQuery, silent_ms: int, queues: list[OwnedQueue], behind_ms: int | None, rate: float | None
) -> QueryView:
    return QueryView(
        known.queryId, "", "unknown", silent_ms, known.batchId, queues, behind_ms=behind_ms, consumed_per_second=rate
    )
