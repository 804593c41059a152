"""Which task reads which messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import InvalidArgument
from rmqspark.model import MessageQueue
from rmqspark.source.driver import _partitions
from rmqspark.source.options import SourceOptions
from rmqspark.source.partitions import Holder
from rmqspark.source.planning.dealing import FEW_TASKS, TASK_RECORDS, check_task_size, split, together
from rmqspark.source.queue_range import QueueRange


@pytest.mark.parametrize(
    ("sizes", "at_least", "max_records", "pieces"),
    [
        ([100], None, None, [100]),
        ([100], 4, None, [25] * 4),
        ([90, 10], 10, None, [10] * 10),
        ([100], None, 30, [25] * 4),
        ([3], 10, None, [1, 1, 1]),
        ([9, 12, 6, 9], 10, None, [3, 3, 3, 4, 4, 4, 3, 3, 4, 5]),
        ([10] * 10, 11, None, [5, 5] + [10] * 9),
        ([100, 100], 1, None, [100, 100]),
        ([1000, 1, 1], 3, None, [1000, 1, 1]),
        ([], 4, 10, []),
    ],
)
def test_ranges_are_split_over_tasks(
    sizes: list[int], at_least: int | None, max_records: int | None, pieces: list[int]
) -> None:
    """minPartitions and maxRecordsPerPartition cut large queues, and only as far as needed."""
    whole = [QueueRange(MessageQueue("t", "b", number), 7, 7 + size) for number, size in enumerate(sizes)]
    assert [piece.size for piece in split(whole, at_least=at_least, max_records=max_records)] == pieces


def test_tasks_of_a_few_messages_each_are_not_any_number() -> None:
    """Spark's driver would run out of memory over them; the error says how many messages each has to have."""
    planned = [QueueRange(MessageQueue("t", "b", number), 7, 7 + 100_001) for number in range(2)]
    check_task_size(planned, None)
    check_task_size(planned, 3)
    with pytest.raises(InvalidArgument, match="cannot be 2 for 200,002 messages.*Use 3 or more"):
        check_task_size(planned, 2)
    two_each = SourceOptions.parse({"subscribe": "t", "maxRecordsPerPartition": "2"}, streaming=False)
    nobody: Any = None  # is asked
    with pytest.raises(InvalidArgument, match="cannot be 2 for 200,002 messages"):
        _partitions(nobody, planned, two_each, Holder())


@pytest.mark.property
@given(
    st.lists(st.integers(1, 500), max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 100),
)
def test_pieces_cover_the_ranges_exactly(sizes: list[int], at_least: int | None, max_records: int | None) -> None:
    """However ranges are split, each message is in exactly one piece."""
    whole = [QueueRange(MessageQueue("t", "b", number), 0, size) for number, size in enumerate(sizes)]
    pieces = split(whole, at_least=at_least, max_records=max_records)
    covered = [(piece.queue, offset) for piece in pieces for offset in range(piece.start, piece.end)]
    assert covered == [(one.queue, offset) for one in whole for offset in range(one.size)]
    assert max_records is None or all(piece.size <= max_records for piece in pieces)
    assert len(pieces) >= min(at_least or 0, sum(sizes))
    if max_records is None:
        assert len(pieces) <= (at_least or 0) + len(sizes)


def of_queues(sizes: list[int], *, brokers: int = 1) -> list[QueueRange]:
    return [
        QueueRange(MessageQueue("t", f"b{number % brokers}", number), 5, 5 + size) for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "at_least", "max_records", "tasks"),
    [
        ([1] * 16, None, None, 16),  # as many tasks as queues, while these are few
        ([1_000_000] * 64, None, None, 64),  # or have much to read
        ([156] * 64, None, None, 16),
        ([1_000] * 5_000, None, None, 50),  # 100,000 messages each
        ([1_000] * 1_000, 100, None, 100),
        ([1_000] * 1_000, None, 5_000, 200),
        ([1] * 1_000, None, 1, 1_000),
        ([], None, None, 0),
    ],
)
def test_short_ranges_are_read_together(
    sizes: list[int], at_least: int | None, max_records: int | None, tasks: int
) -> None:
    """A thousand queues are not a thousand tasks, unless each has much to read or the options say so."""
    assert len(together(of_queues(sizes), at_least=at_least, max_records=max_records)) == tasks


@pytest.mark.property
@given(
    st.lists(st.integers(1, 90_000), max_size=80),
    st.integers(1, 3),
    st.none() | st.integers(1, 100),
    st.none() | st.integers(1, 100_000),
)
def test_each_range_is_in_one_task(
    sizes: list[int], brokers: int, at_least: int | None, max_records: int | None
) -> None:
    """However ranges are put together, none is lost or read twice, and a task talks to one broker."""
    pieces = of_queues(sizes, brokers=brokers)
    tasks = together(pieces, at_least=at_least, max_records=max_records)
    assert sorted(piece for task in tasks for piece in task) == sorted(pieces)
    assert len(tasks) >= min(len(pieces), max(FEW_TASKS, at_least or 0))
    for task in tasks:
        assert len({piece.queue.broker_name for piece in task}) == 1
        together_size = sum(piece.size for piece in task)
        assert len(task) == 1 or together_size <= min(TASK_RECORDS, max_records or TASK_RECORDS)
