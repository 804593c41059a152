"""Who writes: what Spark tells a task about its query and batch, and what a task tells the driver about itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.txn import HeldAttempt
from rmqspark.protocol.names import stream_transactional_id
from rmqspark.streaming_batch import StreamingBatch, streaming_batch
from rmqspark.travelling import Travelling

if TYPE_CHECKING:
    from rmqspark.entropy import Entropy
    from rmqspark.sink.transaction_options import TransactionOptions

_NO_BATCH = -1


class Attempt(NamedTuple):
    """One attempt of one task at its part of one version. Plain data, pickled into commit messages.

    `name` is never given twice. `epoch` 0: it was not allowed to write. `query_id` and `batch_id` are those of the
    streaming query that writes, also where it does so in `foreachBatch` under an id and version of its own.
    """

    transactional_id: str
    run: str
    version: int
    partition: int
    name: str
    epoch: int = 0
    query_id: str = ""
    batch_id: int = _NO_BATCH


@dataclass
class AttemptWritten(Travelling, WriterCommitMessage):
    """What one task leaves to the driver: who it was, what it saw, and what the brokers hold of it.

    `skipped`: the version is stale, and the user said that such are to be skipped. `topic`: "" where a column says it.
    `coordinator` and `masters`: who owns the id, and where brokers are (the first partition says it for all), for a
    driver that can ask no name server.
    """

    attempt: Attempt
    rows: int = 0
    checksum: int = 0
    held: dict[str, HeldAttempt] = field(default_factory=dict)  # by broker name
    skipped: bool = False
    topic: str = ""
    coordinator: str = ""
    masters: dict[str, str] = field(default_factory=dict)


def attempt_of_task(transaction: TransactionOptions, run: str, entropy: Entropy) -> Attempt:
    """The attempt that this process's task is. `run` names the write where Spark has no name for it."""
    context = TaskContext.get()
    if context is None:
        raise InvalidArgument("A sink writes in a Spark task.")
    return attempt_of(context, streaming_batch(context), transaction, run, entropy)


def attempt_of(
    context: TaskContext, batch: StreamingBatch | None, transaction: TransactionOptions, run: str, entropy: Entropy
) -> Attempt:
    query_id, batch_id, run_id = batch or StreamingBatch("", _NO_BATCH, "")
    return Attempt(
        transaction.transactional_id or stream_transactional_id(query_id),
        run_id or run,
        batch_id if transaction.version is None else transaction.version,
        context.partitionId(),
        f"{context.taskAttemptId()}-{entropy.token(8).hex()}",
        query_id=query_id,
        batch_id=batch_id,
    )
