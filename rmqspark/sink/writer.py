"""What Spark calls to write: batch and streaming writer. Glue: options and Arrow batches in, commit messages out.

Rows are in their queues when a task ends, so `commit` has nothing left to do, and `abort` cannot take anything back:
a batch that is run again writes its rows again (deliveryGuarantee=at-least-once).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rmqspark.client.shared import shared_client
from rmqspark.errors import InvalidArgument
from rmqspark.sink.options import SinkOptions
from rmqspark.sink.schema import check_columns
from rmqspark.sink.task import WriteTask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)


@dataclass
class RowsWritten(WriterCommitMessage):
    """What one task wrote: rows, bytes of records, and rows by queue."""

    rows: int
    bytes: int
    queues: dict[str, int]


def check_write(schema: StructType, given: Mapping[str, str], overwrite: bool) -> SinkOptions:
    """The options of a write that can be carried out. Raises InvalidArgument or NotSupported."""
    options = SinkOptions.parse(given)
    check_columns(schema, options)
    if overwrite:
        raise InvalidArgument(
            "A topic cannot be overwritten, only appended to.",
            hint='Write with .mode("append"), or in outputMode append or update.',
        )
    return options


class RmqWriter(DataSourceArrowWriter):
    """Appends a DataFrame to topics."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _report("The write", messages)


class RmqStreamWriter(DataSourceStreamArrowWriter):
    """Appends the micro-batches of a streaming query to topics."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _write(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _report(f"Batch {batchId}", messages)


def _write(options: SinkOptions, batches: Iterator[Any]) -> RowsWritten:
    written = WriteTask(shared_client(options.namesrv), options).write(batches)
    return RowsWritten(written.rows, written.bytes, written.queues)


def _report(what: str, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = [message for message in messages if isinstance(message, RowsWritten)]
    rows, size_bytes = sum(message.rows for message in done), sum(message.bytes for message in done)
    queues = {queue for message in done for queue in message.queues}
    _log.info("%s wrote %d rows (%d bytes) to %d queues.", what, rows, size_bytes, len(queues))
