"""Who has read a message: consumer groups by what they have committed, Spark's batches by the ranges that they told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.spark.queries import name_of, seen_queries
from rmqspark.client.spark.txn import batches_that
from rmqspark.client.tracing.journey import BatchReader, GroupReader, Unknown, Writer
from rmqspark.client.tracing.journey_parts import track
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.client import BROADCASTING
from rmqspark.protocol.bodies.txn import InputRange
from rmqspark.protocol.milliseconds import CLOCKS_DIFFER_MS
from rmqspark.protocol.names import is_system_group

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.queries import SeenQuery
    from rmqspark.client.tracing.journey import Place, Stage
    from rmqspark.model import ReceivedMessage
    from rmqspark.protocol.bodies.txn import AuditedBatch, OutputRange


def groups_about(cluster: ClusterClient, message: ReceivedMessage, at: Place) -> list[GroupReader]:
    """Each group that subscribes to the topic or has read from it, as the message's broker knows it."""
    broker = BrokerAdmin(cluster.broker(at.queue.broker_name))
    groups = [group for group in broker.groups_reading(at.queue.topic) if not is_system_group(group)]
    return [_group_about(broker, group, message, at) for group in sorted(groups)]


def _group_about(broker: BrokerAdmin, group: str, message: ReceivedMessage, at: Place) -> GroupReader:
    topic, _, queue_id = at.queue
    committed = broker.broker.query_offset(group, topic, queue_id)
    connected = broker.consumers(group)
    own_offsets = connected is not None and connected.messageModel == BROADCASTING
    is_past = None if committed is None or own_offsets else committed > at.queue_offset
    tracked = track(topic, message.tags, at.queue_offset, committed, connected)
    return GroupReader(group, tracked, committed, is_past, connected is not None)


def batches_about(
    cluster: ClusterClient, at: Place, half: Stage | None
) -> tuple[list[BatchReader], Writer | None, list[Unknown]]:
    """The batches that read the message, the one that wrote it (`half`: the half batch it came from), and what could
    not be found out."""
    gaps: list[Unknown] = []

    def silent(broker_name: str, error: RmqError) -> None:
        gaps.append(Unknown(f"which batches that {broker_name} coordinates read or wrote it", str(error)))

    def is_about(batch: AuditedBatch) -> bool:
        return _is_writer(batch, half) or _has_read(batch, at)

    try:
        batches = batches_that(cluster, is_about, on_silent=silent)
    except RmqError as error:
        batches = []
        gaps.append(Unknown("which batches read or wrote it", str(error)))
    seen = _seen(cluster, gaps)
    names = {each.known.queryId: name_of(each.known) for each in seen}
    readers = [*committed_readers(batches, at, names)]
    readers += told_readers(seen, at, {each.query_id for each in readers}, gaps)
    return readers, _writer(batches, half, names, gaps), gaps


def _has_read(batch: AuditedBatch, at: Place) -> bool:
    """A batch that was decided before the message was stored has read another one, of a topic of that name before."""
    return batch.decidedAtMs + CLOCKS_DIFFER_MS >= at.stored_ms and any(covers(each, at) for each in batch.inputs)


def covers(each: InputRange | OutputRange, at: Place) -> bool:
    """Whether a range of offsets has this place in it."""
    queue = (each.topic, each.brokerName, each.queueId)
    return queue == tuple(at.queue) and each.fromOffset <= at.queue_offset < each.toOffset


def committed_readers(batches: Iterable[AuditedBatch], at: Place, names: dict[str, str]) -> Iterator[BatchReader]:
    """Of the batches those that read the place, in the order of their decisions."""
    for batch in sorted(batches, key=lambda each: (each.decidedAtMs, each.transactionalId)):
        read = next((each for each in batch.inputs if covers(each, at)), None)
        if read is not None and _has_read(batch, at):
            name = names.get(batch.queryId, "")
            yield BatchReader(
                batch.queryId,
                name,
                read,
                transactional_id=batch.transactionalId,
                version=batch.version,
                decided_ms=batch.decidedAtMs,
                outputs=tuple(batch.outputs),
            )


def told_readers(
    seen: Iterable[SeenQuery], at: Place, known_ids: set[str], gaps: list[Unknown]
) -> Iterator[BatchReader]:
    """The queries that say they read the place in their newest batch, and have not decided it here. Of one that is
    behind the place by now, which batch it was nobody has kept: that goes to `gaps`."""
    for each in seen:
        query_id, told = each.known.queryId, _ranges(each)
        if query_id in known_ids:
            continue
        batch_id, read = next(((batch, read) for batch, read in told if covers(read, at)), (None, None))
        if read is not None:
            yield BatchReader(query_id, name_of(each.known), read, batch_id=batch_id)
        elif any(_is_past(read, at) for _, read in told):
            why = "it is beyond it, and its batches before the newest are recorded only where they write exactly-once"
            gaps.append(
                Unknown(f"whether query {name_of(each.known) or query_id} has read it, and in which batch", why)
            )


def _ranges(seen: SeenQuery) -> list[tuple[int, InputRange]]:
    """What its tasks, and its listener, have told of its newest batch."""
    told = [(seen.known.batchId, each) for each in seen.known.inputs]
    report = seen.known.report
    for queue in report.queues if report is not None else ():
        piece = InputRange(queue.group, queue.topic, queue.brokerName, queue.queueId, queue.fromOffset, queue.toOffset)
        told.append((report.batchId if report is not None else -1, piece))
    return told


def _is_past(read: InputRange, at: Place) -> bool:
    return (read.topic, read.brokerName, read.queueId) == tuple(at.queue) and read.fromOffset > at.queue_offset


def _is_writer(batch: AuditedBatch, half: Stage | None) -> bool:
    return half is not None and (batch.transactionalId, batch.version) == (half.transaction_id, half.version)


def _writer(
    batches: Sequence[AuditedBatch], half: Stage | None, names: dict[str, str], gaps: list[Unknown]
) -> Writer | None:
    """Its half batch says which version of which transactional id it is; the coordinator all the rest."""
    if half is None or half.version is None:
        return None
    batch = next((each for each in batches if _is_writer(each, half)), None)
    if batch is None:
        why = f"no coordinator that answers remembers version {half.version} of {half.transaction_id}"
        gaps.append(Unknown("what the batch had read that wrote it", why))
        return Writer(half.transaction_id, half.version, None, "", None, "", None, ())
    name = names.get(batch.queryId, "")
    if not batch.inputs:
        why = "its source told nothing of what it read, as other sources than ours do"
        gaps.append(Unknown("what the batch had read that wrote it", why))
    return Writer(
        batch.transactionalId,
        batch.version,
        batch.queryId or None,
        name,
        batch.decidedAtMs,
        batch.decidedBy,
        batch.rows,
        tuple(batch.inputs),
    )


def _seen(cluster: ClusterClient, gaps: list[Unknown]) -> list[SeenQuery]:
    def silent(broker_name: str, error: RmqError) -> None:
        gaps.append(
            Unknown(f"which queries that write elsewhere have told {broker_name} that they read it", str(error))
        )

    try:
        return seen_queries(cluster, on_silent=silent)
    except RmqError as error:
        gaps.append(Unknown("which queries that write elsewhere read it", str(error)))
        return []
