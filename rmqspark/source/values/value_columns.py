"""Records into Arrow batches of a schema whose names are fields of the bodies: `ArrowColumns`, parsed further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from rmqspark.errors import UnparsableBody
from rmqspark.message_queue import MessageQueue
from rmqspark.source.values.arrow import ArrowColumns
from rmqspark.source.values.bad_records import BadRecord
from rmqspark.source.values.json_bodies import JsonBodies, Parsed
from rmqspark.source.values.schema import COLUMNS
from rmqspark.source.values.value_options import DROPMALFORMED, FAILFAST
from rmqspark.source.values.value_schema import CORRUPT_RECORD, ValueSchema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.protocol.records.record_batch import RecordBatch
    from rmqspark.source.values.bad_records import BadRecords
    from rmqspark.source.values.value_options import ValueOptions

_NEEDED = ("body", "topic", "brokerName", "queueId", "queueOffset")


class ValueColumns:
    """Turns records of queues into Arrow batches of a schema that `check_read_schema` has passed.

    What does not parse is with `bad_records`, if there is such a place, before the batch that it is missing from.
    """

    def __init__(
        self,
        schema: StructType,
        values: ValueOptions,
        bad_records: BadRecords | None,
        queue: MessageQueue,
        *more: MessageQueue,
    ) -> None:
        parts = ValueSchema.of(schema, values)
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._field_names = parts.fields.fieldNames()
        self._mode = values.mode
        self._corrupt_record = parts.corrupt_record
        self._bad_records = bad_records
        self._parse = JsonBodies(parts.fields).parse if values.format == "json" else _texts
        self._columns = ArrowColumns(_with_needed(parts.metadata), queue, *more)

    def batches(self, records: RecordBatch) -> Iterator[Any]:
        """Arrow batches of all records, in order. Raises UnparsableBody where the mode is FAILFAST."""
        for batch in self._columns.batches(records):
            parsed = self._parse(batch.column("body"))
            if parsed.bad:
                self._tell(batch, parsed.bad)
            made = self._made(batch, parsed)
            if parsed.bad and self._mode == DROPMALFORMED:
                made = made.filter(pa.array(~_marked(parsed.bad, len(made))))
            yield made

    def _tell(self, batch: Any, bad: dict[int, str]) -> None:
        """Raises, or sends away, what does not parse."""
        if self._mode == FAILFAST:
            found = _bad_record(batch, *next(iter(bad.items())))
            raise UnparsableBody(
                f"The body at offset {found.queue_offset} of queue {found.queue} does not parse: {found.reason}.",
                hint="mode=PERMISSIVE reads it as null, mode=DROPMALFORMED leaves it out, badRecordsTopic keeps it.",
            )
        if self._bad_records is not None:
            self._bad_records.send([_bad_record(batch, row, reason) for row, reason in bad.items()])

    def _made(self, batch: Any, parsed: Parsed) -> Any:
        made = dict(zip(self._field_names, parsed.columns, strict=True))
        if self._corrupt_record:
            made[CORRUPT_RECORD] = _corrupt_records(batch.column("body"), parsed.bad)
        arrays = [made[name] if name in made else batch.column(name) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _bad_record(batch: Any, row: int, reason: str) -> BadRecord:
    body, topic, broker_name, queue_id, queue_offset = (batch.column(name)[row].as_py() for name in _NEEDED)
    return BadRecord(MessageQueue(topic, broker_name, queue_id), queue_offset, body, reason)


def _with_needed(metadata: StructType) -> StructType:
    missing = [StructField(name, COLUMNS[name]) for name in _NEEDED if name not in metadata.fieldNames()]
    return StructType([*metadata.fields, *missing])


def _texts(bodies: Any) -> Parsed:
    """Bodies as UTF-8; what is none reads U+FFFD where it is not."""
    try:
        return Parsed([bodies.cast(pa.string())], {})
    except pa.ArrowInvalid:
        return Parsed([pa.array([body.decode("utf-8", "replace") for body in bodies.to_pylist()], pa.string())], {})


def _corrupt_records(bodies: Any, bad: dict[int, str]) -> Any:
    texts: list[str | None] = [None] * len(bodies)
    for row in bad:
        texts[row] = bodies[row].as_py().decode("utf-8", "replace")
    return pa.array(texts, pa.string())


def _marked(rows: dict[int, str], count: int) -> Any:
    marks = np.zeros(count, np.bool_)
    marks[list(rows)] = True
    return marks
