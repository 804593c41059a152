"""What a read task tells the broker: which messages which batch of which query reads.

A sink of ours has it recorded in the same decision as what the batch writes, and audit, hand-over after a crash and
the group's committed offsets rest on it. It is one small request a task. A read does not fail because it could not be
said: then the record of that batch has a gap, and this a warning. Under a lease it does: what is not said, the
coordinator cannot look at, and would commit what another member reads too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark import TaskContext

from rmqspark.client.patience import patiently
from rmqspark.client.txn import input_keeper, report_input
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies_txn import InputRange
from rmqspark.streaming_batch import StreamingBatch, streaming_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.source.partitions import QueueLease
    from rmqspark.source.queue_range import QueueRange

_PAUSES_MS = (100, 400, 800, 1_600)

_log = logging.getLogger(__name__)


def report(client: ClusterClient, read: Sequence[QueueRange], held: Sequence[QueueLease]) -> None:
    """Reports the ranges that this task reads, each under its lease, if it works for a micro-batch."""
    context = TaskContext.get()
    batch = None if context is None else streaming_batch(context)
    if batch is not None:
        tell(client, batch, read, held)


def tell(client: ClusterClient, batch: StreamingBatch, read: Sequence[QueueRange], held: Sequence[QueueLease]) -> None:
    """Reports ranges for a batch, patiently. Raises what the last try did where a queue is read under a lease."""
    try:
        patiently(lambda: report_batch(client, batch, read, held), _PAUSES_MS, client.clock.sleep_ms)
    except RmqError as error:
        if any(each.number for each in held):
            raise
        ranges = ", ".join(f"{start} to {end} of {queue}" for queue, start, end in read)
        _log.warning("That batch %d reads offsets %s could not be reported: %s", batch.batch_id, ranges, error)


def report_batch(
    client: ClusterClient, batch: StreamingBatch, read: Sequence[QueueRange], held: Sequence[QueueLease]
) -> None:
    """The same for a known batch. Stock brokers keep no such thing and are not asked to."""
    keeper = input_keeper(client, batch.query_id)
    if not keeper.capabilities().transactions:
        return
    pieces = [_input_range(batch, *each) for each in zip(read, held, strict=True)]
    report_input(keeper, batch.query_id, batch.batch_id, pieces).result().raise_for_code()


def _input_range(batch: StreamingBatch, read: QueueRange, held: QueueLease) -> InputRange:
    piece = InputRange(held.group, *read.queue, read.start, read.end, topicEpoch=held.epoch)
    if held.number:
        piece.member, piece.lease, piece.run = held.member, held.number, batch.run_id
    return piece
