"""All figures of a broker, gathered and made text of: what RMQ_METRICS and the exporter answer.

Each figure is read where it is kept, at the moment it is asked for. One scrape is done at a time; a few may wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rmqspark import __version__
from rmqspark.broker.metrics.client_figures import tell_clients
from rmqspark.broker.metrics.families import (
    CONNECTIONS,
    FAILED_PUTS,
    FAMILIES,
    GROUP_NUMBER,
    HALF,
    HELD_PULLS,
    INFO,
    INSECURE,
    LAG,
    LEASES,
    MESSAGE_SIZE,
    MESSAGES_IN,
    MESSAGES_OUT,
    OPEN_HALVES,
    PERMISSION,
    SENT_TO_DLQ,
    START_TIME,
    THROUGHPUT_IN,
    THROUGHPUT_OUT,
    TOPIC_NUMBER,
    UNDELIVERED,
    WATERMARK,
)
from rmqspark.broker.metrics.figures import Figures, word
from rmqspark.broker.metrics.lags import Lags
from rmqspark.broker.metrics.own_figures import tell_queries, tell_transactions
from rmqspark.broker.metrics.replica_figures import tell_replicas
from rmqspark.broker.metrics.settings import labels_of
from rmqspark.broker.metrics.store_figures import tell_store, tell_timers
from rmqspark.broker.metrics.turns import Turns
from rmqspark.errors import Busy
from rmqspark.protocol.names import Perm, is_system_group

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.given import Given
    from rmqspark.broker.parts import Parts

_MOST_WAITING: Final = 8
_SERIES_AT_ONCE: Final = 100
_PROCESSORS: Final = (
    "send", "async_put", "pull", "ack", "query_message", "client_manager", "heartbeat", "lite_pull", "transaction",
    "consumer_manager", "admin", "reply",
)  # fmt: skip


class BrokerMetrics:
    """Belongs to the event loop's thread. `connections` says how many there are."""

    def __init__(self, given: Given, parts: Parts) -> None:
        self._given = given
        self._parts = parts
        tables = parts.tables
        self._lags = Lags(parts.store.queues, tables.topics, tables.offsets, parts.clients, given.clock)
        self._labels = _common_labels(given.config)
        switches = {family.switch for family in FAMILIES if family.switch}
        self._off = frozenset(switch for switch in switches if not getattr(given.config, switch))
        self._scraping = asyncio.Lock()
        self._waiting = 0
        self.connections: Callable[[], int] = lambda: 0

    async def count(self) -> None:
        """What is counted a little later than it happens, and forgotten a little later than its topic; to be called
        every some seconds. What a slave has came in at its master, as in RocketMQ: counted here, too, it would be twice
        in sums over a broker's name."""
        for counts in (self._parts.timed.counts, self._parts.counted.ends_of_halves, self._parts.halves):
            counts.forget(self._has_topic)
        if not self._given.config.is_slave:
            await self._parts.counted.arrivals.count()

    async def text(self) -> AsyncIterator[bytes]:
        """The exposition of this moment, in pieces. Raises Busy while several others wait for theirs."""
        from rmqspark.broker.metrics.exposition import text_of

        if self._waiting >= _MOST_WAITING:
            raise Busy(f"{self._waiting} scrapes of the metrics are waiting already.", hint="Scrape less often.")
        self._waiting += 1
        try:
            async with self._scraping:
                async for piece in text_of(await self._figures()):
                    yield piece
        finally:
            self._waiting -= 1

    async def _figures(self) -> Figures:
        figures = Figures(self._labels, self._off)
        await self.count()
        self._tell_broker(figures)
        await self._tell_traffic(figures)
        tell_clients(figures, self._parts.clients)
        if figures.wants(LAG):
            await self._lags.tell(figures)
        await self._tell_dead_letters(figures)
        self._tell_transactions(figures)
        now_ms = self._given.clock.now_ms()
        tell_store(figures, self._parts.store, now_ms)
        tell_timers(figures, self._parts.store, self._parts.timed, now_ms)
        self._parts.timed.counts.tell(figures)
        self._parts.counted.latency.tell(figures)
        self._tell_own(figures)
        await tell_queries(figures, self._parts.queries, now_ms)
        return figures

    def _tell_broker(self, figures: Figures) -> None:
        for processor in _PROCESSORS:
            figures.add(WATERMARK, (processor,), 0)
        figures.add(PERMISSION, (), int(Perm.READ | Perm.WRITE))
        figures.add(TOPIC_NUMBER, (), len(self._parts.tables.topics))
        figures.add(GROUP_NUMBER, (), len(self._parts.tables.groups))

    async def _tell_traffic(self, figures: Figures) -> None:
        counted, tables = self._parts.counted, self._parts.tables
        turns = Turns(_SERIES_AT_ONCE)
        for topic, message_type, sizes in counted.arrivals.by_type():
            await turns.did()
            labels = topic, message_type, word(tables.topics.is_system(topic))
            figures.add(MESSAGES_IN, labels, sum(sizes.counts))
            figures.add(THROUGHPUT_IN, labels, sizes.total)
            figures.add_histogram(MESSAGE_SIZE, labels, sizes)
        departures = counted.departures
        known = departures.of_what_is_there(self._has_topic, lambda group: group in tables.groups)
        async for (topic, group), (messages, size_bytes, _) in known:
            out = topic, group, word(self._is_system(topic, group))
            figures.add(MESSAGES_OUT, out, messages)
            figures.add(THROUGHPUT_OUT, out, size_bytes)
        if departures.overflow[0]:
            figures.add(MESSAGES_OUT, None, departures.overflow[0])
            figures.add(THROUGHPUT_OUT, None, departures.overflow[1])
        counted.creations.tell(figures)

    def _is_system(self, topic: str, group: str) -> bool:
        return self._parts.tables.topics.is_system(topic) or is_system_group(group)

    def _has_topic(self, topic: str) -> bool:
        return self._parts.tables.topics.get(topic) is not None

    async def _tell_dead_letters(self, figures: Figures) -> None:
        dead_letters = self._parts.counted.dead_letters
        async for (group, topic), (count,) in dead_letters.of_those(
            lambda group, _: group in self._parts.tables.groups
        ):
            figures.add(SENT_TO_DLQ, (group, topic, word(self._is_system(topic, group))), count)
        if dead_letters.overflow[0]:
            figures.add(SENT_TO_DLQ, None, dead_letters.overflow[0])

    def _tell_transactions(self, figures: Figures) -> None:
        halves = self._parts.halves
        for topic, count in halves.open_by_topic.items():
            figures.add(HALF, (topic,), count)
        figures.add(OPEN_HALVES, (), len(halves))
        self._parts.counted.ends_of_halves.tell(figures)
        tell_transactions(figures, self._parts.coordination)

    def _tell_own(self, figures: Figures) -> None:
        given, parts = self._given, self._parts
        store = given.store_config
        figures.add(INFO, (__version__, store.flush_disk_type, parts.store.store_id), 1)
        figures.add(START_TIME, (), parts.stats.boot_ms / 1000)
        figures.add(INSECURE, (), given.config.insecure)
        figures.add(FAILED_PUTS, (), parts.stats.failed_puts)
        figures.add(CONNECTIONS, (), self.connections())
        figures.add(HELD_PULLS, (), len(parts.pulls.held))
        figures.add(LEASES, (), len(parts.tables.locks))
        figures.add(UNDELIVERED, (), parts.deliveries.left_out)
        tell_replicas(figures, given.config, parts.role, parts.store.end_offset)


def _common_labels(config: BrokerConfig) -> dict[str, str]:
    """What all series of the broker are labelled with."""
    labels = labels_of(config.metrics_label)
    if config.metrics_in_delta:  # as RocketMQ says it, whose Prometheus exporter counts from the start all the same
        labels["aggregation"] = "delta"
    return {
        **labels,
        "node_type": "broker",
        "cluster": config.broker_cluster_name,
        "node_id": config.broker_name,
    }
