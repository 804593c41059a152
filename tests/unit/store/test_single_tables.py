"""Messages stored as a table lie as they would if they had come one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.protocol.java_hash import java_hash
from rmqspark.protocol.names import SCHEDULE_TOPIC
from rmqspark.store.index.index_keys import key_hash, keys_of_tables

from .store_bench import SMALL, StoreBench, single, table

ORDERS = [(topic, queue_id) for topic in ("orders", "refund", "bills") for queue_id in range(4)]
DELAYS = [(SCHEDULE_TOPIC, level) for level in range(1, 7)]


def lists_of(queues: list[tuple[str, int]]) -> st.SearchStrategy[list[tuple[str, int]]]:
    few = st.lists(st.sampled_from(queues), min_size=1, max_size=8)
    return few | st.lists(st.sampled_from(queues[:2]), min_size=16, max_size=20)


def content(bench: StoreBench) -> dict[str, bytes]:
    bench.store.checkpoint()
    return {
        path: bench.read_file(path) for top in ("commitlog", "consumequeue", "index") for path in bench.content(top)
    }


@pytest.mark.parametrize("queues", [ORDERS, DELAYS], ids=["topics", "delays"])
@given(data=st.data())
def test_a_table_is_stored_as_singles_are(queues: list[tuple[str, int]], data: st.DataObject) -> None:
    """The same places, and the same bytes in log, queues and index; no room for one is none for the other."""
    config = replace(SMALL, mapped_file_size_commit_log=4096)
    alone, together = StoreBench(config), StoreBench(config)
    number = 0
    for _ in range(data.draw(st.integers(1, 5))):
        some, length = data.draw(lists_of(queues)), data.draw(st.integers(2, 40))
        bodies = [(b"%d" % (number + nth) + b"." * length)[-length:] for nth in range(len(some))]
        number += len(some)
        places = alone.store.writer.append_singles([single(*q, body) for q, body in zip(some, bodies, strict=True)])
        stored = together.store.writer.append_table(table(some, bodies))
        assert (places is None) == (stored is None)
        if places is not None and stored is not None:
            assert [column.tolist() for column in stored] == list(places)
    assert content(alone) == content(together)


@pytest.mark.parametrize("topics", [["t"], ["orders", "refund"], ["AaAa" * 30]])
def test_keys_of_tables_are_hashed_as_single_keys_are(topics: list[str]) -> None:
    """Message by message, each with its keys in the order of the tables."""
    texts = [(topics[n % len(topics)], f"{n:05}Z", f"{n:04}") for n in range(40)]
    _, *columns = zip(*texts, strict=True)
    tables = [np.array([list(text.encode()) for text in column], np.uint8) for column in columns]
    topic_hashes = np.array([java_hash(f"{topic}#") for topic, *_ in texts], np.int32).view(np.uint32)
    keys = keys_of_tables(topic_hashes, tables, np.arange(0, 400, 10), 7)
    assert keys.hashes.tolist() == [key_hash(topic, key) for topic, *both in texts for key in both]
    assert keys.physical_offsets.tolist() == [at for at in range(0, 400, 10) for _ in tables]
    assert set(keys.store_timestamps_ms.tolist()) == {7}
