"""Which queue each row goes to, and how rows are grouped into sends. Pure.

Rows of one send are neighbours, so what is to go to the same queue is first brought together: by a stable sort, that
is, in the order in which Spark gave the rows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rmqspark.errors import InvalidQueue
from rmqspark.protocol.java_hash import java_hash_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.columns import Column

SPREAD_ROWS = 8_192  # fewer may be dealt evenly over several queues


class Run(NamedTuple):
    """Neighbouring rows, `first` up to `end`, for the queue with number `target` among those of the topic."""

    target: int
    first: int
    end: int


def by_sharding_key(keys: Column, queue_count: int, turn: int) -> NDArray[np.int64]:
    """The queue of each row: |Java hash of its key| modulo the queues, as every RocketMQ client has it.

    Rows without a key take turns, beginning with `turn`.
    """
    hashes = java_hash_spans(keys.values, *keys.spans())
    targets = (np.abs(hashes).view(np.uint32) % np.uint32(queue_count)).astype(np.int64)
    if keys.present is not None:
        absent = np.flatnonzero(~keys.present)
        targets[absent] = (turn + np.arange(len(absent))) % queue_count
    return targets


def by_queue_id(queue_ids: NDArray[np.integer[Any]], present: NDArray[np.bool_], queue_count: int) -> NDArray[np.int64]:
    """The queue of each row as its column says. Raises InvalidQueue, naming the row, for one that is not there."""
    wrong = ~present | (queue_ids < 0) | (queue_ids >= queue_count)
    if wrong.any():
        row = int(wrong.argmax())
        value = int(queue_ids[row]) if present[row] else None
        raise InvalidQueue(
            f"Row {row} of a batch has queueId {value}; the topic has queues 0 to {queue_count - 1}.",
            hint="Give each row one of these, or leave out partitioner=column.",
        )
    return queue_ids.astype(np.int64)


def grouped(targets: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Run]]:
    """The order that brings rows of one target together, and the runs it then consists of."""
    if not len(targets):
        return np.empty(0, np.int64), []
    order = np.argsort(targets.astype(np.uint16) if _are_short(targets) else targets, kind="stable")
    sorted_targets = targets[order]
    firsts = np.flatnonzero(np.r_[True, sorted_targets[1:] != sorted_targets[:-1]])
    ends = np.r_[firsts[1:], len(order)]
    runs = zip(sorted_targets[firsts].tolist(), firsts.tolist(), ends.tolist(), strict=True)
    return order, [Run(*run) for run in runs]


def _are_short(targets: NDArray[np.int64]) -> bool:
    """Whether NumPy sorts them by their digits, ten times as fast."""
    return int(targets.min()) >= 0 and int(targets.max()) < 1 << 16


def in_turn(
    sizes: NDArray[np.int64], queue_count: int, turn: int, max_bytes: int, *, spread_over: int
) -> Iterator[Run]:
    """Neighbouring rows to one queue after the other, beginning with number `turn`. Few are dealt evenly over
    `spread_over` queues, more go out in as few sends as they can."""
    at_least = min(queue_count, spread_over) if len(sizes) < SPREAD_ROWS else 1
    for step, (first, end) in enumerate(evenly(sizes, max_bytes, at_least)):
        yield Run((turn + step) % queue_count, first, end)


def evenly(sizes: NDArray[np.int64], max_bytes: int, at_least: int = 1) -> Iterator[tuple[int, int]]:
    """Cuts rows into pieces of about equal bytes: `at_least` so many if there are rows enough, none above `max_bytes`
    unless it is a single row."""
    if not len(sizes):
        return
    ends = np.cumsum(sizes)
    pieces = max(-(-int(ends[-1]) // max_bytes), min(at_least, len(sizes)))
    lines = np.arange(1, pieces) * (int(ends[-1]) / pieces)
    cuts = np.unique(np.r_[0, np.searchsorted(ends, lines, "right"), len(sizes)])
    for first, end in pairwise(cuts.tolist()):
        yield from _within(ends, first, end, max_bytes)


def _within(ends: NDArray[np.int64], first: int, end: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """A piece, or, where rounding or a large row made it too large, as many as it takes."""
    while first < end:
        begun = int(ends[first - 1]) if first else 0
        fitting = int(np.searchsorted(ends, begun + max_bytes, "right"))
        stop = min(end, max(first + 1, fitting))
        yield first, stop
        first = stop
