"""Arrow arrays that are put together from buffers: the same as those PyArrow makes of Python's values."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.source.values.arrow_spans import binaries, numbers, repeated


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_values_of_any_length(values: list[bytes]) -> None:
    """Bodies that were inflated come as they are."""
    made = binaries(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("step", [1, 3])
def test_numbers(kind: type, step: int) -> None:
    """Side by side in memory or not."""
    values = np.arange(-20, 20, dtype=kind)[::step]
    made = numbers(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))


@pytest.mark.parametrize("value", ["orders", "é", "", 3, 0])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_same_value_many_times(value: str | int, count: int) -> None:
    """The topic of a thousand rows, or their queue."""
    made = repeated(value, count)
    made.validate(full=True)
    assert made.equals(pa.array([value] * count, pa.string() if isinstance(value, str) else pa.int32()))


_READ = """
import sys
import numpy, pyarrow, pyspark.sql.pandas.types
from rmqspark.model import MessageQueue
from rmqspark.protocol.records.compression import compress
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.values.arrow import ArrowColumns
from rmqspark.source.values.schema import default_schema
host = pack_host("10.1.2.3", 10911)
properties = encode_properties({"UNIQ_KEY": "U" * 32, "TAGS": "paid", "region": "eu"})
common = dict(topic="t", queue_id=0, store_host=host, born_host=host, properties=properties)
plain = encode_record(body=b"x", **common)
small = encode_record(body=compress(b"y" * 99), sys_flag=int(SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB), **common)
for records in (plain, plain + small):
    queue, other = MessageQueue("t", "broker-a", 0), MessageQueue("u", "broker-a", 1)
    for columns in (ArrowColumns(default_schema(), queue), ArrowColumns(default_schema(), queue, other)):
        assert sum(batch.num_rows for batch in columns.batches(RecordBatch.scan(bytes(records))))
print([name for name in ("pandas", "pyarrow.compute") if name in sys.modules])
"""


def test_no_column_makes_arrow_import_pandas() -> None:
    """It would take a cold task longer than all else that it does."""
    done = subprocess.run([sys.executable, "-c", _READ], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
