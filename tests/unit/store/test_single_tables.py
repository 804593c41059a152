"""Messages stored as a table lie as they would if they had come one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.store.index_keys import key_hash, keys_of_tables

from .store_bench import StoreBench, single, table

if TYPE_CHECKING:
    from rmqspark.store.singles import Places

QUEUES = st.lists(st.integers(1, 6), min_size=1, max_size=8)


def content(bench: StoreBench) -> dict[str, bytes]:
    bench.store.checkpoint()
    return {
        path: bench.read_file(path) for top in ("commitlog", "consumequeue", "index") for path in bench.content(top)
    }


@pytest.mark.parametrize("topic", ["orders", "%RETRY%g", SCHEDULE_TOPIC])
@given(turns=st.lists(st.tuples(QUEUES, st.integers(2, 40)), min_size=1, max_size=5))
def test_a_table_is_stored_as_singles_are(topic: str, turns: list[tuple[list[int], int]]) -> None:
    """The same places, and the same bytes in log, queues and index; no room for one is none for the other."""
    alone, together = StoreBench(), StoreBench()
    number = 0
    for queue_ids, length in turns:
        bodies = [b"%d" % (number + nth) + b"." * length for nth in range(len(queue_ids))]
        bodies = [body[-length:] for body in bodies]
        number += len(queue_ids)
        singles = [single(topic, queue_id, body) for queue_id, body in zip(queue_ids, bodies, strict=True)]
        one: Places | None = alone.store.append_singles(singles)
        all_at_once = together.store.append_table(table(topic, queue_ids, bodies))
        assert (one is None) == (all_at_once is None)
        if one is not None and all_at_once is not None:
            assert [places.tolist() for places in all_at_once] == list(one)
    assert content(alone) == content(together)


@pytest.mark.parametrize("topic", ["t", "größe", "AaAa" * 30])
def test_keys_of_tables_are_hashed_as_single_keys_are(topic: str) -> None:
    """Message by message, each with its keys in the order of the tables."""
    texts = [[f"{n:05}Z" for n in range(40)], [f"k{n * n:04}" for n in range(40)]]
    tables = [np.array([list(text.encode()) for text in column], np.uint8) for column in texts]
    keys = keys_of_tables(topic, tables, np.arange(0, 400, 10), 7)
    assert keys.hashes.tolist() == [key_hash(topic, text) for pair in zip(*texts, strict=True) for text in pair]
    assert keys.physical_offsets.tolist() == [at for at in range(0, 400, 10) for _ in tables]
    assert set(keys.store_timestamps_ms.tolist()) == {7}
