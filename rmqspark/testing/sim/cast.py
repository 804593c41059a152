"""Who takes part in a run: the clients, by what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.message_queue import MessageQueue
from rmqspark.testing.sim.batches import BatchWriter
from rmqspark.testing.sim.clients import SimClient
from rmqspark.testing.sim.delays import DelayPlot
from rmqspark.testing.sim.group_offsets import Committer, Possible
from rmqspark.testing.sim.groups import GroupPlot
from rmqspark.testing.sim.leases import LeasePlot
from rmqspark.testing.sim.producers import Producer, SendPlan
from rmqspark.testing.sim.readers import QueueReader
from rmqspark.testing.sim.transactions import TransactionPlot, set_aside_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.draw import Draw
    from rmqspark.testing.sim.plots import Plot
    from rmqspark.testing.sim.replicas import Replicas
    from rmqspark.testing.sim.world import World

TOPIC: Final = "orders"
BATCH_TOPIC: Final = "invoices"
TRANSACTION_TOPIC: Final = "payments"
DELAY_TOPIC: Final = "reminders"
COPY_TOPIC: Final = "copies"
_PATIENT_TRIES: Final = 180  # until a SYNC_MASTER has its slave again, or a name server misses a master that vanished
_PATIENT_MS: Final = 3_000


class Cast:
    """Made with the run; nobody does anything yet."""

    def __init__(self, world: World, draw: Draw, cluster: Cluster, replicas: Replicas) -> None:
        self._world = world
        self._draw = draw
        self._cluster = cluster
        self._replicas = replicas
        self._namesrvs = draw.plan.namesrv_addr.split(";")
        self._clients = 0
        load = draw.workload
        self.queues = self._queues_of(TOPIC)
        self.targets = self._queues_of(BATCH_TOPIC) if load.batch_writers else []
        """Where batches are written to."""
        self.producers = [Producer(self.client("producer"), self._send_plan()) for _ in range(load.producers)]
        self.readers = [
            reader for _ in range(load.readers) for reader in self._readers("reader", self.queues, broker_id=0)
        ]
        for broker_id in range(1, draw.plan.slaves + 1):
            self.readers += self._readers("slave-reader", self.queues, broker_id=broker_id)
        self.writers = [
            BatchWriter(self.client("spark"), self.targets, load.versions) for _ in range(load.batch_writers)
        ]
        self.committers = [self._committer(reader) for reader in self.readers[: len(self.queues)]]
        self.batch_readers = self._readers("batch-reader", self.targets, broker_id=0)
        self.operator = self.client("operator")
        self.plots: list[Plot] = list(self._plots())
        self.hosts = [_host(number) for number in range(1, self._clients + 1)]
        self.hosts += [host for plot in self.plots for host in plot.hosts]

    def _plots(self) -> Iterator[Plot]:
        if self._draw.group is not None:
            yield GroupPlot(self._world, self._cluster, self._draw.group, self.queues, self._namesrvs)
        if self._draw.transactions is not None:
            queues = self._queues_of(TRANSACTION_TOPIC)
            reader = self.client("transaction-reader")
            yield TransactionPlot(self._world, self._cluster, self._draw.transactions, queues, reader)
        if self._draw.delays is not None:
            queues, reader = self._queues_of(DELAY_TOPIC), self.client("delay-reader")
            holds_time = "clock is set" not in self._draw.mean_s
            yield DelayPlot(self._world, self._cluster, self._draw.delays, queues, reader, holds_time=holds_time)
        if self._draw.leases is not None:
            readers, plan = self.readers[: len(self.queues)], self._draw.leases
            members = [self.client("leasing") for _ in range(plan.members)]
            is_durable = self._draw.keeps_leased_offsets
            yield LeasePlot(self._world, self._cluster, plan, readers, members, is_durable=is_durable)

        if self._draw.spark is not None:
            from rmqspark.testing.sim.spark import SparkPlot  # brings Spark

            queues, reader = self._queues_of(COPY_TOPIC), self.client("copy-reader")
            yield SparkPlot(self._world, self._cluster, self._draw.spark, self.queues, queues, reader)

    @property
    def all_queues(self) -> list[MessageQueue]:
        """Of all topics that take part, and of what brokers set aside."""
        topics = [TOPIC, BATCH_TOPIC, *(topic for plot in self.plots for topic in plot.topics)]
        return [
            *(queue for topic in topics for queue in self._queues_of(topic)),
            *map(set_aside_queue, self._cluster.brokers),
        ]

    def client(self, kind: str) -> SimClient:
        """One more, on a host of its own."""
        self._clients += 1
        return SimClient(self._world, f"{kind}-{self._clients}", _host(self._clients), self._namesrvs)

    def patient_producer(self) -> Producer:
        """One that tries until a cluster that works must have taken it."""
        plan = self._send_plan()
        timeout_ms = max(plan.timeout_ms, _PATIENT_MS)
        return Producer(self.client("last"), plan._replace(tries=_PATIENT_TRIES, timeout_ms=timeout_ms))

    def leave_lost_slaves(self) -> None:
        """Nobody goes on reading from slaves that are none any more, or gone."""
        for reader in self.readers:
            reader.is_to_stop = reader.broker_id > len(self._cluster.slaves[reader.queue.broker_name])
        self.readers = [reader for reader in self.readers if not reader.is_to_stop]

    def stop(self) -> None:
        """Readers and committers end with what they are at."""
        for reader in (*self.readers, *self.batch_readers):
            reader.is_to_stop = True
        for committer in self.committers:
            committer.is_to_stop = True

    def _queues_of(self, topic: str) -> list[MessageQueue]:
        return [
            MessageQueue(topic, name, number)
            for name in self._cluster.brokers
            for number in range(self._draw.workload.queues)
        ]

    def _readers(self, kind: str, queues: list[MessageQueue], *, broker_id: int) -> list[QueueReader]:
        """Those of one client, which has one connection to each broker for all of them."""
        client = self.client(kind)
        return [QueueReader(client, queue, broker_id) for queue in queues]

    def _committer(self, reader: QueueReader) -> Committer:
        possible = Possible(self._draw.offsets_saved_after_s)
        return Committer(self.client("committer"), reader, self._cluster, possible)

    def _send_plan(self) -> SendPlan:
        load = self._draw.workload
        return SendPlan(
            TOPIC,
            self.queues,
            load.largest_body,
            load.batches,
            load.longest_pause_s,
            load.tries,
            load.timeout_ms,
            is_durable=self._draw.keeps_acknowledged,
            doubts_refusals=self._draw.disks_fail,
            on_ack=self._replicas.acknowledged if self._draw.plan.broker.waits_for_slaves else None,
        )


def _host(number: int) -> str:
    return f"127.0.8.{number}"
