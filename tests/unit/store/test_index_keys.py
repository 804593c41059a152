"""Which keys a record has in the index, from single messages and from buffers full of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqspark.protocol.records.properties import encode_properties
from rmqspark.protocol.records.record import SysFlag, encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.config import StoreConfig
from rmqspark.store.index.index import Index
from rmqspark.store.index.index_keys import key_hash, keys_of_records
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

TEXT = st.text(st.sampled_from("aB1 é#𝄞-"), max_size=12)
MESSAGES = st.lists(
    st.tuples(
        st.sampled_from(["orders", "tøpic", "%RETRY%g"]),
        st.fixed_dictionaries({}, optional={"UNIQ_KEY": TEXT, "KEYS": TEXT, "TAGS": TEXT}),
        st.sampled_from([0, SysFlag.PREPARED, SysFlag.COMMITTED, SysFlag.ROLLED_BACK]),
    ),
    max_size=20,
)


def batch_of(messages: list[tuple[str, dict[str, str], int]]) -> RecordBatch:
    return RecordBatch.scan(
        b"".join(
            encode_record(
                topic=topic,
                body=b"a body with blanks",
                properties=encode_properties(properties),
                sys_flag=kind,
                store_timestamp_ms=1000 + number,
            )
            for number, (topic, properties, kind) in enumerate(messages)
        )
    )


def expected(messages: list[tuple[str, dict[str, str], int]]) -> list[tuple[int, int, int]]:
    rows = []
    for number, (topic, properties, kind) in enumerate(messages):
        keys = [properties.get("UNIQ_KEY", ""), *properties.get("KEYS", "").split(" ")]
        if kind != SysFlag.ROLLED_BACK:
            rows += [(key_hash(topic, key), number * 7, 1000 + number) for key in keys if key]
    return rows


SAME_LENGTH = st.lists(st.text("aB1#é", min_size=6, max_size=6), min_size=1, max_size=20)


def with_ids(*ids: str) -> list[tuple[str, dict[str, str], int]]:
    return [("orders", {"UNIQ_KEY": one}, 0) for one in ids]


@given(MESSAGES | SAME_LENGTH.map(lambda ids: [("orders", {"UNIQ_KEY": one, "KEYS": one[::-1]}, 0) for one in ids]))
@example(with_ids("C0A8010A1F9018B4", "C0A8010A1F9018B4AAC", "C0A8010A1F9018B4BA"))
@example(with_ids("C0A8010A1F9018B4", "C0A8010A2F9018B4AAC", "C0A8010A1F9018B4"))
@example(with_ids("é" * 9, "é" * 10))
def test_keys_of_many_records(messages: list[tuple[str, dict[str, str], int]]) -> None:
    """UNIQ_KEY first, then each word of KEYS, under the topic; none of what was rolled back."""
    records = batch_of(messages)
    keys = keys_of_records(None, records, np.arange(len(messages), dtype=np.int64) * 7)
    assert list(zip(*(column.tolist() for column in keys), strict=True)) == expected(messages)


@pytest.mark.parametrize("topic", ["orders", None])
@pytest.mark.parametrize("keys", [{}, {"KEYS": "k1"}, {"KEYS": "k1 k2"}])
def test_bulk_and_single_messages_are_found_alike(topic: str | None, keys: dict[str, str]) -> None:
    """How a message came in makes no difference to finding it."""
    messages = [("orders", {"UNIQ_KEY": f"U{number:03}", **keys}, 0) for number in range(20)]
    index = Index(MemoryFileSystem(), StoreConfig(max_hash_slot_num=9, max_index_num=30), ManualClock())
    index.load(clean=True, log_end_offset=0)
    for number in range(10):
        added = [f"orders#{key}".encode() for key in _keys(messages[number][1])]
        index.append(added, [number * 7] * len(added), 1000 + number)
    index.append_records(topic, batch_of(messages), np.arange(20, dtype=np.int64) * 7)
    for number in range(20):
        assert index.find("orders", f"U{number:03}", 0, 1 << 40) == [number * 7]
    wanted = [number * 7 for number in range(20)] if keys else []
    assert index.find("orders", "k1", 0, 1 << 40) == wanted
    assert index.find("orders", "k2", 0, 1 << 40) == (wanted if keys.get("KEYS") == "k1 k2" else [])


def _keys(properties: dict[str, str]) -> list[str]:
    return [properties["UNIQ_KEY"], *properties.get("KEYS", "").split()]
