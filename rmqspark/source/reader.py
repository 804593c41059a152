"""What Spark calls to read: batch and streaming reader. Glue: options, offsets and ranges in, Arrow batches out.

Spark constructs a reader several times and pickles it into tasks, so a reader holds plain data; the driver's state is
made at the first call that needs it, connections belong to the process (`client.shared`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from rmqspark.client.shared import shared_client
from rmqspark.model import MessageQueue
from rmqspark.source.cluster_view import ClusterView
from rmqspark.source.columns import check_bad_records, columns_of
from rmqspark.source.group import GroupProgress
from rmqspark.source.leases import QueueLease, make_sure
from rmqspark.source.offsets import Offsets
from rmqspark.source.ownership import WholeGroup
from rmqspark.source.partitions import DirectPartition
from rmqspark.source.planner import QueueRange, split
from rmqspark.source.planner import ranges as ranges_between
from rmqspark.source.progress import Progress
from rmqspark.source.report import report
from rmqspark.source.rewinds import Rewinds
from rmqspark.source.shared import SharedGroup
from rmqspark.source.start import resolve
from rmqspark.source.termination import exit_when_terminated
from rmqspark.spark_worker import settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.source.options import SourceOptions
    from rmqspark.source.ownership import Ownership


@dataclass
class QueuePartition(InputPartition):
    """One task's share: the messages of one queue from `start` up to, not including, `end`.

    `group` is the consumer group whose offsets move when a batch with these messages is decided, "" for none; `member`
    and `lease` say under what the queue is read for a shared one.
    """

    topic: str
    broker_name: str
    queue_id: int
    start: int
    end: int
    group: str = ""
    member: str = ""
    lease: int = 0

    @property
    def held(self) -> QueueLease:
        return QueueLease(self.group, self.member, self.lease)

    @property
    def range(self) -> QueueRange:
        return QueueRange(MessageQueue(self.topic, self.broker_name, self.queue_id), self.start, self.end)

    @property
    def ranges(self) -> tuple[QueueRange, ...]:
        return (self.range,)


class RmqReader(DataSourceReader):
    """Reads topics once, from one offset of each queue to another."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges to read, fixed when the query is planned."""
        client = shared_client(self._options.namesrv)
        view = ClusterView(client, self._options.subscription, self._options.retry)
        snapshot = view.snapshot()
        now_ms = client.clock.now_ms()
        starts = resolve(self._options.start, snapshot, view, now_ms)
        ends = resolve(self._options.end, snapshot, view, now_ms)
        planned = [
            QueueRange(queue, start, ends[queue]) for queue, start in sorted(starts.items()) if start < ends[queue]
        ]
        check_bad_records(self._options)
        return _partitions(client, planned, self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(partition, self._options, self._schema)


class RmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics for as long as the query runs."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._started: Progress | None = None

    @property
    def _progress(self) -> Progress:
        if self._started is None:
            client = shared_client(self._options.namesrv)
            view = ClusterView(client, self._options.subscription, self._options.retry)
            group: Ownership = WholeGroup(GroupProgress(client, enabled=self._options.commit_offsets))
            if self._options.sharing is not None:
                group = SharedGroup(client, self._options, self._options.sharing)
                exit_when_terminated()
            rewinds = Rewinds(client, self._options.retry)
            self._started = Progress(self._options, view, group, rewinds, clock=client.clock, entropy=client.entropy)
        return self._started

    def initialOffset(self) -> dict[str, Any]:
        return self._progress.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits there are: Spark has no word for several at a time. It only hands it back."""
        limits = self._options.limits
        if limits.max_rows is not None:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMinRows(limits.min_rows) if limits.min_rows is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """All limits hold together, unless Spark asks for everything, as Trigger.Once does."""
        limits = None if isinstance(limit, ReadAllAvailable) else self._options.limits
        return self._progress.latest(Offsets.from_json(start), limits).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._progress.newest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._progress.pin()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        check_bad_records(self._options)
        until = Offsets.from_json(end)
        planned = ranges_between(Offsets.from_json(start), until)
        if self._options.sharing is not None:
            planned = self._progress.hold(planned, until)
        return _partitions(shared_client(self._options.namesrv), planned, self._options, until)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, QueuePartition):
            report(shared_client(self._options.namesrv), partition.ranges, partition.held)
        elif isinstance(partition, DirectPartition):
            report(shared_client(self._options.namesrv), partition.ranges, QueueLease(partition.group, "", 0))
        return _read(partition, self._options, self._schema)

    def stop(self) -> None:
        if self._started is not None:
            self._started.leave()


def _partitions(
    client: ClusterClient, planned: list[QueueRange], options: SourceOptions, until: Offsets | None = None
) -> list[InputPartition]:
    group = until.group if until is not None and options.commit_offsets else ""
    direct: list[InputPartition] = []
    if options.read_mode == "direct":
        from rmqspark.source.direct import plan_direct  # brings the store, which few queries need

        direct, planned = plan_direct(client, planned, options, group)
    pieces = split(planned, at_least=options.min_partitions, max_records=options.max_records_per_partition)
    member, leases = ("", {}) if until is None else (until.member, until.leases)
    return [
        *direct,
        *(
            QueuePartition(*piece.queue, piece.start, piece.end, group, member, leases.get(piece.queue, 0))
            for piece in pieces
        ),
    ]


def _read(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    if isinstance(partition, DirectPartition):
        from rmqspark.source.direct import read_direct

        yield from read_direct(partition, options, schema)
        return
    if not isinstance(partition, QueuePartition):  # what Spark plans where there is nothing to read
        return
    from rmqspark.source.fetch import fetch  # only tasks need it: the driver's processes start without

    columns = columns_of(options, schema, partition.range.queue)
    settle()
    client, queue = shared_client(options.namesrv), partition.range.queue
    make_sure(client, queue, partition.held, options.retry)
    for records in fetch(client, partition.range, options):
        yield from columns.batches(records)
    make_sure(client, queue, partition.held, options.retry)
