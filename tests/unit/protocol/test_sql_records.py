"""SQL92 filters over thousands of records at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.records.properties import decode_properties, encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.sql.filter import SqlFilter

_EXPRESSIONS = (
    "a > 3",
    "a > 3 AND b = 'x'",
    "a IS NULL OR b IN ('x', 'é')",
    "a = b",
    "TRUE",
    "FALSE",
    "NOT (b CONTAINS 'x')",
    "a BETWEEN 1 AND 4.5",
    "c IS NULL OR TAGS = 't'",
)


def record(properties: bytes, offset: int = 0, body: bytes = b"body") -> bytes:
    return bytes(
        encode_record(
            topic="orders",
            body=body,
            properties=properties,
            queue_id=0,
            flag=0,
            sys_flag=0,
            queue_offset=offset,
            physical_offset=0,
            born_timestamp_ms=0,
            born_host=bytes(8),
            store_timestamp_ms=0,
            store_host=bytes(8),
            reconsume_times=0,
            prepared_transaction_offset=0,
        )
    )


_texts = st.sampled_from(["1", "4", "4.5", "x", "é", "xyz", "true", " 4", "٤"])
_properties = st.dictionaries(st.sampled_from(["a", "b", "TAGS", "c"]), _texts)


@pytest.mark.property
@given(
    st.lists(_properties.map(encode_properties) | st.binary(max_size=12), max_size=12),
    st.sampled_from(_EXPRESSIONS),
)
def test_many_are_chosen_as_each_alone_would_be(properties: list[bytes], expression: str) -> None:
    """Whether laid out alike or not, malformed or not: the same answer as for one message's properties."""
    wanted = SqlFilter.parse(expression)
    records = RecordBatch.scan(b"".join(map(record, properties)))
    assert wanted.matching(records).tolist() == [wanted.matches(decode_properties(each)) for each in properties]


def test_records_that_are_none_are_left_out() -> None:
    """A damaged record neither matches nor keeps the others from it."""
    good, bad = (
        record(encode_properties({"a": "5"})),
        bytearray(record(encode_properties({"a": "5"}), body=b"other one")),
    )
    bad[84:88] = b"\x7f\xff\xff\xff"  # the length of its body
    kinds = [True, False, True, True, True, False, True]
    parts = [good if is_good else bytes(bad) for is_good in kinds]
    records = RecordBatch.from_sizes(b"".join(parts), np.array(list(map(len, parts))))
    assert SqlFilter.parse("a > 3").matching(records).tolist() == kinds
    assert SqlFilter.parse("a > 5").matching(records).tolist() == [False] * len(kinds)


def test_names_and_cost_are_known_beforehand() -> None:
    """A filter looks at the properties it names, each once."""
    wanted = SqlFilter.parse("a > 3 AND (b = 'x' OR a < 1)")
    assert wanted.names == ("a", "b")
    assert wanted.cost == 11
