"""What a seed stands for: which servers, how they are set, what clients do, what goes wrong and how often.

Each kind of fault is left out half of the time: where everything fails at once nothing deep is ever reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Final

from rmqspark.broker.config import BrokerConfig
from rmqspark.remoting.limits import Limits
from rmqspark.store.config import CONSUME_QUEUE_ENTRY_BYTES, StoreConfig
from rmqspark.testing.sim.cluster import Plan
from rmqspark.testing.sim.delays import DelayPlan
from rmqspark.testing.sim.groups import GroupPlan
from rmqspark.testing.sim.network import Weather
from rmqspark.testing.sim.spark_plan import SparkPlan
from rmqspark.testing.sim.transactions import TransactionPlan

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
LATER_FAULTS: Final = ("read fails",)
"""Of a node, in runs of `FIRST_WITH_EXPIRY` and later in which nothing expires: a round of expiry that such a fault
ends leaves places that lead nowhere, which reads step over."""
FIRST_WITH_EXPIRY: Final = 40_000
"""Seeds before are what they were when messages did not expire in any."""
SUCCESSION_FAULTS: Final = ("master lost",)
"""Of a master that has a slave, in half of the runs from `FIRST_WITH_SUCCESSION` on; nothing expires in these."""
FIRST_WITH_SUCCESSION: Final = 50_000
FAULTS: Final = (*NODE_FAULTS, *NETWORK_FAULTS, *LATE_FAULTS, *LATER_FAULTS, *SUCCESSION_FAULTS)
_SHORTEST_MEAN_S: Final = 3.0
_LONGEST_MEAN_S: Final = 40.0
_SMALLEST_FOR_DECISIONS: Final = 16 << 10
_LONG_RESERVED_H: Final = 2
_AT_ANY_HOUR: Final = ";".join(map(str, range(24)))


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


@dataclass(frozen=True)
class Draw:
    """A run, before it is run. `mean_s` is how long each kind of fault takes to come, on the average."""

    seed: int
    plan: Plan = field(default_factory=Plan)
    workload: Workload = field(default_factory=Workload)
    weather: Weather = field(default_factory=Weather)
    slowest_work_s: float = 0.005
    permutes: bool = False
    is_stopped_in_order: bool = True
    mean_s: dict[str, float] = field(default_factory=dict)
    group: GroupPlan | None = None
    transactions: TransactionPlan | None = None
    delays: DelayPlan | None = None
    spark: SparkPlan | None = None

    @property
    def syncs_flush(self) -> bool:
        return self.plan.store.syncs_flush

    @property
    def expires(self) -> bool:
        """Whether messages do while it runs."""
        return self.plan.store.file_reserved_time < _LONG_RESERVED_H

    @property
    def masters_move(self) -> bool:
        """Whether slaves are made masters while it runs."""
        return any(kind in self.mean_s for kind in SUCCESSION_FAULTS)

    @property
    def keeps_acknowledged(self) -> bool:
        """Whether what is acknowledged outlives a power loss, and a master's disk where that is lost."""
        return self.syncs_flush and (not self.masters_move or self.plan.broker.waits_for_slaves)

    @property
    def disks_fail(self) -> bool:
        """With an error, not by dying."""
        return any(kind in self.mean_s for kind in ("fsync fails", "write fails", "disk full", "read fails"))

    @property
    def offsets_saved_after_s(self) -> float:
        """How long it may take until an offset that was committed is on disk."""
        if self.disks_fail:
            return inf
        return self.plan.broker.flush_consumer_offset_interval / 1000 + 2 + 10 * self.slowest_work_s

    def __str__(self) -> str:
        plan, load = self.plan, self.workload
        faults = ", ".join(f"{kind} every {mean:.0f} s" for kind, mean in self.mean_s.items()) or "no faults"
        return (
            f"seed {self.seed}: {plan.brokers} brokers with {plan.slaves} slaves, {plan.namesrvs} name servers, "
            f"{plan.broker.broker_role}, {plan.store.flush_disk_type}; {load.producers} producers, "
            f"{load.sends} sends, {load.batch_writers} batch writers; {faults}"
        )


