"""What a bulk may ask of the index."""

from __future__ import annotations

import pytest

from rmqspark.errors import InvalidMessage
from rmqspark.protocol.headers.bulk import MAX_KEYS
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.appending.bulk_check import check_bulk
from rmqspark.store.index.index_keys import has_more_keys


def bulk(*keys: str) -> RecordBatch:
    """One record for each text of KEYS."""
    properties = [f"KEYS\x01{text}\x02".encode() if text else b"" for text in keys]
    records = [encode_record(topic="t", body=b"x", properties=encoded) for encoded in properties]
    return RecordBatch.scan(b"".join(records))


@pytest.mark.parametrize(
    ("keys", "count"),
    [(("",), 0), (("a",), 1), (("a b", "", "c"), 3), (("a b", "a b"), 4), (("a b", "c d e"), 5), (("order-77 x",), 2)],
)
def test_keys_are_counted_before_they_are_entered(keys: tuple[str, ...], count: int) -> None:
    """Each key of each message is one entry of the index."""
    records = bulk(*keys)
    assert not has_more_keys(records, count)
    assert has_more_keys(records, count - 1)


def test_a_bulk_of_keys_is_refused() -> None:
    """A bulk that is nothing but keys cannot keep a broker busy for seconds and take half a gigabyte."""
    each = " ".join("k" * 16_000)
    most = MAX_KEYS // 16_000
    check_bulk(bulk(*[each] * most), "t", 0, 1 << 20)
    with pytest.raises(InvalidMessage, match="keys"):
        check_bulk(bulk(*[each] * (most + 1)), "t", 0, 1 << 20)
