"""Which queue a row goes to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.sending.selection import queue_for_shard
from rmqspark.errors import InvalidQueue
from rmqspark.model import MessageQueue
from rmqspark.sink.rows.rows import column
from rmqspark.sink.sends.dealing import Run, by_queue_id, by_sharding_key, evenly, grouped, in_turn


@pytest.mark.property
@given(st.lists(st.text(max_size=12), min_size=1, max_size=30), st.integers(1, 9))
def test_a_sharding_key_goes_where_the_producer_sends_it(keys: list[str], queue_count: int) -> None:
    """Spark and every RocketMQ producer agree on the queue of a key."""
    queues = [MessageQueue("t", "b", queue_id) for queue_id in range(queue_count)]
    targets = by_sharding_key(column(pa.array(keys, pa.string())), queue_count, turn=0)
    assert targets.tolist() == [queues.index(queue_for_shard(key, queues)) for key in keys]


def test_rows_without_a_key_take_turns() -> None:
    """Null sharding keys are dealt over all queues."""
    assert by_sharding_key(column(pa.array([None] * 4, pa.string())), 3, turn=1).tolist() == [1, 2, 0, 1]


def test_queue_ids_of_a_column() -> None:
    """partitioner=column sends each row to the queue it names."""
    ids = np.array([2, 0, 1], np.int32)
    assert by_queue_id(ids, np.ones(3, np.bool_), 3).tolist() == [2, 0, 1]


@pytest.mark.parametrize(("value", "present"), [(3, True), (-1, True), (0, False)])
def test_a_queue_that_is_not_there(value: int, present: bool) -> None:
    """A queueId outside the topic, or none, is an error that names the row."""
    with pytest.raises(InvalidQueue, match="Row 1 of a batch has queueId"):
        by_queue_id(np.array([0, value]), np.array([True, present]), 3)


def test_rows_of_one_target_stay_in_order() -> None:
    """Within a queue rows keep the order in which Spark gave them."""
    order, runs = grouped(np.array([1, 0, 1, 0, 2]))
    assert order.tolist() == [1, 3, 0, 2, 4]
    assert runs == [Run(0, 0, 2), Run(1, 2, 4), Run(2, 4, 5)]


def test_no_rows_are_no_runs() -> None:
    """A batch without rows is no error."""
    order, runs = grouped(np.array([], np.int64))
    assert (order.tolist(), runs) == ([], [])


def test_few_rows_reach_all_queues() -> None:
    """A small write is spread over the topic instead of filling one queue."""
    runs = list(in_turn(np.full(100, 200), queue_count=8, turn=3, max_bytes=1 << 20, spread_over=9))
    assert {run.target for run in runs} == set(range(8))
    assert runs[0].target == 3


def test_few_rows_that_follow_others_are_one_send() -> None:
    """Spark may hand out a thousand rows at a time: divided among queues, their sends would cost more than the rows."""
    runs = list(in_turn(np.full(1_000, 1_000), queue_count=8, turn=11, max_bytes=1 << 20, spread_over=1))
    assert runs == [Run(3, 0, 1_000)]


@pytest.mark.property
@given(st.lists(st.integers(1, 5_000), max_size=60), st.integers(1, 10_000), st.integers(1, 10))
def test_cuts_cover_all_rows_and_keep_to_the_limit(sizes: list[int], max_bytes: int, at_least: int) -> None:
    """However rows are cut into sends, each is in one, and none is larger than batchBytes but by a single row."""
    pieces = list(evenly(np.array(sizes, np.int64), max_bytes, at_least))
    assert [row for first, end in pieces for row in range(first, end)] == list(range(len(sizes)))
    assert all(end - first == 1 or sum(sizes[first:end]) <= max_bytes for first, end in pieces)


def test_sends_are_as_few_as_they_can_be() -> None:
    """Rows of 2.5 MB go out in three sends of at most 1 MB, not in three and a remainder."""
    pieces = list(evenly(np.full(10_000, 250), 1 << 20))
    assert [end - first for first, end in pieces] == [3_333, 3_333, 3_334]
