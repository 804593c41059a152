"""What a seed stands for: which servers, how they are set, what clients do, what goes wrong and how often.

Each kind of fault is left out half of the time: where everything fails at once nothing deep is ever reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from random import Random
from typing import Final

from rmqspark.testing.sim.cluster import Plan
from rmqspark.testing.sim.delays import DelayPlan
from rmqspark.testing.sim.drawn_parts import (
    LATE_FAULTS,
    LONGEST_MEAN_S,
    NETWORK_FAULTS,
    NODE_FAULTS,
    SHORTEST_MEAN_S,
    Workload,
    drawn_delays,
    drawn_faults,
    drawn_group,
    drawn_leases,
    drawn_plan,
    drawn_spark,
    drawn_transactions,
    drawn_weather,
    drawn_workload,
)
from rmqspark.testing.sim.groups import GroupPlan
from rmqspark.testing.sim.leases import LeasePlan
from rmqspark.testing.sim.network import Weather
from rmqspark.testing.sim.spark_plan import SparkPlan
from rmqspark.testing.sim.transactions import TransactionPlan

LATER_FAULTS: Final = ("read fails",)
"""Of a node, in runs of `FIRST_WITH_EXPIRY` and later in which nothing expires: a round of expiry that such a fault
ends leaves places that lead nowhere, which reads step over."""
FIRST_WITH_EXPIRY: Final = 40_000
"""Seeds before are what they were when messages did not expire in any."""
SUCCESSION_FAULTS: Final = ("master lost",)
"""Of a master that has a slave, in half of the runs from `FIRST_WITH_SUCCESSION` on; nothing expires in these."""
FIRST_WITH_SUCCESSION: Final = 50_000
FIRST_WITH_LEASES: Final = 60_000
"""In half of the runs from here on queries share a group."""
FAULTS: Final = (*NODE_FAULTS, *NETWORK_FAULTS, *LATE_FAULTS, *LATER_FAULTS, *SUCCESSION_FAULTS)
_SMALLEST_FOR_DECISIONS: Final = 16 << 10
_LONG_RESERVED_H: Final = 2
_SOON_S: Final = 1.0
_AT_ANY_HOUR: Final = ";".join(map(str, range(24)))


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
    leases: LeasePlan | None = None

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

    @property
    def keeps_leased_offsets(self) -> bool:
        """Whether what is committed under a lease outlives a crash. A broker whose disk fails, or takes longer than a
        sender would wait, goes on with what is in its memory."""
        return not self.disks_fail and self.slowest_work_s < _SOON_S

    def __str__(self) -> str:
        plan, load = self.plan, self.workload
        faults = ", ".join(f"{kind} every {mean:.0f} s" for kind, mean in self.mean_s.items()) or "no faults"
        return (
            f"seed {self.seed}: {plan.brokers} brokers with {plan.slaves} slaves, {plan.namesrvs} name servers, "
            f"{plan.broker.broker_role}, {plan.store.flush_disk_type}; {load.producers} producers, "
            f"{load.sends} sends, {load.batch_writers} batch writers; {faults}"
        )


def draw(seed: int) -> Draw:
    """The same for the same seed, with any version of this file and of `drawn_parts` that draws in the same order."""
    random = Random(f"{seed}/draw")
    transactions = drawn_transactions(Random(f"{seed}/transactions"))
    plan = _asking(drawn_plan(random), transactions)
    spark = drawn_spark(Random(f"{seed}/spark"))
    if spark is not None:
        plan = _with_room_for_decisions(plan)
        spark = spark._replace(batch_bytes=plan.store.mapped_file_size_commit_log // 4)
    drawn = _drawn(seed, random, plan, transactions, spark)
    if seed >= FIRST_WITH_LEASES:
        drawn = _leasing(drawn, drawn_leases(Random(f"{seed}/leases")))
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
        drawn_workload(random),
        drawn_weather(random),
        slowest_work_s=random.choice((0.001, 0.005, 0.05, 8.0)),
        permutes=random.random() < 0.5,
        is_stopped_in_order=random.random() < 0.5,
        mean_s=drawn_faults(random),
        group=drawn_group(Random(f"{seed}/group")),
        transactions=transactions,
        delays=drawn_delays(Random(f"{seed}/delays")),
        spark=spark,
    )


def _leasing(drawn: Draw, leases: LeasePlan | None) -> Draw:
    """Leases are as long as locks are, which members that consume in order renew every 20 s."""
    if leases is None:
        return drawn
    plan = drawn.plan
    if drawn.group is None or not drawn.group.is_ordered:
        plan = replace(plan, broker=replace(plan.broker, consume_group_lock_live_time=leases.lease_ms))
    return replace(drawn, plan=plan, leases=leases)


def _later(drawn: Draw, random: Random) -> Draw:
    """What could not be drawn with the rest without changing what earlier seeds are."""
    if random.random() < 1 / 2:
        return _expiring(drawn, random)
    means = dict(drawn.mean_s)
    for kind in LATER_FAULTS:
        mean_s = random.uniform(SHORTEST_MEAN_S, LONGEST_MEAN_S)
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
    means["master lost"] = random.uniform(SHORTEST_MEAN_S, LONGEST_MEAN_S / 2)
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
