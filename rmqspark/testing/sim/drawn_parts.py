"""What the parts of a simulated run are drawn from: servers, clients, network, faults (`draw` puts them together)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rmqspark.broker.config import BrokerConfig
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import CONSUME_QUEUE_ENTRY_BYTES, StoreConfig
from rmqspark.testing.sim.cluster import Plan
from rmqspark.testing.sim.delays import DelayPlan
from rmqspark.testing.sim.groups import GroupPlan
from rmqspark.testing.sim.leases import LeasePlan
from rmqspark.testing.sim.network import Weather
from rmqspark.testing.sim.spark_plan import SparkPlan
from rmqspark.testing.sim.transactions import TransactionPlan

if TYPE_CHECKING:
    from random import Random

NODE_FAULTS: Final = (
    "kill",
    "power loss",
    "death within a call",
    "restart in order",
    "fsync fails",
    "write fails",
    "disk full",
    "clock is set",
)
NETWORK_FAULTS: Final = (
    "stall",
    "one way only",
    "reset",
    "half-close",
    "refuse",
    "name server killed",
)
LATE_FAULTS: Final = ("power loss at an answer",)
"""Of a node, too; drawn after all others, so that these are what they were."""
SHORTEST_MEAN_S: Final = 3.0
LONGEST_MEAN_S: Final = 40.0


@dataclass(frozen=True)
class Workload:
    """What clients do."""

    queues: int = 2
    """Of the topic on each broker."""
    producers: int = 1
    sends: int = 40
    """Of each producer."""
    largest_body: int = 400
    batches: int = 1
    longest_pause_s: float = 0.5
    timeout_ms: int = 3_000
    tries: int = 3
    readers: int = 1
    batch_writers: int = 0
    """Queries that write batches exactly once, to a topic of their own."""
    versions: int = 4
    """Of each of them."""


def drawn_plan(random: Random) -> Plan:
    slaves = random.choice((0, 0, 1))
    brokers = random.choice((1, 1, 2, 3)) if not slaves else random.choice((1, 1, 2))
    role = random.choice(("SYNC_MASTER", "ASYNC_MASTER")) if slaves else "ASYNC_MASTER"
    store = _store_config(random)
    if slaves:  # what a master of ASYNC_FLUSH loses its slave keeps, and then it is for an operator to decide
        store = replace(store, flush_disk_type="SYNC_FLUSH")
    namesrvs, config = random.choice((1, 2)), _broker_config(random, role)
    limits = Limits(outgoing_high_bytes=random.choice((1_024, 1 << 20)))
    return Plan(brokers, namesrvs, slaves, config, store, limits)


def _broker_config(random: Random, role: str) -> BrokerConfig:
    return BrokerConfig(
        broker_role=role,
        ha_send_heartbeat_interval=random.choice((500, 5_000)),
        slave_sync_interval=random.choice((500, 2_000)),
        register_name_server_period=random.choice((2_000, 10_000, 30_000)),
        flush_consumer_offset_interval=random.choice((500, 5_000)),
        auto_create_topic_enable=False,
    )


def _store_config(random: Random) -> StoreConfig:
    return StoreConfig(
        mapped_file_size_commit_log=random.choice((4, 8, 16, 64)) << 10,
        mapped_file_size_consume_queue=random.randint(5, 200) * CONSUME_QUEUE_ENTRY_BYTES,
        flush_disk_type=random.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
        flush_interval_commit_log=random.choice((20, 500)),
        flush_interval_consume_queue=random.choice((50, 1_000, 10_000)),
        max_hash_slot_num=64,
        max_index_num=random.choice((8, 256)),
    )


def drawn_workload(random: Random) -> Workload:
    return Workload(
        queues=random.randint(1, 4),
        producers=random.randint(1, 3),
        sends=random.randint(20, 80),
        largest_body=random.choice((10, 200, 1_500)),
        batches=random.choice((1, 1, 2)),
        longest_pause_s=random.choice((0.0, 0.1, 2.0)),
        timeout_ms=random.choice((200, 3_000, 6_000)),
        tries=random.randint(1, 4),
        readers=random.randint(1, 2),
        batch_writers=random.choice((0, 0, 1, 2)),
        versions=random.randint(2, 6),
    )


def drawn_group(random: Random) -> GroupPlan | None:
    """One run in three has one."""
    if random.random() > 1 / 3:
        return None
    return GroupPlan(
        "billing-app",
        members=random.randint(1, 3),
        is_ordered=random.random() < 0.6,
        threads=random.randint(1, 3),
        batch_size=random.choice((1, 1, 4)),
        fails=random.choice((0.0, 0.0, 0.1)),
        slowest_s=random.choice((0.02, 0.3, 2.0)),
        rebalance_ms=random.choice((1_000, 5_000, 20_000)),
        commit_ms=random.choice((500, 5_000)),
    )


def drawn_transactions(random: Random) -> TransactionPlan | None:
    """One run in three has some."""
    if random.random() > 1 / 3:
        return None
    return TransactionPlan(
        producers=random.randint(1, 2),
        sends=random.randint(5, 20),
        undecided=random.choice((0.0, 0.1)),
        unknown=random.choice((0.0, 0.2, 0.5)),
        longest_pause_s=random.choice((0.1, 2.0)),
        timeout_ms=random.choice((500, 3_000)),
        asked_after_ms=random.choice((500, 2_000, 6_000)),
    )


def drawn_delays(random: Random) -> DelayPlan | None:
    """One run in three has some."""
    if random.random() > 1 / 3:
        return None
    return DelayPlan(
        producers=random.randint(1, 2),
        sends=random.randint(5, 30),
        recalls=random.choice((0.0, 0.5)),
        longest_pause_s=random.choice((0.1, 2.0)),
        timeout_ms=random.choice((500, 3_000)),
    )


def drawn_spark(random: Random) -> SparkPlan | None:
    """One run in three has a query."""
    if random.random() > 1 / 3:
        return None
    return SparkPlan(
        executors=random.randint(1, 2),
        twins=random.choice((0.0, 0.3)),
        dies=random.choice((0.0, 0.02, 0.1)),
        most_rows=random.choice((5, 20, 1_000)),
        longest_pause_s=random.choice((0.5, 5.0)),
        batch_bytes=0,
    )


def drawn_leases(random: Random) -> LeasePlan | None:
    """One run in two has some."""
    if random.random() > 1 / 2:
        return None
    return LeasePlan(
        members=random.randint(2, 3),
        lease_ms=random.choice((2_000, 10_000, 30_000)),
        longest_pause_s=random.choice((0.2, 2.0, 10.0)),
        timeout_ms=random.choice((500, 5_000)),
        begins_anew=random.choice((0.0, 0.05)),
    )


def drawn_weather(random: Random) -> Weather:
    return Weather(
        latency_s=random.choice((0.0002, 0.001, 0.01)),
        slow_pieces=random.choice((0.0, 0.0, 0.01, 0.1)),
        slowest_s=random.choice((0.1, 1.0, 5.0)),
        cuts=random.choice((0.0, 0.0, 0.3, 1.0)),
        window_bytes=random.choice((256, 4_096, 65_536)),
    )


def drawn_faults(random: Random) -> dict[str, float]:
    means = {}
    for kind in (*NODE_FAULTS, *NETWORK_FAULTS, *LATE_FAULTS):
        mean_s = random.uniform(SHORTEST_MEAN_S, LONGEST_MEAN_S)
        if random.random() < 0.5:
            means[kind] = mean_s
    return means
