"""Law 13: what a query has read is in its target, each row once, in the order of its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.source.tasks import task
from rmqspark.source.tasks.report import tell
from rmqspark.testing.sim.expired import messages_of
from rmqspark.testing.sim.plots import PlacesAndReaders, names_in
from rmqspark.testing.sim.readers import QueueReader
from rmqspark.testing.sim.spark_query import Copies, Driver, name_by_content, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.spark_plan import SparkPlan
    from rmqspark.testing.sim.world import World


class SparkPlot(PlacesAndReaders):
    """A query copies what producers send."""

    def __init__(
        self,
        world: World,
        cluster: Cluster,
        plan: SparkPlan,
        source: Sequence[MessageQueue],
        target: Sequence[MessageQueue],
        reader: SimClient,
    ) -> None:
        super().__init__(world, reader.namesrvs)
        self._cluster = cluster
        self._fails_on_loss = plan.fails_on_loss and world.masters_move
        self._named: dict[MessageQueue, list[str]] = {}
        self._source = source
        self._copies = copies = Copies(world)
        self.topics = [target[0].topic]
        self.readers = [QueueReader(reader, queue, on_seen=self._in_order(queue)) for queue in target]
        self.add_place(
            "query",
            "127.0.4.1",
            lambda process: Driver(process, plan, copies, source[0].topic, target[0].topic),
            may_freeze=True,
        )
        world.replaced += [(task, "settle", lambda: None), (task, "report", self._report)]

    def _report(self, client: Any, ranges: Any, held: Any, silent: Any, retry: Any) -> None:
        """Of the task that runs here. Spark would say which batch it works for."""
        tell(client, self._world.threads.running().life.process.batch, ranges, held, silent, retry)

    def _in_order(self, queue: MessageQueue) -> Callable[[str], None]:
        batches = [-1]

        def see(name: str) -> None:
            batch = self._copies.batch_of[name]
            if batch < batches[-1] and self._world.is_whole(queue.broker_name):
                self._world.violated(f"Law 13: batch {batch} comes after {batches[-1]} in {queue}")
            batches.append(batch)

        return see

    def unsettled(self) -> str:
        if not self._goes_on:
            return ""
        missing = self._to_copy() - self.names_seen(self._cluster).keys()
        return f"{len(missing)} rows are not copied" if missing else ""

    @property
    def _goes_on(self) -> bool:
        """Whether it has not ended for its source has lost something, or may have in a slave that was made a master."""
        if self._fails_on_loss and not all(map(self._world.is_unmoved, self._cluster.brokers)):
            return False
        return self._world.has_kept_everywhere

    def _to_copy(self) -> set[str]:
        """What the copies are called of all that is in the source and has not expired."""
        return {
            name
            for queue in self._source
            for offset, name in enumerate(self._names_of(queue), self._world.expired.begin(queue))
            if offset not in self._world.heirs.reused.get(queue, ())
        }

    def _names_of(self, queue: MessageQueue) -> Iterable[str]:
        begin, end = self._world.expired.begin(queue), self._cluster.end_of(queue)
        if not self._world.masters_move:
            return [name_of(queue.broker_name, queue.queue_id, offset) for offset in range(begin, end)]
        known = self._named.setdefault(queue, [])
        if len(known) != end:
            store = self._cluster.store_of(queue)
            known[:] = [
                name_by_content(queue.broker_name, queue.queue_id, each.queue_offset, each.body)
                for each in messages_of(store, queue)
            ]
        return known

    async def judge(self, operator: SimClient) -> None:
        found = await names_in(operator, [reader.queue for reader in self.readers])
        if not self._world.promises_copies and not self._world.has_kept_everywhere:
            return  # what was decided may be forgotten
        for wrong in self._copies.judge(found):
            self._world.violated(f"Law 13: {wrong}")
        if self._goes_on and (missing := sorted(self._to_copy() - found.keys())):
            self._world.violated(f"Law 13: not copied are {missing}")
