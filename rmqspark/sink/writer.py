"""What Spark calls to write: batch and streaming writer. Glue: options in, and the guarantee that they ask for.

A writer is pickled into tasks. A streaming writer that commits is another object than the one that planned the write,
in a process of its own; what it must know is in the commit messages. Each of these processes imports what it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from rmqspark.travelling import Travelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from rmqspark.sink.at_least_once import WriteAtLeastOnce
    from rmqspark.sink.exactly_once import WriteExactlyOnce
    from rmqspark.sink.options import SinkOptions


def check_write(schema: StructType, given: Mapping[str, str], overwrite: bool, *, streaming: bool) -> SinkOptions:
    """The options of a write that can be carried out. Raises InvalidArgument or NotSupported.

    To Spark a stream in complete mode overwrites with each batch; to a topic it sends the whole result once more, as
    Kafka's sink does.
    """
    from rmqspark.sink.options import SinkOptions
    from rmqspark.sink.schema import check_columns

    options = SinkOptions.parse(given, streaming=streaming)
    check_columns(schema, options)
    if overwrite and not streaming:
        from rmqspark.errors import InvalidArgument

        raise InvalidArgument(
            "A topic cannot be overwritten, only appended to.",
            hint='Write with .mode("append").',
        )
    return options


def guarantee(options: SinkOptions) -> WriteAtLeastOnce | WriteExactlyOnce:
    """How the rows are written, with a fresh name for this run of it."""
    if options.transaction is None:
        from rmqspark.sink.at_least_once import WriteAtLeastOnce

        return WriteAtLeastOnce(options)
    from rmqspark.entropy import SystemEntropy
    from rmqspark.sink.exactly_once import WriteExactlyOnce

    return WriteExactlyOnce(options, options.transaction, run=SystemEntropy().token(16).hex())


class RmqWriter(Travelling, DataSourceArrowWriter):
    """Appends a DataFrame to topics."""

    def __init__(self, options: SinkOptions) -> None:
        self._guarantee = guarantee(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._guarantee.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._guarantee.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._guarantee.abort(messages)


class RmqStreamWriter(Travelling, DataSourceStreamArrowWriter):
    """Appends the micro-batches of a streaming query to topics."""

    def __init__(self, options: SinkOptions) -> None:
        self._guarantee = guarantee(options)

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._guarantee.write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._guarantee.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        self._guarantee.abort(messages)
