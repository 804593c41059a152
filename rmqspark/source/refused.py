"""What Spark gets instead of a streaming reader where the options are of none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    from rmqspark.errors import RmqError


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises what is wrong at whatever Spark asks it first.

    `DataSource.streamReader` must not raise itself: Spark 4.2 then stops the reader that it did not get, and what the
    user reads at the end is an UnboundLocalError of Spark's.
    """

    def __init__(self, error: RmqError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()
