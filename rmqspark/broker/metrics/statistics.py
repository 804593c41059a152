"""What went in and out by topic and group within the last minute, hour and day: what mqadmin's statsAll shows.

RocketMQ: BrokerStatsManager, whose names and keys these are. All of it is counted elsewhere, and read every ten
seconds. Not told are retry topics and the broker's own, which are not counted, nor what is of single queues, of POP, of
latencies, of reads from disk and of accounts. What is put is put once for each message: a batch is many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.metrics.departures import NO_GROUP
from rmqspark.broker.metrics.history import History
from rmqspark.broker.metrics.turns import Turns
from rmqspark.protocol.bodies.admin import BrokerStatsData, BrokerStatsItem

if TYPE_CHECKING:
    from rmqspark.broker.metrics.counted import Counted
    from rmqspark.broker.metrics.history import Moved
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.broker.tables import BrokerTables

_AT_ONCE: Final = 1000


class _Statistic(NamedTuple):
    """Which number of a history it is, and which one says how many times something was added to it."""

    history: History
    number: int
    times: int | None

    def item(self, moved: Moved) -> BrokerStatsItem:
        total = moved.by[self.number]
        times = 0 if self.times is None else moved.by[self.times]
        return BrokerStatsItem(
            sum=total,
            tps=total * 1000 / moved.elapsed_ms if moved.elapsed_ms else 0.0,
            avgpt=total / times if times else 0.0,
        )


class Statistics:
    """Of one broker. Its puts and gets as a whole have the cluster's name as their key."""

    def __init__(
        self, cluster_name: str, counted: Counted, stats: BrokerStats, tables: BrokerTables, monotonic_ms: int
    ) -> None:
        self._cluster_name = cluster_name
        self._counted = counted
        self._stats = stats
        self._tables = tables
        self._puts = History(2, monotonic_ms)
        self._gets = History(3, monotonic_ms)
        self._send_backs = History(1, monotonic_ms)
        self._broker = History(2, monotonic_ms)
        self._by_name = {
            "TOPIC_PUT_NUMS": _Statistic(self._puts, 0, 0),
            "TOPIC_PUT_SIZE": _Statistic(self._puts, 1, 0),
            "GROUP_GET_NUMS": _Statistic(self._gets, 0, 2),
            "GROUP_GET_SIZE": _Statistic(self._gets, 1, 2),
            "SNDBCK_PUT_NUMS": _Statistic(self._send_backs, 0, 0),
            "BROKER_PUT_NUMS": _Statistic(self._broker, 0, None),
            "BROKER_GET_NUMS": _Statistic(self._broker, 1, None),
        }

    async def sample(self, monotonic_ms: int) -> None:
        """To be called every ten seconds, when arrivals have been counted."""
        counted, stats, turns = self._counted, self._stats, Turns(_AT_ONCE)
        self._broker.sample(monotonic_ms, {self._cluster_name: (stats.puts, stats.transferred)})
        puts = {}
        for topic, messages, size_bytes in counted.arrivals.totals():
            puts[topic] = (messages, size_bytes)
            await turns.did()
        self._puts.sample(monotonic_ms, puts)
        gets = {
            f"{topic}@{group}": tuple(numbers)
            async for (topic, group), numbers in counted.departures.of_what_is_there(self._has_topic, self._has_group)
            if group != NO_GROUP
        }
        self._gets.sample(monotonic_ms, gets)
        send_backs = {
            f"{topic}@{group}": tuple(numbers)
            async for (topic, group), numbers in counted.send_backs.of_those(
                lambda topic, group: self._has_topic(topic) and self._has_group(group)
            )
        }
        self._send_backs.sample(monotonic_ms, send_backs)

    def find(self, name: str, key: str) -> BrokerStatsData | None:
        """As of the last sample. None for a statistic that is not kept, and for what nothing was counted of."""
        statistic = self._by_name.get(name)
        moved = None if statistic is None else statistic.history.moved(key)
        if statistic is None or moved is None:
            return None
        minute, hour, day = map(statistic.item, moved)
        return BrokerStatsData(minute, hour, day)

    def _has_topic(self, topic: str) -> bool:
        return self._tables.topics.get(topic) is not None

    def _has_group(self, group: str) -> bool:
        return group in self._tables.groups
