"""format("rmq"): where Spark finds the source and the sink."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from rmqspark.errors import MissingExtra

try:
    from pyspark.sql.datasource import DataSource
except ImportError:
    raise MissingExtra("PySpark", "spark") from None

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class RmqDataSource(DataSource):
    """`spark.read.format("rmq")`, `readStream`, `write` and `writeStream`; docs/spark.md has the options.

    Spark loads this class in every process that looks for formats, so the parts are imported when they are asked for.
    """

    def __init__(self, options: dict[str, str]) -> None:
        """MissingExtra without PyArrow: `load()` says so, or Spark's processes end later without a word to the user."""
        super().__init__(options)
        if find_spec("pyarrow") is None:
            raise MissingExtra("PyArrow", "spark", interpreter=sys.executable)

    @classmethod
    def name(cls) -> str:
        return "rmq"

    def schema(self) -> StructType:
        from rmqspark.source.catalog_tables import is_catalog_table, table_columns
        from rmqspark.source.options import read_options
        from rmqspark.source.values.value_schema import default_read_schema

        if is_catalog_table(self.options):
            return table_columns(self.options)
        return default_read_schema(read_options(self.options))  # a mistyped option is an error at load(), not later

    def reader(self, schema: StructType) -> DataSourceReader:
        from rmqspark.source.catalog_tables import with_options_of_table
        from rmqspark.source.options import SourceOptions
        from rmqspark.source.reader import RmqReader
        from rmqspark.source.values.value_schema import check_read_schema

        options = SourceOptions.parse(with_options_of_table(schema, self.options), streaming=False)
        wanted = check_read_schema(schema, options.values)
        if options.store is not None:
            from rmqspark.source.store_reader import RmqStoreReader

            return RmqStoreReader(options, wanted)
        return RmqReader(options, wanted)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from rmqspark.source.catalog_tables import with_options_of_table
        from rmqspark.source.reader import RmqStreamReader

        return RmqStreamReader(with_options_of_table(schema, self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from rmqspark.sink.writer import RmqWriter, check_write
        from rmqspark.source.catalog_tables import check_insert

        check_insert(schema, self.options)
        return RmqWriter(check_write(schema, self.options, overwrite, streaming=False))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from rmqspark.sink.writer import RmqStreamWriter, check_write
        from rmqspark.source.catalog_tables import check_insert

        check_insert(schema, self.options)
        return RmqStreamWriter(check_write(schema, self.options, overwrite, streaming=True))


class RocketmqDataSource(RmqDataSource):
    """The same under RocketMQ's own name: `format("rocketmq")`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq"
