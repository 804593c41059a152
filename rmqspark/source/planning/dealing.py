"""How the ranges of a batch are dealt to tasks. Pure: numbers in, numbers out."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.source.queue_range import QueueRange

FEW_TASKS: Final = 16
"""So many tasks a batch has at least, if it has as many queues."""
TASK_RECORDS: Final = 100_000
"""Ranges that are read together have no more messages than that."""
MOST_PARTITIONS: Final = 100_000
"""That options may ask for in one batch: Spark's driver keeps each of them until the last has ended."""


def check_task_size(planned: Sequence[QueueRange], max_records: int | None) -> None:
    """InvalidArgument where tasks of so few messages would be too many."""
    total = sum(planned_range.size for planned_range in planned)
    if max_records is not None and total > max_records * MOST_PARTITIONS:
        raise InvalidArgument(
            f"Option 'maxRecordsPerPartition' cannot be {max_records} for {total:,} messages in one batch: of more "
            f"than {MOST_PARTITIONS:,} tasks Spark's driver would run out of memory.",
            hint=f"Use {-(-total // MOST_PARTITIONS)} or more; in a stream maxOffsetsPerTrigger keeps batches small.",
        )


def split(
    planned: Sequence[QueueRange], *, at_least: int | None = None, max_records: int | None = None
) -> list[QueueRange]:
    """Cuts ranges so that there are `at_least` so many, if they have as many messages, and none is longer than
    `max_records`; larger ones first."""
    by_size = _cuts(planned, at_least or 0)
    pieces = []
    for planned_range, count in zip(planned, by_size, strict=True):
        by_limit = -(-planned_range.size // max_records) if max_records else 1
        pieces += _cut(planned_range, min(max(count, by_limit), planned_range.size))
    return pieces


def _cuts(planned: Sequence[QueueRange], at_least: int) -> list[int]:
    """Into how many pieces to cut each range, by size, so that there are `at_least` in all.

    Rounded down, and what that leaves over is for those with the largest pieces, which have room for it: Spark's
    KafkaOffsetRangeCalculator rounds each to the nearest, and so ends above or below. Ranges too small for a share have
    one all the same.
    """
    if len(planned) >= at_least:
        return [1] * len(planned)
    total = sum(planned_range.size for planned_range in planned)
    wanted = min(at_least, total)
    counts = [max(1, planned_range.size * wanted // total) for planned_range in planned]
    missing = max(0, wanted - sum(counts))  # fewer than there are ranges
    largest_pieces = sorted(range(len(planned)), key=lambda each: planned[each].size / counts[each], reverse=True)
    for each in largest_pieces[:missing]:
        counts[each] += 1
    return counts


def together(
    pieces: Sequence[QueueRange], *, at_least: int | None = None, max_records: int | None = None
) -> list[tuple[QueueRange, ...]]:
    """The ranges that one task each is to read: short ones of a broker together, as long as there are tasks enough.

    A task costs Spark as much as reading some thousand messages. So a thousand queues with a little in each are not a
    thousand tasks; but neither are a few queues fewer tasks than they are.
    """
    most_ranges = max(1, len(pieces) // max(FEW_TASKS, at_least or 0))
    most_records = min(TASK_RECORDS, max_records or TASK_RECORDS)
    tasks: list[list[QueueRange]] = []
    records = 0  # of the last task
    for piece in sorted(pieces, key=_broker_of):
        records += piece.size
        is_full = not tasks or records > most_records or len(tasks[-1]) == most_ranges
        if is_full or _broker_of(tasks[-1][0]) != _broker_of(piece):
            tasks.append([])
            records = piece.size
        tasks[-1].append(piece)
    return [tuple(task) for task in tasks]


def _broker_of(piece: QueueRange) -> str:
    return piece.queue.broker_name


def _cut(whole: QueueRange, count: int) -> list[QueueRange]:
    bounds = [whole.start + whole.size * step // count for step in range(count + 1)]
    return [whole._replace(start=low, end=high) for low, high in pairwise(bounds)]
