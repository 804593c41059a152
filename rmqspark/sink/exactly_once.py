"""The exactly-once guarantee as a writer holds it. The tasks' side is in `attempt_write.py`, the driver's in
`commit.py`; the whole protocol in docs/exactly-once.md.

Planning a write happens in a process of its own, which asks nobody anything, and so does committing each micro-batch,
which has no use for NumPy and Arrow: each of these imports what it does where it begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rmqspark.sink.options import SinkOptions
from rmqspark.sink.transaction_options import TransactionOptions
from rmqspark.spark_worker import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql.datasource import WriterCommitMessage

    from rmqspark.sink.transactions.attempt import AttemptWritten


@dataclass(frozen=True)
class WriteExactlyOnce:
    """Writes in transactions. Plain data: it is pickled into every task.

    `run` names this write where Spark has no name for it: a batch write outside of a streaming query.
    """

    options: SinkOptions
    transaction: TransactionOptions
    run: str

    def write(self, batches: Iterable[Any]) -> AttemptWritten:
        from rmqspark.client.cluster.shared import shared_client
        from rmqspark.sink.transactions.attempt import attempt_of_task
        from rmqspark.sink.transactions.attempt_write import write_attempt  # brings NumPy and Arrow

        settle()
        client = shared_client(self.options.namesrv, self.options.access)
        attempt = attempt_of_task(self.transaction, self.run, client.entropy)
        return write_attempt(client, self.options, attempt, batches, skip_stale=self.transaction.skip_stale)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from rmqspark.client.cluster.shared import shared_client
        from rmqspark.sink.transactions.commit import commit

        commit(shared_client(self.options.namesrv, self.options.access), self.transaction, _of_attempts(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from rmqspark.client.cluster.shared import shared_client
        from rmqspark.sink.transactions.commit import abort

        abort(shared_client(self.options.namesrv, self.options.access), _of_attempts(messages))


def _of_attempts(messages: Sequence[WriterCommitMessage | None]) -> list[AttemptWritten]:
    from rmqspark.sink.transactions.attempt import AttemptWritten

    return [message for message in messages if isinstance(message, AttemptWritten)]
