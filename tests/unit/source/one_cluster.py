"""A cluster that does as a test says, and the driver of a query over it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqspark.client.cluster.measuring import Extent
from rmqspark.entropy import SystemEntropy
from rmqspark.model import MessageQueue
from rmqspark.source.groups.ownership import WholeGroup
from rmqspark.source.offsets import Offsets, StoreIdentity
from rmqspark.source.options import RetryPolicy, SourceOptions, Subscription
from rmqspark.source.planning.planner import Snapshot
from rmqspark.source.planning.progress import Progress
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.clock import Clock
    from rmqspark.source.queue_range import QueueRange

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
STORE = StoreIdentity("s", 1)
EVERY = Subscription((), pattern="t.*")


class Cluster:
    """Stands in for `ClusterView`, `GroupProgress` and `Rewinds`: a topic whose queues the test sets."""

    def __init__(
        self, ends: dict[MessageQueue, int], begins: dict[MessageQueue, int] | None = None, store: StoreIdentity = STORE
    ) -> None:
        self.ends, self.lowest, self.store = ends, begins or {}, store
        self.looks = 0
        self.recovers_after_looks: int | None = None
        self.by_time: dict[MessageQueue, int] = {}
        self.reports: list[Offsets] = []
        self.deleted: set[str] = set()
        self.committed_offsets: dict[MessageQueue, int | None] = {}
        self.resets: dict[MessageQueue, int] = {}

    def snapshot(
        self, *, fresh: bool = False, missing_topics_allowed: bool = False, outages_allowed: bool = False
    ) -> Snapshot:
        self.looks += 1
        if self.recovers_after_looks is not None and self.looks > self.recovers_after_looks:
            self.ends = dict.fromkeys(self.ends, 100)
        deletions_ms = {("t", "broker-a"): self.store.topic_deleted_ms}
        return Snapshot(dict(self.ends), {"broker-a": self.store}, deletions_ms=deletions_ms)

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset()

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.lowest.get(queue, 0) for queue in queues}

    def ends_of(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        return {queue: self.ends[queue] for queue in queues}

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        return {queue: self.by_time[queue] + timestamp_ms - 5 for queue in queues}

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        return {queue: self.committed_offsets.get(queue) for queue in queues}

    def is_deleted(self, topic: str, broker_names: Iterable[str]) -> bool:
        return topic in self.deleted

    def measure(self, budgets: Sequence[tuple[QueueRange, int]]) -> list[Extent]:
        """Messages of ten bytes each."""
        ends = [min(wanted.end, wanted.start + size // 10) for wanted, size in budgets]
        return [
            Extent(end, 10 * (end - wanted.start), 10 if end < wanted.end else 0)
            for (wanted, _), end in zip(budgets, ends, strict=True)
        ]

    def report(self, reached: Offsets) -> None:
        self.reports.append(reached)

    def due(self, start: Offsets, snapshot: Snapshot, *, is_idle: bool) -> dict[MessageQueue, int]:
        return {queue: offset for queue, offset in self.resets.items() if queue in start.positions}

    def planned(self, end: Offsets, resets: dict[MessageQueue, int]) -> None:
        self.resets = {queue: offset for queue, offset in self.resets.items() if queue not in resets}


def progress(cluster: Cluster, clock: Clock | None = None, **options: object) -> Progress:
    given = SourceOptions(Subscription(("t",)), retry=RetryPolicy(2, 0))
    chosen = replace(given, **options)  # type: ignore[arg-type]
    return Progress(
        chosen, cluster, WholeGroup(cluster), cluster, clock=clock or ManualClock(), entropy=SystemEntropy(1)
    )  # type: ignore[arg-type]


def at(positions: dict[MessageQueue, int], store: StoreIdentity = STORE, epoch: int = 0) -> Offsets:
    return Offsets("g", positions, {("t", "broker-a"): store}, {"t": epoch})
