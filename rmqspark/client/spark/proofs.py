"""The proof that a query lost and doubled nothing: its batches as they were decided, and what does not add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.client.spark.audit import Finding, findings, resets, unwritten
from rmqspark.client.spark.queries import check_named, find_query
from rmqspark.client.spark.txn import audited_batches
from rmqspark.errors import NotFound, RmqError
from rmqspark.protocol.bodies.txn import AuditedBatch
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GetMaxOffsetRequestHeader, MaxOffsetResponseHeader

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue

_CONFIRMED_WITHIN_MS: Final = 60_000
_TIMEOUT_MS: Final = 3_000


@dataclass(frozen=True, slots=True)
class Proof:
    """`findings` are faults. `resets` and `unwritten` are none: what was skipped or read again on purpose, and
    versions that foreachBatch has not written. `late` are batches that some broker has not confirmed for long: until it
    does, rows of theirs are not readable there."""

    query: str
    batches: Sequence[AuditedBatch]
    findings: Sequence[Finding]
    resets: Sequence[Finding]
    unwritten: Sequence[Finding]
    late: Sequence[AuditedBatch] = ()

    @property
    def missing(self) -> int:
        """Messages that no batch read."""
        return sum(finding.messages for finding in self.findings if finding.kind == "gap")

    @property
    def doubled(self) -> int:
        """Messages that more than one batch read, or wrote."""
        return sum(finding.messages for finding in self.findings if finding.kind == "duplicate")


def proof(client: ClusterClient, query: str) -> Proof:
    """Of a query by its id, which is known for good, its name or group; or of a transactional id.

    NotFound where no batch of it was committed exactly-once, or all that is known of them has expired.
    """
    batches = _batches(client, query)
    long_ago_ms = client.clock.now_ms() - _CONFIRMED_WITHIN_MS
    late = [batch for batch in batches if not batch.completed and batch.decidedAtMs < long_ago_ms]
    found = findings(batches, partial(deleted_ms, client))
    return Proof(query, batches, found, resets(batches), unwritten(batches), late)


def deleted_ms(client: ClusterClient, queue: MessageQueue) -> int:
    """As the audit asks for it (`audit.DeletedMs`): of a broker that does not answer nothing is known."""
    header = GetMaxOffsetRequestHeader(queue.topic, queue.queue_id, bname=queue.broker_name)
    try:
        answer = client.broker(queue.broker_name).call(RequestCode.GET_MAX_OFFSET, header, timeout_ms=_TIMEOUT_MS)
    except RmqError:
        return 0
    return answer.header(MaxOffsetResponseHeader).topicDeleted or 0


def _batches(client: ClusterClient, query: str) -> list[AuditedBatch]:
    """Those of this id, or of the query that brokers have heard of under this name lately."""
    check_named(query)
    batches = audited_batches(client, query_id=query) or audited_batches(client, transactional_id=query)
    if not batches and (seen := find_query(client, query)) is not None:
        batches = audited_batches(client, query_id=seen.known.queryId)
    if not batches:
        raise NotFound(
            f"No batch of {query!r} is known that was committed exactly-once here.",
            hint="It takes a query's id (the same after every restart), its group, its name if it has a LagListener "
            "(rmq spark list), or a transactional id (rmq txn list). What is known of a batch expires with messages "
            "of its time.",
        )
    return batches