def draw(seed: int) -> Draw:
    """The same for the same seed, with any version of this file that draws in the same order."""
    random = Random(f"{seed}/draw")
    transactions = _transactions(Random(f"{seed}/transactions"))
    plan = _asking(_plan(random), transactions)
    spark = _spark(Random(f"{seed}/spark"))
    if spark is not None:
        plan = _with_room_for_decisions(plan)
        spark = spark._replace(batch_bytes=plan.store.mapped_file_size_commit_log // 4)
    drawn = _drawn(seed, random, plan, transactions, spark)
    of_succession = Random(f"{seed}/succession")
    if seed >= FIRST_WITH_SUCCESSION and of_succession.random() < 1 / 2:
        return _succeeded(drawn, of_succession)
    return _later(drawn, Random(f"{seed}/expiry")) if seed >= FIRST_WITH_EXPIRY else drawn


def _drawn(
    seed: int, random: Random, plan: Plan, transactions: TransactionPlan | None, spark: SparkPlan | None
) -> Draw:
    return Draw(
        seed,
        plan,
        _workload(random),
        _weather(random),
        slowest_work_s=random.choice((0.001, 0.005, 0.05, 8.0)),
        permutes=random.random() < 0.5,
        is_stopped_in_order=random.random() < 0.5,
        mean_s=_faults(random),
        group=_group(Random(f"{seed}/group")),
        transactions=transactions,
        delays=_delays(Random(f"{seed}/delays")),
        spark=spark,
    )


def _later(drawn: Draw, random: Random) -> Draw:
    """What could not be drawn with the rest without changing what earlier seeds are."""
    if random.random() < 1 / 2:
        return _expiring(drawn, random)
    means = dict(drawn.mean_s)
    for kind in LATER_FAULTS:
        mean_s = random.uniform(_SHORTEST_MEAN_S, _LONGEST_MEAN_S)
        if random.random() < 0.5:
            means[kind] = mean_s
    return replace(drawn, mean_s=means)


def _succeeded(drawn: Draw, random: Random) -> Draw:
    """As docs/operations.md has it of those who want to go on with a slave, it has all of the log."""
    role = random.choice(("SYNC_MASTER", "SYNC_MASTER", "ASYNC_MASTER"))
    plan = replace(
        drawn.plan,
        brokers=min(drawn.plan.brokers, 2),
        slaves=1,
        broker=replace(
            drawn.plan.broker, broker_role=role, ha_send_whole_log=True, ha_cut_tail=random.random() < 1 / 2
        ),
        store=replace(drawn.plan.store, flush_disk_type="SYNC_FLUSH"),
    )
    load = replace(drawn.workload, sends=drawn.workload.sends + 40, longest_pause_s=random.choice((1.0, 2.0)))
    means = dict(drawn.mean_s)
    means["master lost"] = random.uniform(_SHORTEST_MEAN_S, _LONGEST_MEAN_S / 2)
    spark = drawn.spark and drawn.spark._replace(fails_on_loss=random.random() < 1 / 2)
    return replace(drawn, plan=plan, workload=load, mean_s=means, spark=spark)


def _expiring(drawn: Draw, random: Random) -> Draw:
    """What has its time goes, at any hour, and it takes so long that some has: an hour is over when a clock is set."""
    size = _SMALLEST_FOR_DECISIONS if drawn.spark is not None else random.choice((4, 8)) << 10
    store = replace(
        drawn.plan.store,
        mapped_file_size_commit_log=size,
        file_reserved_time=random.choice((0, 0, 1)),
        delete_when=_AT_ANY_HOUR,
    )
    load = drawn.workload
    load = replace(
        load, sends=3 * load.sends, longest_pause_s=random.choice((0.3, 1.0)), largest_body=max(400, load.largest_body)
    )
    spark = drawn.spark and drawn.spark._replace(fails_on_loss=False, batch_bytes=size // 4)
    return replace(drawn, plan=replace(drawn.plan, store=store), workload=load, spark=spark)


def _plan(random: Random) -> Plan:
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


def _workload(random: Random) -> Workload:
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


def _group(random: Random) -> GroupPlan | None:
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


def _transactions(random: Random) -> TransactionPlan | None:
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


def _delays(random: Random) -> DelayPlan | None:
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


def _spark(random: Random) -> SparkPlan | None:
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


def _with_room_for_decisions(plan: Plan) -> Plan:
    """What is decided about many queues is one record, which a file of the log has to have room for."""
    size = max(plan.store.mapped_file_size_commit_log, _SMALLEST_FOR_DECISIONS)
    return replace(plan, store=replace(plan.store, mapped_file_size_commit_log=size))


def _asking(plan: Plan, transactions: TransactionPlan | None) -> Plan:
    """The plan, with brokers that ask about half messages as often as is drawn."""
    if transactions is None:
        return plan
    every_ms = transactions.asked_after_ms
    return replace(
        plan, broker=replace(plan.broker, transaction_time_out=every_ms, transaction_check_interval=every_ms)
    )


def _weather(random: Random) -> Weather:
    return Weather(
        latency_s=random.choice((0.0002, 0.001, 0.01)),
        slow_pieces=random.choice((0.0, 0.0, 0.01, 0.1)),
        slowest_s=random.choice((0.1, 1.0, 5.0)),
        cuts=random.choice((0.0, 0.0, 0.3, 1.0)),
        window_bytes=random.choice((256, 4_096, 65_536)),
    )


def _faults(random: Random) -> dict[str, float]:
    means = {}
    for kind in (*NODE_FAULTS, *NETWORK_FAULTS, *LATE_FAULTS):
        mean_s = random.uniform(_SHORTEST_MEAN_S, _LONGEST_MEAN_S)
        if random.random() < 0.5:
            means[kind] = mean_s
    return means
