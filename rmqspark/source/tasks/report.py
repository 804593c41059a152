"""What a read task tells the brokers: which messages which batch of which query reads.

A sink of ours has it recorded in the same decision as what the batch writes, and audit, hand-over after a crash and
the group's committed offsets rest on it. Two brokers are told, each in one small request: the one that is read from,
and another. Whichever is away when the batch is committed, the other knows. A read does not fail because neither could
be told: then the record of that batch has a gap, and this a warning. Under a lease it does, once a broker that is
being restarted has been waited for as long as for anything else that a stream needs: what is not said, the coordinator
cannot look at, and would commit what another member reads too.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark import TaskContext

from rmqspark.client.cluster.patience import Patience, patiently
from rmqspark.client.spark.txn import input_keepers, report_input
from rmqspark.errors import NotWritable, RmqError
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.source.retry import RetryPolicy
from rmqspark.streaming_batch import StreamingBatch, streaming_batch

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.partitions import QueueLease
    from rmqspark.source.queue_range import QueueRange

_PATIENCE = Patience((100, 400, 800, 1_600))
_USUAL = RetryPolicy()

_log = logging.getLogger(__name__)


def report(
    client: ClusterClient,
    read: Sequence[QueueRange],
    held: Sequence[QueueLease],
    silent: Collection[str] = (),
    retry: RetryPolicy = _USUAL,
) -> None:
    """Reports the ranges that this task reads, each under its lease, if it works for a micro-batch. Brokers that are
    known to be `silent` are not told, where another one is: each task would wait for them in vain."""
    context = TaskContext.get()
    batch = None if context is None else streaming_batch(context)
    if batch is not None:
        tell(client, batch, read, held, silent, retry)


def tell(
    client: ClusterClient,
    batch: StreamingBatch,
    read: Sequence[QueueRange],
    held: Sequence[QueueLease],
    silent: Collection[str] = (),
    retry: RetryPolicy = _USUAL,
) -> None:
    """Reports ranges of one broker for a batch, patiently.

    Of a queue that is read under a lease somebody has to be told: raises what the last try did in the time that `retry`
    gives to what is under way.
    """
    keepers = input_keepers(client, batch.query_id, read[0].queue.broker_name)
    keepers = [keeper for keeper in keepers if keeper.name not in silent] or keepers
    pieces = [_input_range(batch, *each) for each in zip(read, held, strict=True)]
    failures = [failure for keeper in keepers if (failure := _failure(client, keeper, batch, pieces)) is not None]
    if len(failures) < len(keepers):
        return
    if any(each.number for each in held):
        patiently(lambda: _tell_any(keepers, batch, pieces), retry.under_way, client.clock, besides=(NotWritable,))
        return
    ranges = ", ".join(f"{each.start} to {each.end} of {each.queue}" for each in read)
    _log.warning("That batch %d reads offsets %s could not be reported: %s", batch.batch_id, ranges, failures[0])


def _tell_any(keepers: Sequence[BrokerClient], batch: StreamingBatch, pieces: list[InputRange]) -> None:
    """Raises what the last of them did where none could be told."""
    failure: RmqError | None = None
    for keeper in keepers:
        try:
            if _report_to(keeper, batch, pieces):
                return
            failure = _no_master(keeper)
        except RmqError as error:
            failure = error
    if failure is not None:
        raise failure


def _failure(
    client: ClusterClient, keeper: BrokerClient, batch: StreamingBatch, pieces: list[InputRange]
) -> RmqError | None:
    """Why this keeper could not be told, if it could not."""
    try:
        is_told = patiently(lambda: _report_to(keeper, batch, pieces), _PATIENCE, client.clock)
    except RmqError as error:
        return error
    return None if is_told else _no_master(keeper)


def _no_master(keeper: BrokerClient) -> NotWritable:
    return NotWritable(f"Of broker {keeper.name} only a slave is there, which takes no reports.")


def _report_to(keeper: BrokerClient, batch: StreamingBatch, pieces: list[InputRange]) -> bool:
    """Stock brokers keep no such thing and are not asked to; a slave's master is not waited for, for each batch would
    wait as long."""
    able = keeper.capabilities()
    if able.transactions and not able.is_slave:
        report_input(keeper, batch.query_id, batch.batch_id, pieces).result().raise_for_code()
    return not able.is_slave


def _input_range(batch: StreamingBatch, read: QueueRange, held: QueueLease) -> InputRange:
    piece = InputRange(
        held.group, *read.queue, read.start, read.end, topicEpoch=held.epoch, topicDeleted=read.topic_deleted_ms
    )
    if held.number:
        piece.member, piece.lease = held.member, held.number
        piece.run, piece.leaseRun = batch.run_id, held.run
    return piece
