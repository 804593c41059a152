"""How many half batches of a version become messages, and readable ones, at a time. Pure."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.bulk.bulk_rows import brings_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.txn.participant.half_batch import HalfBatch

PUBLISHED_TOGETHER_BYTES: Final = 32 << 20  # some 200,000 messages of 100 bytes: tens of milliseconds
_APPENDED_TOGETHER_BYTES: Final = 4 << 20  # some milliseconds; there is room for the rows and messages of two appends
MOST_APPENDED_TOGETHER: Final = 256  # however few rows a half batch has, it takes some 16 µs


def published_together(halves: Sequence[HalfBatch]) -> Iterator[list[HalfBatch]]:
    """Half batches that become readable together."""
    group: list[HalfBatch] = []
    size = 0
    for half in halves:
        group.append(half)
        size += half.messages_bytes
        if size >= PUBLISHED_TOGETHER_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def appended_together(halves: Sequence[HalfBatch]) -> Iterator[list[HalfBatch]]:
    """Half batches that are appended together: as many of rows for one topic as may be, or one that is larger. The
    order in each queue stays.

    Each alone costs as much as some thousand rows, and a micro-batch of few rows has one for each task and queue.
    """
    for _, of_topic in groupby(sorted(halves, key=attrgetter("topic", "queue_id")), attrgetter("topic")):
        together: list[HalfBatch] = []
        size = 0
        for half in of_topic:
            size += half.messages_bytes
            is_full = size > _APPENDED_TOGETHER_BYTES or len(together) == MOST_APPENDED_TOGETHER
            if together and (is_full or not brings_rows(half.record_size)):
                yield together
                together, size = [], half.messages_bytes
            together.append(half)
            if not brings_rows(half.record_size):
                yield together
                together, size = [], 0
        if together:
            yield together
