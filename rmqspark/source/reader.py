"""What Spark calls to read: batch and streaming reader. Glue: options, offsets and ranges in, Arrow batches out.

Spark constructs a reader several times, in processes of their own, one of which does no more than pickle it into the
tasks. So a reader begins as plain data; the driver's state is made at the first call that needs it, connections belong
to the process (`client.cluster.shared`), and to tasks goes the schema alone: what else they go by is in their
partitions. Each process imports what it does, in the calls themselves.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from rmqspark.travelling import Travelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from rmqspark.source.options import SourceOptions
    from rmqspark.source.planning.progress import Progress


class RmqReader(Travelling, DataSourceReader):
    """Reads topics once, from one offset of each queue to another."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges to read, fixed when the query is planned."""
        from rmqspark.source.driver import batch_partitions

        return batch_partitions(self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from rmqspark.source.tasks.task import read

        return read(partition, self._schema)


class RmqStreamReader(Travelling, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics for as long as the query runs.

    Options and schema are checked at whatever Spark asks first, not before: where `DataSource.streamReader` raises,
    Spark 4.2 stops the reader that it did not get, and what the user reads at the end is an UnboundLocalError.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._given = given
        self._schema = schema
        self._started: Progress | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_schema": self._schema}

    @cached_property
    def _options(self) -> SourceOptions:
        from rmqspark.source.options import SourceOptions
        from rmqspark.source.values.value_schema import check_read_schema

        options = SourceOptions.parse(self._given, streaming=True)
        check_read_schema(self._schema, options.values)
        return options

    @property
    def _progress(self) -> Progress:
        if self._started is None:
            from rmqspark.source.driver import progress_of

            self._started = progress_of(self._options)
        return self._started

    def initialOffset(self) -> dict[str, Any]:
        return self._progress.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits there are: Spark has no word for several at a time. It only hands it back."""
        limits = self._options.limits
        if limits.max_rows is not None:
            return ReadMaxRows(limits.max_rows)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadMinRows(limits.min_rows) if limits.min_rows is not None else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """All limits hold together, unless Spark asks for everything, as Trigger.Once does."""
        from rmqspark.source.offsets import Offsets

        limits = None if isinstance(limit, ReadAllAvailable) else self._options.limits
        return self._progress.latest(Offsets.from_json(start), limits).to_json()

    def reportLatestOffset(self) -> dict[str, Any]:
        return self._progress.newest().to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._progress.pin()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from rmqspark.source.driver import stream_partitions
        from rmqspark.source.offsets import Offsets

        return stream_partitions(self._options, self._progress, Offsets.from_json(start), Offsets.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from rmqspark.source.tasks.task import read_of_batch

        return read_of_batch(partition, self._schema)

    def stop(self) -> None:
        if self._started is not None:
            self._started.leave()
