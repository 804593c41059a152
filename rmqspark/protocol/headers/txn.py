"""Headers of rmqspark's transactions: who writes, what is decided, how it stands (docs/exactly-once.md).

`transactionalId`, `run`, `epoch` and `version` mean the same everywhere: one sink of one query, one start of it, the
number the coordinator gave that start, the micro-batch. What is listed travels in the bodies of `bodies/txn.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from rmqspark.protocol.headers.types import Header, Int32, Int64

NO_EPOCH: Final = 0  # of a run that was never allowed to write
NO_VERSION: Final = -1
MAX_VERSION: Final = (1 << 63) - 1


class TxnOutcome(StrEnum):
    """How a request about a transaction went. Which of them a request can have stands with its response."""

    WRITE = "WRITE"
    COMMITTED = "COMMITTED"
    ALREADY_COMMITTED = "ALREADY_COMMITTED"
    FENCED = "FENCED"  # another run has taken over, or the version was given up
    STALE = "STALE"  # the version is below the last one
    REFUSED = "REFUSED"  # a participant does not hold what it should; the remark says who and what
    UNKNOWN = "UNKNOWN"  # still open
    REDIRECT = "REDIRECT"  # `coordinator` owns the transactional id
    COMMIT = "COMMIT"  # what COMPLETE is told
    DROP = "DROP"
    ROLLBACK = "ROLLBACK"  # what RESOLVE is told


class TxnPrepareRequestHeader(Header):
    """RMQ_TXN_PREPARE, client to coordinator: one attempt of one partition asks whether it is to write."""

    transactionalId: str
    run: str
    version: Int64
    partition: Int32
    attempt: str
    queryId: str | None = None


class TxnPrepareResponseHeader(Header):
    """WRITE, ALREADY_COMMITTED, FENCED, STALE or REDIRECT. `epoch` is 0 unless WRITE, `lastVersion` -1 if none."""

    outcome: str
    epoch: Int64 = NO_EPOCH
    lastVersion: Int64 = NO_VERSION
    coordinator: str | None = None


class TxnHalfRequestHeader(Header):
    """RMQ_TXN_HALF, client to participant: a bulk (see RMQ_BULK_SEND) to be held until its transaction is decided.

    `sequence` counts from 0 within the attempt and the broker. The same half again is answered as before.
    """

    transactionalId: str
    epoch: Int64
    version: Int64
    partition: Int32
    attempt: str
    sequence: Int32
    topic: str
    queueId: Int32
    count: Int32
    recordSize: Int32
    bodyCrc32: Int64


class TxnHalfResponseHeader(Header):
    """Where the half is held."""

    physicalOffset: Int64


class TxnDecideRequestHeader(Header):
    """RMQ_TXN_DECIDE, client to coordinator; body: TxnDecision. `epoch` 0: no attempt was allowed to write."""

    transactionalId: str
    run: str
    epoch: Int64
    version: Int64


class TxnDecideResponseHeader(Header):
    """COMMITTED, ALREADY_COMMITTED, FENCED, STALE, REFUSED or REDIRECT; body: the recorded TxnDecision, if any.

    `epoch` is the decision's. `incomplete` counts the brokers on which its rows are not readable yet. The remark says
    why it is REFUSED; with FENCED, why the version was given up, if neither another run nor a driver is the reason.
    """

    outcome: str
    epoch: Int64 = NO_EPOCH
    lastVersion: Int64 = NO_VERSION
    incomplete: Int32 = 0
    coordinator: str | None = None


class TxnVoteRequestHeader(Header):
    """RMQ_TXN_VOTE, coordinator to participant; body: TxnVote. Are these attempts held as a whole, and on disk?

    And is version `completed` complete here (-1: no matter)? The coordinator forgets it after a yes.
    `coordinator` is who asks: whoever has voted must know whom to ask what became of it.
    """

    transactionalId: str
    epoch: Int64
    version: Int64
    completed: Int64
    coordinator: str | None = None


class TxnVoteResponseHeader(Header):
    """`yes` once all is on disk, to stay until the coordinator says otherwise; else the remark says what is missing.

    `outputBytes`: how long the output ranges of the version here will be in an event, at most.
    """

    yes: bool
    outputBytes: Int64 = 0


class TxnCompleteRequestHeader(Header):
    """RMQ_TXN_COMPLETE, coordinator to participant; body: TxnComplete. Answer's body: OutputRanges.

    `outcome` COMMIT: the attempts listed, of exactly this epoch and version, go to their topics; all other halves of
    the transactional id up to this version are dropped. DROP: all of them are that have no newer epoch.

    The answer comes when the rows are readable; with `durable`, when they are on disk besides.
    """

    transactionalId: str
    epoch: Int64
    version: Int64
    outcome: str
    durable: bool


class TxnStatusRequestHeader(Header):
    """RMQ_TXN_STATUS, to the coordinator. `fence`: what is undecided is closed before the answer (a driver's question).

    A participant that checks back says false, and leaves `run` out.
    """

    transactionalId: str
    epoch: Int64
    version: Int64
    fence: bool
    run: str | None = None


class TxnStatusResponseHeader(Header):
    """COMMITTED (body: TxnDecision), FENCED (the remark as for DECIDE), UNKNOWN or REDIRECT.

    `epoch` is the decision's: halves of that version under another epoch are not in it. Without a decision it is the
    newest one handed out; 0 where that is not known.
    """

    outcome: str
    epoch: Int64 = NO_EPOCH
    lastVersion: Int64 = NO_VERSION
    coordinator: str | None = None


class TxnAbortRequestHeader(Header):
    """RMQ_TXN_ABORT, client to coordinator: closes the version unless it is decided."""

    transactionalId: str
    run: str
    epoch: Int64
    version: Int64


class TxnAbortResponseHeader(Header):
    """FENCED, COMMITTED (too late, nothing was done) or REDIRECT."""

    outcome: str
    coordinator: str | None = None


class TxnListRequestHeader(Header):
    """RMQ_TXN_LIST; answer's body: TxnStates. `cursor` is where the last answer left off."""

    limit: Int32
    transactionalId: str | None = None
    cursor: str | None = None


class TxnResolveRequestHeader(Header):
    """RMQ_TXN_RESOLVE: an operator's decision, COMMIT or ROLLBACK, for an open version. `who` is recorded."""

    transactionalId: str
    version: Int64
    decision: str
    who: str


class TxnResolveResponseHeader(Header):
    """COMMITTED, FENCED (rolled back), REFUSED (the remark says why) or REDIRECT."""

    outcome: str
    coordinator: str | None = None


class TxnFindRequestHeader(Header):
    """RMQ_TXN_FIND, broker to broker: is the transactional id yours? `brokerName` is who asks, and may own it next."""

    transactionalId: str
    brokerName: str | None = None


class TxnFindResponseHeader(Header):
    """`found`, or about to be: `adopting`. Body: BrokersSeen. `brokerName` is who answers; addresses change hands. As a
    participant it takes nothing of an epoch below `newestEpoch`, and has completed all versions up to `completed`."""

    found: bool
    adopting: bool
    brokerName: str
    newestEpoch: Int64 = NO_EPOCH
    completed: Int64 = NO_VERSION


class TxnReportInputRequestHeader(Header):
    """RMQ_TXN_REPORT_INPUT, from a read task; body: InputRanges. No header in the answer."""

    queryId: str
    batchId: Int64


class TxnInputsRequestHeader(Header):
    """RMQ_TXN_INPUTS: what was reported; answer's body: InputRanges."""

    queryId: str
    batchId: Int64


class TxnAuditRequestHeader(Header):
    """RMQ_TXN_AUDIT; answer's body: AuditedBatches, oldest first. `cursor` is where the last answer left off."""

    limit: Int32
    transactionalId: str | None = None
    queryId: str | None = None
    cursor: str | None = None


class TxnGroupOffsetsRequestHeader(Header):
    """RMQ_TXN_GROUP_OFFSETS, broker to broker, of queues that were leased to members of a shared group; bodies of
    request and answer: LeasedQueues."""

    consumerGroup: str


class TxnGroupOffsetsResponseHeader(Header):
    """`brokerName` is who answers; addresses change hands."""

    brokerName: str
