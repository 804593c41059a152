"""What is counted where it happens: one counter for each thing, handed to whoever counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.arrivals import Arrivals
from rmqspark.broker.metrics.creation_times import CreationTimes
from rmqspark.broker.metrics.departures import Departures
from rmqspark.broker.metrics.ends_of_halves import EndsOfHalves
from rmqspark.broker.metrics.rpc_latency import RpcLatency
from rmqspark.broker.metrics.tally import Tally
from rmqspark.broker.metrics.timer_counts import TimerCounts

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.clock import Clock
    from rmqspark.store.message_store import MessageStore


class Counted:
    """All of them, at 0. What is in the store already does not count."""

    def __init__(self, config: BrokerConfig, store: MessageStore, clock: Clock) -> None:
        limit = config.metrics_otel_cardinality_limit
        self.arrivals = Arrivals(store.queues)
        self.departures = Departures(limit)
        self.dead_letters = Tally(limit)
        """By (group, topic)."""
        self.send_backs = Tally(limit)
        """By (topic, group); those that became dead letters, too."""
        self.ends_of_halves = EndsOfHalves()
        self.timers = TimerCounts()
        self.creations = CreationTimes(clock)
        self.latency = RpcLatency(clock)
