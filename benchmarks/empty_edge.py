"""A Python source and sink that do nothing: what Spark itself takes for a query with Python on both ends."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

_BATCH_BYTES = 1 << 20


class EmptyEdge(DataSource):
    """`format("empty")`: `partitions` tasks that give `rows` bodies of `bytes` (100) each, once; writing forgets them.

    With `rate` and `seconds` they give together that many bodies a second, for that long. With `settled` the processes
    have the habits of ours (`rmqspark.spark_worker`), and what is left is the bridge's.
    """

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "body binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        partitions = int(self.options["partitions"])
        if "rate" in self.options:
            return SteadyReader(partitions, int(self.options["rate"]), int(self.options["seconds"]))
        sizes = int(self.options["rows"]), int(self.options.get("bytes", 100))
        return EmptyReader(partitions, *sizes, settled="settled" in self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        del schema, overwrite
        return EmptyStreamWriter("settled" in self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        del schema, overwrite
        return EmptyWriter("settled" in self.options)


class EmptyReader(DataSourceStreamReader):
    def __init__(self, partitions: int, rows: int, body_bytes: int, *, settled: bool) -> None:
        self._partitions = partitions
        self._rows = rows
        self._body_bytes = body_bytes
        self._settled = settled

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, Any]:
        return {"at": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        del start, end
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        del partition
        _begin(self._settled)
        batch = bodies(min(self._rows, _BATCH_BYTES // self._body_bytes), self._body_bytes)
        for first in range(0, self._rows, max(1, batch.num_rows)):
            yield batch.slice(0, self._rows - first)


class SteadyReader(DataSourceStreamReader):
    """An offset is a time: `{"at_ms": milliseconds since the epoch}`, from when it was first asked, for whatever."""

    def __init__(self, partitions: int, rate: int, seconds: int) -> None:
        self._partitions = partitions
        self._rate = rate
        self._seconds = seconds

    @cached_property
    def _begun_ms(self) -> int:
        return now_ms()

    def initialOffset(self) -> dict[str, Any]:
        return {"at_ms": self._begun_ms}

    def latestOffset(self) -> dict[str, Any]:
        return {"at_ms": min(max(now_ms(), self._begun_ms), self._begun_ms + self._seconds * 1000)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Rows are what is between two times at the rate, none twice: both ends are rounded alike."""
        return [
            InputPartition(
                rows(end, self._rate, part, self._partitions) - rows(start, self._rate, part, self._partitions)
            )
            for part in range(self._partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield bodies(partition.value)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def rows(offset: dict[str, Any], rate: int, part: int, parts: int) -> int:
    """How many rows a part has had by then: every `parts`-th of all, from its own number on."""
    return (offset["at_ms"] * rate // 1000 + part) // parts


def bodies(rows: int, body_bytes: int = 100) -> Any:
    """From buffers: `pyarrow.array` would import pandas first, and what an empty source takes would not be Spark's."""
    import numpy as np
    import pyarrow as pa

    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(body_bytes)
    content = pa.py_buffer(b"x" * body_bytes * rows)
    values = pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), content])
    return pa.RecordBatch.from_arrays([values], names=["body"])


class Forgetting:
    """What both writers do."""

    def __init__(self, settled: bool) -> None:
        self._settled = settled

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        _begin(self._settled)
        for _ in iterator:
            pass
        return WriterCommitMessage()


class EmptyWriter(Forgetting, DataSourceArrowWriter):
    """Of a batch job."""


class EmptyStreamWriter(Forgetting, DataSourceStreamArrowWriter):
    """Of a stream."""


def _begin(settled: bool) -> None:
    if settled:
        from rmqspark.spark_worker import settle

        settle()
