"""A Python source and sink that do nothing: what Spark itself takes for a query with Python on both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType


class EmptyEdge(DataSource):
    """`format("empty")`: option `partitions` tasks that give `rows` bodies each, once; writing forgets them."""

    @classmethod
    def name(cls) -> str:
        return "empty"

    def schema(self) -> str:
        return "body binary"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return EmptyReader(int(self.options["partitions"]), int(self.options["rows"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        del schema, overwrite
        return EmptyWriter()


class EmptyReader(DataSourceStreamReader):
    def __init__(self, partitions: int, rows: int) -> None:
        self._partitions = partitions
        self._rows = rows

    def initialOffset(self) -> dict[str, Any]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, Any]:
        return {"at": 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        del start, end
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        del partition
        yield pa.RecordBatch.from_pydict({"body": pa.array([b"x" * 100] * self._rows, pa.binary())})


class EmptyWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
