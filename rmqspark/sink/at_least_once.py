"""The at-least-once guarantee: rows are in their queues when a task ends.

So `commit` has nothing left to do, and `abort` cannot take anything back: a batch that is run again writes its rows
again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import WriterCommitMessage

from rmqspark.sink.options import SinkOptions
from rmqspark.spark_worker import settle
from rmqspark.travelling import Travelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_log = logging.getLogger(__name__)


@dataclass
class RowsWritten(Travelling, WriterCommitMessage):
    """What one task wrote: rows, bytes of records, and rows by queue."""

    rows: int
    bytes: int
    queues: dict[str, int]


@dataclass(frozen=True)
class WriteAtLeastOnce:
    """Writes at once. Plain data: it is pickled into every task."""

    options: SinkOptions

    def write(self, batches: Iterable[Any]) -> RowsWritten:
        from rmqspark.client.cluster.shared import shared_client
        from rmqspark.sink.sends.delivery import AtLeastOnce  # both bring NumPy and Arrow, for nobody else
        from rmqspark.sink.sends.task import WriteTask

        settle()
        client = shared_client(self.options.namesrv, self.options.access)
        written = WriteTask(client, self.options, AtLeastOnce(client)).write(batches)
        return RowsWritten(written.rows, written.bytes, written.queues)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        done = [message for message in messages if isinstance(message, RowsWritten)]
        rows, size_bytes = sum(message.rows for message in done), sum(message.bytes for message in done)
        queues = {queue for message in done for queue in message.queues}
        _log.info("%d rows (%d bytes) written to %d queues.", rows, size_bytes, len(queues))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _log.warning(
            "The write failed; what its tasks have written stays, and will be there again when it is repeated."
        )
