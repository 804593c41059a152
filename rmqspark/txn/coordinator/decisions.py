"""Decisions as a ledger has them: looked at before they are taken, told to auditors, and in short when all is done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rmqspark.errors import TransactionError
from rmqspark.protocol.bodies.txn import AuditedBatch, InputRange, TxnDecision, last_ranges
from rmqspark.protocol.names import MAX_TRANSACTIONAL_ID_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.protocol.bodies.txn import OutputRange
    from rmqspark.txn.coordinator.events import Pending, Transaction

_FEW_QUEUES: Final = 32
_CHECKSUM: Final = re.compile("[0-9]{1,20}")  # of 64 bits


def check_decision(decision: TxnDecision) -> None:
    """Raises TransactionError unless each partition counts once: all its rows come from one attempt, on whichever
    brokers. And what is remembered of a decision for good has the length that such things have."""
    texts = [decision.queryId, decision.topic, decision.leasedQueues, decision.run, *decision.participants]
    if max(map(len, texts)) > MAX_TRANSACTIONAL_ID_LENGTH or not _CHECKSUM.fullmatch(decision.checksum):
        raise TransactionError("The decision has names, or a checksum, that are none.")
    attempts: dict[int, str] = {}
    rows = 0
    for broker, held in decision.participants.items():
        if not held:
            raise TransactionError(f"The decision names {broker!r}, and no attempt there.")
        if len({attempt.partition for attempt in held}) != len(held):
            raise TransactionError(f"The decision names a partition on {broker!r} twice.")
        for attempt in held:
            if attempt.halves < 1 or attempt.rows < 1:
                raise TransactionError(f"Attempt {attempt.attempt} of partition {attempt.partition} counts no rows.")
            if attempts.setdefault(attempt.partition, attempt.attempt) != attempt.attempt:
                raise TransactionError(f"The decision names two attempts of partition {attempt.partition}.")
            rows += attempt.rows
    if rows != decision.rows:
        raise TransactionError(f"The decision is about {decision.rows} rows, its attempts have {rows}.")


def audited(
    txn: Transaction, pending: Pending, outputs: Mapping[str, list[OutputRange]], *, completed: bool
) -> AuditedBatch:
    """What an audit is told of a decision, with the outputs known so far, by broker."""
    decision = pending.decision
    return AuditedBatch(
        transactionalId=txn.transactional_id,
        queryId=decision.queryId,
        version=pending.version,
        decidedAtMs=pending.at_ms,
        decidedBy=pending.by,
        rows=decision.rows,
        bytes=decision.bytes,
        checksum=decision.checksum,
        inputs=decision.inputs,
        outputs=[output for some in outputs.values() for output in some],
        completed=completed,
        ownVersion=decision.ownVersion,
    )


def figures(decision: TxnDecision) -> TxnDecision:
    """What a run that repeats the version compares itself with, and where the rows went: how far it has read only if
    that is of few queues, for this is remembered of every id. Of more an audit knows, for as long as the log does."""
    return TxnDecision(
        queryId=decision.queryId,
        participants={broker: [] for broker in decision.participants},
        rows=decision.rows,
        bytes=decision.bytes,
        checksum=decision.checksum,
        inputs=_reached(decision.inputs),
        topic=decision.topic,
        leasedQueues=decision.leasedQueues,
        run=decision.run,
        batchId=decision.batchId,
    )


def _reached(inputs: Iterable[InputRange]) -> list[InputRange]:
    """The last range of each queue, without for whom it was read; nothing where there are many, or names are none."""
    last = last_ranges(inputs)
    longest = max((max(len(topic), len(broker)) for topic, broker, _ in last), default=0)
    if len(last) > _FEW_QUEUES or longest > MAX_TRANSACTIONAL_ID_LENGTH:
        return []
    return [
        InputRange("", *queue, each.fromOffset, each.toOffset, topicEpoch=each.topicEpoch)
        for queue, each in last.items()
    ]
