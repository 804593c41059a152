"""Bodies of rmqspark's transactions, in standard JSON. Checksums are unsigned 64-bit numbers, as decimal strings."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.base import Body
from rmqspark.protocol.headers.types import Int32, Int64

if TYPE_CHECKING:
    from collections.abc import Iterable


class HeldAttempt(Body):
    """What one attempt has sent to one broker: halves, and rows and bytes in them.

    `digest` is the sum of the halves' `bodyCrc32`, known to both sides without touching a row.
    """

    partition: Int32 = 0
    attempt: str = ""
    halves: Int32 = 0
    rows: Int64 = 0
    bytes: Int64 = 0
    digest: Int64 = 0


class InputRange(Body):
    """Offsets [fromOffset, toOffset) of a queue that a batch has read, on behalf of `group` ("" for none).

    Of a shared group: read by `member` under `lease`, which has to be its own still when the batch is decided, in
    `run` of the query, which the broker that leases has numbered `leaseRun`. A later run of the batch leaves out what
    others have been given since. `topicEpoch` is that of the reader's offsets: it rises where the group was set to
    another place, the topic was made anew, or its broker lost messages that had been read. `topicDeleted` is when a
    topic of this name had last been deleted, ms, as the reader knows: no group is moved in one that is made anew.
    """

    group: str = ""
    topic: str = ""
    brokerName: str = ""
    queueId: Int32 = 0
    fromOffset: Int64 = 0
    toOffset: Int64 = 0
    member: str | None = None
    lease: Int64 | None = None
    run: str | None = None
    leaseRun: Int64 | None = None
    topicEpoch: Int64 | None = None
    topicDeleted: Int64 | None = None


def last_ranges(ranges: Iterable[InputRange]) -> dict[MessageQueue, InputRange]:
    """The last range of each queue that has any messages, whichever group reads it."""
    last: dict[MessageQueue, InputRange] = {}
    for each in sorted(ranges, key=attrgetter("toOffset")):
        if each.toOffset > each.fromOffset:
            last[MessageQueue(each.topic, each.brokerName, each.queueId)] = each
    return last


class OutputRange(Body):
    """Offsets [fromOffset, toOffset) that a batch was given in a queue: all of them, or so many `rows` of them, where
    others wrote to the queue in between. None of them, where so many rows were `deleted` with the topic before."""

    topic: str = ""
    brokerName: str = ""
    queueId: Int32 = 0
    fromOffset: Int64 = 0
    toOffset: Int64 = 0
    rows: Int64 | None = None
    deleted: Int64 | None = None


class InputRanges(Body):
    """RMQ_TXN_REPORT_INPUT, and the answer to RMQ_TXN_INPUTS."""

    inputs: list[InputRange] = []


class OutputRanges(Body):
    """Answers RMQ_TXN_COMPLETE."""

    outputs: list[OutputRange] = []


class BrokersSeen(Body):
    """Answers RMQ_TXN_FIND: every broker of the cluster that the one that answers has ever seen."""

    brokers: list[str] = []


class TxnDecision(Body):
    """RMQ_TXN_DECIDE, and how it is recorded: which attempts count, by broker name, and what went in.

    `topic`: the one that all rows are for; "" where each row says its own. `leasedQueues` stands for the queues of
    shared groups that its run has read, for a later run to know whether it has read the same; "" for none.
    `ownVersion`: the user numbered it, in foreachBatch, and not the stream. It was made in `batchId` of this `run`
    of the query; -1 and a name of its own where there is none.
    """

    queryId: str = ""
    participants: dict[str, list[HeldAttempt]] = {}
    rows: Int64 = 0
    bytes: Int64 = 0
    checksum: str = "0"  # over rows, whatever their order
    inputs: list[InputRange] = []
    topic: str = ""
    leasedQueues: str = ""
    ownVersion: bool = False
    run: str = ""
    batchId: Int64 = -1


class TxnVote(Body):
    """RMQ_TXN_VOTE."""

    attempts: list[HeldAttempt] = []


class AttemptName(Body):
    partition: Int32 = 0
    attempt: str = ""


class TxnComplete(Body):
    """RMQ_TXN_COMPLETE: the attempts that count."""

    attempts: list[AttemptName] = []


class ManualDecision(Body):
    """What an operator has decided for a version: COMMIT or ROLLBACK, by whom and when."""

    version: Int64 = 0
    decision: str = ""
    by: str = ""
    atMs: Int64 = 0


class TxnState(Body):
    """One transactional id as its coordinator sees it. `version` is the newest it heard of, `state` is in words.

    `brokers`, `rows` and `bytes` are those of `version` where it is decided. Its coordinator does not know them while
    it is open; then they are what the brokers hold of it (`HeldVersion`), filled in by who asks them all. `decidedBy`
    and `decidedAtMs` tell of the last decision, or that the version was given up; `manual` of operators' latest ones.
    """

    transactionalId: str = ""
    queryId: str = ""
    coordinator: str = ""
    epoch: Int64 = 0
    version: Int64 = -1
    lastVersion: Int64 = -1
    state: str = ""
    ageMs: Int64 = 0
    brokers: list[str] = []
    rows: Int64 = 0
    bytes: Int64 = 0
    decidedBy: str = ""
    decidedAtMs: Int64 = 0
    manual: list[ManualDecision] = []


class HeldVersion(Body):
    """Rows and bytes of undecided half batches that the broker that answers holds of a version, of all its attempts."""

    transactionalId: str = ""
    epoch: Int64 = 0
    version: Int64 = 0
    rows: Int64 = 0
    bytes: Int64 = 0


class TxnStates(Body):
    """Answers RMQ_TXN_LIST. `cursor` is absent when there is nothing more; `held` comes with the first page."""

    transactions: list[TxnState] = []
    cursor: str | None = None
    held: list[HeldVersion] = []


class AuditedBatch(Body):
    """A decided version: what went in, what came out, and whether all of it is readable. `ownVersion` as decided."""

    transactionalId: str = ""
    queryId: str = ""
    version: Int64 = 0
    decidedAtMs: Int64 = 0
    decidedBy: str = ""
    rows: Int64 = 0
    bytes: Int64 = 0
    checksum: str = "0"
    inputs: list[InputRange] = []
    outputs: list[OutputRange] = []
    completed: bool = False
    ownVersion: bool = False


class AuditedBatches(Body):
    """Answers RMQ_TXN_AUDIT. `cursor` is absent when there is nothing more."""

    batches: list[AuditedBatch] = []
    cursor: str | None = None
