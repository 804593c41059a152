"""What a task does with its partition: says what it reads, reads it, and gives it to Spark as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.shared import shared_client
from rmqspark.gathering import gathered
from rmqspark.source.partitions import DirectPartition, QueuePartition
from rmqspark.source.tasks.asking import Asking
from rmqspark.source.tasks.columns import columns_of
from rmqspark.source.tasks.fetch_together import fetch_together
from rmqspark.source.tasks.leases import make_sure
from rmqspark.source.tasks.report import report
from rmqspark.spark_worker import settle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions

BATCH_BYTES = 1 << 20
"""Arrow batches of short ranges are joined up to this size: each costs Spark some hundred microseconds."""


def read_of_batch(partition: InputPartition, schema: StructType) -> Iterator[Any]:
    """The same, told to the broker first: which messages which batch of which query reads. A broker that reading needs
    is waited for before: it is told once it is there."""
    if isinstance(partition, QueuePartition):
        options = partition.options
        client = shared_client(options.namesrv, options.access)
        if not isinstance(partition, DirectPartition) or any(each.number for each in partition.held):
            Asking(client, partition.ranges[0].queue.broker_name, options).able()
        report(client, partition.ranges, partition.held, options.silent, options.retry)
    return read(partition, schema)


def read(partition: InputPartition, schema: StructType) -> Iterator[Any]:
    """The messages of a partition. Raises DataLoss, LeaseLost, and what a last try raised."""
    if not isinstance(partition, QueuePartition):  # what Spark plans where there is nothing to read
        return
    options = partition.options
    client = shared_client(options.namesrv, options.access)
    make_sure(client, partition.ranges, partition.held, options.retry)
    settle()
    if isinstance(partition, DirectPartition):
        from rmqspark.source.tasks.direct import read_direct  # brings the store, which few queries need

        yield from read_direct(partition, schema)
    else:
        batches = _from_broker(client, partition.ranges, options, schema)
        yield from batches if len(partition.ranges) == 1 else gathered(batches, lambda _: BATCH_BYTES)
    make_sure(client, partition.ranges, partition.held, options.retry)


def _from_broker(
    client: ClusterClient, wanted: Sequence[QueueRange], options: TaskOptions, schema: StructType
) -> Iterator[Any]:
    columns = columns_of(options, schema, *(each.queue for each in wanted))
    for records in fetch_together(client, wanted, options):
        yield from columns.batches(records)
