"""How a push consumer works; names and defaults are those of RocketMQ's DefaultMQPushConsumer, or a meaning says so."""

from __future__ import annotations

from dataclasses import dataclass, fields

from rmqspark.client.pushing.process_queue import Thresholds
from rmqspark.settings import camel_case, check_bounds, setting

_MEBIBYTE = 1 << 20
_OF_CLIENTS = ("instance_name", "local_offset_store_dir", "rebalance_interval")  # as a whole, in RocketMQ
_LONGEST_MS = (1 << 31) - 1


@dataclass(frozen=True)
class PushConfig:
    """Settings of a push consumer."""

    pull_batch_size: int = setting(32, "The most messages of one pull.", at_most=1024)
    pull_threshold_for_queue: int = setting(1000, "Nothing is pulled for a queue of which more messages are held.")
    pull_threshold_size_for_queue: int = setting(
        100, "Nothing is pulled for a queue of which more is held.", unit="MiB", at_most=1024
    )
    consume_concurrently_max_span: int = setting(
        2000, "Nothing is pulled for a queue whose held messages lie further apart, but where they are read in order."
    )
    persist_consumer_offset_interval: int = setting(
        5000, "How often what was consumed is committed.", unit="ms", at_most=_LONGEST_MS
    )
    rebalance_interval: int = setting(
        20_000,
        "How often to look who else is in the group and which queues there are, if nothing is heard; heartbeats and "
        "locks are renewed with it (RocketMQ's rocketmq.client.rebalance.waitInterval).",
        unit="ms",
        at_most=25_000,
    )
    consume_timeout: int = setting(
        15,
        "What a listener has not consumed in this time is given back, to come again, and looked for as often; not "
        "where queues are read in order, and not of consumers that broadcast.",
        unit="min",
        at_most=_LONGEST_MS // 60_000,
    )
    suspend_current_queue_time_millis: int = setting(
        1000, "Until what failed is tried again where queues are read in order.", unit="ms", at_most=_LONGEST_MS
    )
    await_termination_millis_when_shutdown: int = setting(
        10_000,
        "How long close waits for listeners that are at work; RocketMQ's default is 0.",
        unit="ms",
        at_least=0,
        at_most=_LONGEST_MS,
    )

    instance_name: str = setting(
        "DEFAULT", "Tells consumers that broadcast, of one group and machine, from each other, in their files and ids."
    )
    local_offset_store_dir: str | None = setting(
        None, "Where those keep their offsets; by default .rocketmq_offsets in the home directory."
    )

    def __post_init__(self) -> None:
        check_bounds(self)

    def thresholds(self, *, ordered: bool) -> Thresholds:
        """What may be held of a queue."""
        span = _LONGEST_MS if ordered else self.consume_concurrently_max_span
        return Thresholds(self.pull_threshold_for_queue, self.pull_threshold_size_for_queue * _MEBIBYTE, span)

    def by_java_name(self) -> dict[str, object]:
        """What RocketMQ's consumers have, too, as they call it."""
        names = [each.name for each in fields(self) if each.name not in _OF_CLIENTS]
        return {camel_case(name): getattr(self, name) for name in names}
