"""What a task does with its partition: says what it reads, reads it, and gives it to Spark as Arrow batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.client.shared import shared_client
from rmqspark.source.columns import columns_of
from rmqspark.source.fetch import fetch
from rmqspark.source.leases import make_sure
from rmqspark.source.partitions import DirectPartition, QueuePartition
from rmqspark.source.report import report
from rmqspark.spark_worker import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from rmqspark.source.options import SourceOptions


def read_of_batch(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """The same, told to the broker first: which messages which batch of which query reads."""
    if isinstance(partition, (QueuePartition, DirectPartition)):
        report(shared_client(options.namesrv), partition.ranges, partition.held)
    return read(partition, options, schema)


def read(partition: InputPartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """The messages of a partition. Raises DataLoss, LeaseLost, and what a last try raised."""
    if not isinstance(partition, (QueuePartition, DirectPartition)):  # what Spark plans where there is nothing to read
        return
    client = shared_client(options.namesrv)
    make_sure(client, partition.ranges, partition.held, options.retry)
    if isinstance(partition, DirectPartition):
        from rmqspark.source.direct import read_direct  # brings the store, which few queries need

        yield from read_direct(partition, options, schema)
    else:
        columns = columns_of(options, schema, partition.range.queue)
        settle()
        for records in fetch(client, partition.range, options):
            yield from columns.batches(records)
    make_sure(client, partition.ranges, partition.held, options.retry)
