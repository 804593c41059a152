"""The body of a bulk: records back to back, with their sizes ahead unless all are equally long (`headers/bulk.py`), or
the rows that records can be made of (`bulk_rows.py`)."""

from __future__ import annotations

from typing import Final

import numpy as np

from rmqspark.errors import RecordError
from rmqspark.protocol.bulk.bulk_rows import BulkRows, brings_rows
from rmqspark.protocol.records.record import MIN_RECORD_BYTES
from rmqspark.protocol.records.record_batch import RecordBatch

_SIZE_BYTES: Final = 4


def read_bulk(body: memoryview, count: int, record_size: int) -> RecordBatch | BulkRows:
    """What a body brings, in its memory; `record_size` 0 says that the records' sizes are ahead.

    Raises RecordError where the body is not as it should be. What is inside records is not looked at.
    """
    if brings_rows(record_size):
        return BulkRows.decode(body, count, record_size)
    return records_in(body, count, record_size)


def records_in(body: memoryview, count: int, record_size: int) -> RecordBatch:
    """The records of a body that brings records. Raises RecordError where they do not fill it."""
    sizes_bytes = 0 if record_size else count * _SIZE_BYTES
    if count < 1 or record_size < 0 or sizes_bytes + count * max(record_size, MIN_RECORD_BYTES) > len(body):
        raise RecordError(f"A bulk of {len(body)} bytes cannot hold {count} records of {record_size or 'any'} bytes.")
    sizes = np.full(count, record_size, np.int64) if record_size else np.frombuffer(body, ">i4", count).astype(np.int64)
    return RecordBatch.from_sizes(body[sizes_bytes:], sizes)
