"""What one attempt of an exactly-once write does: it asks whether it is to write, then sends half batches.

What it is told decides: write; or drain its input, to compare it with what was committed; or drain it for nothing,
where the user says that stale versions are to be skipped; or fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.patience import patiently
from rmqspark.client.spark.coordinator import Coordinator
from rmqspark.errors import Fenced
from rmqspark.fault_points import fault_point
from rmqspark.protocol.headers.txn import TxnOutcome
from rmqspark.sink.rows.checks import check_bodies
from rmqspark.sink.rows.checksum import RowChecksum
from rmqspark.sink.rows.hashes import add_bodies
from rmqspark.sink.rows.rows import body_name, column
from rmqspark.sink.sends.task import WriteTask
from rmqspark.sink.transactions.attempt import Attempt, AttemptWritten
from rmqspark.sink.transactions.half_batches import HalfBatches
from rmqspark.sink.transactions.refusals import cut_off, fenced, stale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.patience import Patience
    from rmqspark.protocol.headers.txn import TxnPrepareResponseHeader
    from rmqspark.sink.options import SinkOptions


def write_attempt(
    client: ClusterClient, options: SinkOptions, attempt: Attempt, batches: Iterable[Any], *, skip_stale: bool = False
) -> AttemptWritten:
    """Raises Fenced, StaleVersion, or what ended the task; nothing of a failed attempt is ever readable."""
    options = options._replace(streaming=options.streaming or bool(attempt.query_id))  # in foreachBatch, too
    answer = _prepared(client, attempt, options.patience)
    fault_point("after_prepare")
    match answer.outcome:
        case TxnOutcome.WRITE:
            written = _written(client, options, attempt._replace(epoch=answer.epoch), batches)
        case TxnOutcome.ALREADY_COMMITTED:
            written = _drained(options, attempt, batches)
        case TxnOutcome.STALE if skip_stale:
            written = replace(_drained(options, attempt, batches), skipped=True)
        case TxnOutcome.STALE:
            raise stale(attempt, answer.lastVersion)
        case _:
            raise fenced(attempt)
    owner = client.coordinators.of(attempt.transactional_id) or ""
    return replace(written, coordinator=owner, masters={} if attempt.partition else client.known_masters())


def _prepared(client: ClusterClient, attempt: Attempt, patience: Patience) -> TxnPrepareResponseHeader:
    coordinator = Coordinator(client, attempt.transactional_id)
    asked = attempt.run, attempt.version, attempt.partition, attempt.name, attempt.query_id or None
    return patiently(lambda: coordinator.prepare(*asked), patience, client.clock)


def _written(client: ClusterClient, options: SinkOptions, attempt: Attempt, batches: Iterable[Any]) -> AttemptWritten:
    halves = HalfBatches(attempt, topics_count=options.topic is None)
    try:
        WriteTask(client, options, halves).write(batches)
    except Fenced as error:
        raise cut_off(attempt) from error
    return AttemptWritten(attempt, halves.total.rows, halves.total.checksum, halves.held, topic=options.topic or "")


def _drained(options: SinkOptions, attempt: Attempt, batches: Iterable[Any]) -> AttemptWritten:
    total = RowChecksum()
    for batch in batches:
        check_bodies(batch, total.rows)
        for topic, rows in _by_topic(batch) if options.topic is None else [(None, batch)]:
            add_bodies(total, column(rows.column(body_name(rows))), topic)
    return AttemptWritten(attempt, total.rows, total.checksum, topic=options.topic or "")


def _by_topic(batch: Any) -> Iterator[tuple[str, Any]]:
    from pyarrow.compute import equal  # dear to import, and few batches are run again

    topics = batch.column("topic").dictionary_encode()
    for number, topic in enumerate(topics.dictionary.to_pylist()):
        yield topic, batch.filter(equal(topics.indices, number))
