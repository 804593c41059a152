"""Rows for many queues travel together: each row once, to its topic, in order, in sends that are neither too large nor
for two brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.cluster.capabilities import Capabilities
from rmqspark.errors import NotSupported
from rmqspark.model import MessageQueue
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.bulk.topic_rows import MAX_QUEUES
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.sends.topic_sends import QueueRows, TopicsSend, by_broker, full_sends, shared_out

if TYPE_CHECKING:
    from collections.abc import Sequence

QUEUES = [MessageQueue("t", broker, number) for broker in "ab" for number in range(3)]


@pytest.mark.parametrize(
    ("first", "end", "count", "turn", "spread_over", "expected"),
    [
        (0, 6, 3, 0, 9, [(0, 0, 2), (1, 2, 4), (2, 4, 6)]),
        (10, 15, 3, 4, 3, [(1, 10, 11), (2, 11, 13), (0, 13, 15)]),
        (5, 7, 3, 2, 9, [(2, 5, 6), (0, 6, 7)]),
        (5, 6, 1, 9, 9, [(0, 5, 6)]),
        (0, 6, 3, 2, 2, [(2, 0, 3), (0, 3, 6)]),
        (0, 6, 3, 2, 1, [(2, 0, 6)]),
    ],
)
def test_rows_of_a_topic_are_dealt_evenly(
    first: int, end: int, count: int, turn: int, spread_over: int, expected: Sequence[tuple[int, int, int]]
) -> None:
    """Every queue of a topic, or as many as it may be, gets its share, beginning with the one whose turn it is."""
    assert shared_out(first, end, QUEUES[:count], turn, spread_over) == [
        QueueRows(QUEUES[at], low, high) for at, low, high in expected
    ]


topics = st.lists(
    st.tuples(st.integers(1, 12), st.lists(st.sampled_from("ab"), min_size=1, max_size=3), st.integers(0, 5)),
    min_size=1,
    max_size=8,
)


@given(topics, st.integers(0, 99), st.integers(1, 60))
def test_each_row_goes_once_and_in_order(
    given_topics: list[tuple[int, list[str], int]], seed: int, max_bytes: int
) -> None:
    """However rows, queues and brokers are mixed, a send is for one broker, has a queue once, and is no larger than it
    may be, unless it is one row; of a topic all rows come, those of a queue in their order."""
    total = sum(count for count, _, _ in given_topics)
    sizes = np.random.default_rng(seed).integers(1, 30, total)
    order, at, dealt, topic_of = np.arange(1000, 1000 + total), 0, [], {}
    for number, (count, brokers, turn) in enumerate(given_topics):
        queues = [MessageQueue(f"t{number}", broker, place) for place, broker in enumerate(brokers)]
        dealt += shared_out(at, at + count, queues, turn, spread_over=2)
        topic_of |= dict.fromkeys(range(1000 + at, 1000 + at + count), f"t{number}")
        at += count
    order, dealt = by_broker(order, dealt)
    sent: dict[MessageQueue, list[int]] = {}
    next_row = 0
    for send in full_sends(dealt, sizes, max_bytes):
        assert len({rows.queue.broker_name for rows in send}) == 1
        assert len({rows.queue for rows in send}) == len(send)
        first, end = send[0].first, send[-1].end
        assert first == next_row
        assert sizes[first:end].sum() <= max_bytes or end - first == 1
        for queue, low, high in send:
            assert low == next_row
            next_row = high
            sent.setdefault(queue, []).extend(order[low:high].tolist())
    assert next_row == total
    assert sorted(row for rows in sent.values() for row in rows) == list(range(1000, 1000 + total))
    for queue, rows in sent.items():
        assert rows == sorted(rows)
        assert {topic_of[row] for row in rows} == {queue.topic}


def test_no_send_is_for_more_queues_than_a_broker_takes() -> None:
    """Rows that are small, for very many queues: the sends are cut where a broker would refuse them."""
    count = MAX_QUEUES + 3
    dealt = [QueueRows(MessageQueue("t", "a", place), place, place + 1) for place in range(count)]
    sends = list(full_sends(dealt, np.ones(count, np.int64), 1 << 30))
    assert [len(send) for send in sends] == [MAX_QUEUES, 3]


def test_a_broker_that_knows_no_such_send_any_more_is_not_asked() -> None:
    """A broker set back in the middle of a write ends the task, which Spark runs again."""

    class Broker:
        def capabilities(self) -> Capabilities:
            return Capabilities(bulk_send=1)

    column = Column(np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]))
    rows = BulkRows(0, bytes(8), 0, IdRange("A" * 20, 0), np.zeros(2, np.uint32), column)
    send = TopicsSend.of([QueueRows(QUEUES[0], 0, 1), QueueRows(QUEUES[1], 1, 2)], rows)
    assert (str(send), send.rows) == ("2 queues of a", 2)
    with pytest.raises(NotSupported, match="'a'"):
        send.submit(Broker())  # type: ignore[arg-type]
