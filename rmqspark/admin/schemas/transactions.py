"""Transactions of Spark's batches, and their proof, as they are shown."""

from __future__ import annotations

from pydantic import Field

from rmqspark.admin.values import Document, Offset, Time
from rmqspark.client.spark.audit import Finding
from rmqspark.client.spark.proofs import Proof
from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange, ManualDecision, OutputRange, TxnState


class ManualView(Document):
    version: Offset
    decision: str
    by: str
    at: Time

    @classmethod
    def of(cls, manual: ManualDecision) -> ManualView:
        return cls(version=manual.version, decision=manual.decision, by=manual.by, at=manual.atMs)


class TransactionView(Document):
    """One transactional id. `open`: its newest version waits for a decision; `rows` and `bytes` are that version's."""

    transactional_id: str
    query_id: str | None
    coordinator: str
    epoch: Offset
    version: Offset
    last_version: Offset | None
    open: bool
    state: str
    age_ms: int
    brokers: list[str]
    rows: int
    bytes: int
    decided_by: str | None
    decided_at: Time | None
    manual: list[ManualView]

    @classmethod
    def of(cls, state: TxnState) -> TransactionView:
        return cls(
            transactional_id=state.transactionalId,
            query_id=state.queryId or None,
            coordinator=state.coordinator,
            epoch=state.epoch,
            version=state.version,
            last_version=None if state.lastVersion < 0 else state.lastVersion,
            open=state.version > state.lastVersion and not _is_given_up(state),
            state=state.state,
            age_ms=state.ageMs,
            brokers=state.brokers,
            rows=state.rows,
            bytes=state.bytes,
            decided_by=state.decidedBy or None,
            decided_at=state.decidedAtMs or None,
            manual=[ManualView.of(each) for each in state.manual],
        )


class OneTransaction(TransactionView):
    """One in full. `silent` are the brokers that do not answer, and why: what they hold is in no figure."""

    silent: dict[str, str]


def _is_given_up(state: TxnState) -> bool:
    """By hand, and no driver has begun it anew since then."""
    by_hand = (each.atMs for each in state.manual if each.version == state.version)
    return state.decidedAtMs > 0 and state.decidedAtMs in by_hand


class DecisionRequest(Document):
    """Which version; without it the one that is open."""

    version: int | None = Field(None, ge=0)


class DecisionView(Document):
    transactional_id: str
    version: Offset
    decision: str
    by: str
    story: str


class RangeView(Document):
    """Offsets [fromOffset, toOffset) of a queue; `rows` of them where others wrote in between; `deleted` with the
    topic."""

    group: str | None = None
    topic: str
    broker_name: str
    queue_id: int
    from_offset: Offset
    to_offset: Offset
    rows: int | None = None
    deleted: int | None = None

    @classmethod
    def read(cls, one: InputRange) -> RangeView:
        return cls(
            group=one.group or None,
            topic=one.topic,
            broker_name=one.brokerName,
            queue_id=one.queueId,
            from_offset=one.fromOffset,
            to_offset=one.toOffset,
        )

    @classmethod
    def written(cls, one: OutputRange) -> RangeView:
        return cls(
            topic=one.topic,
            broker_name=one.brokerName,
            queue_id=one.queueId,
            from_offset=one.fromOffset,
            to_offset=one.toOffset,
            rows=one.rows,
            deleted=one.deleted,
        )


class BatchView(Document):
    """A decided version: what was read, committed and written. `completed`: all of it is readable."""

    transactional_id: str
    version: Offset
    decided_at: Time
    decided_by: str
    rows: int
    bytes: int
    checksum: str
    inputs: list[RangeView]
    outputs: list[RangeView]
    completed: bool

    @classmethod
    def of(cls, batch: AuditedBatch) -> BatchView:
        return cls(
            transactional_id=batch.transactionalId,
            version=batch.version,
            decided_at=batch.decidedAtMs,
            decided_by=batch.decidedBy,
            rows=batch.rows,
            bytes=batch.bytes,
            checksum=batch.checksum,
            inputs=[RangeView.read(each) for each in batch.inputs if each.toOffset > each.fromOffset],
            outputs=[RangeView.written(each) for each in batch.outputs],
            completed=batch.completed,
        )


class FindingView(Document):
    kind: str
    transactional_id: str
    version: Offset
    messages: int
    story: str

    @classmethod
    def of(cls, finding: Finding) -> FindingView:
        return cls(
            kind=finding.kind,
            transactional_id=finding.transactional_id,
            version=finding.version,
            messages=finding.messages,
            story=finding.story,
        )


class ProofView(Document):
    """`findings` are faults; `told` is what is none: resets on purpose, versions that foreachBatch has not written."""

    query: str
    batches: list[BatchView]
    findings: list[FindingView]
    told: list[FindingView]
    rows: int
    missing: int
    doubled: int

    @classmethod
    def of(cls, proof: Proof) -> ProofView:
        return cls(
            query=proof.query,
            batches=[BatchView.of(batch) for batch in proof.batches],
            findings=[FindingView.of(each) for each in proof.findings],
            told=[FindingView.of(each) for each in (*proof.resets, *proof.unwritten)],
            rows=sum(batch.rows for batch in proof.batches),
            missing=proof.missing,
            doubled=proof.doubled,
        )
