"""Which queue entries have a message, and which of those a read wants: with these tags.

An entry may lead to what has expired, and one of a damaged file to anything. One that is lost or blank says that its
message has 2 GiB, and so much may well have come into the log since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rmqspark.protocol.records.record import MIN_RECORD_BYTES
from rmqspark.store.queues.consume_queue import NO_MESSAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import Entries

_FEW_TAGS: Final = 8  # so many comparisons cost less than one look into a sorted array
ELSEWHERE_BELOW: Final = -(1 << 31)
"""A tags code below this is none, but a place in RocketMQ's consumequeue_ext (its enableConsumeQueueExt), which is not
read. Whoever asks for tags looks at those of the messages anyway: hash codes deceive."""


def as_wanted(tag_codes: Iterable[int] | None) -> NDArray[np.int32] | None:
    """Codes of tags as `rows_wanted` takes them."""
    return None if tag_codes is None else np.array([*tag_codes], np.int64).astype(np.int32)


def has_message(log: CommitLog, physical_offset: int, size: int) -> bool:
    """Whether an entry with this place and size can have one."""
    is_one = MIN_RECORD_BYTES <= size <= log.end_offset - physical_offset and size != NO_MESSAGE_SIZE
    return is_one and physical_offset >= log.min_offset


def have_messages(log: CommitLog, entries: Entries) -> NDArray[np.bool_]:
    """The same of many entries."""
    physical_offsets, sizes = entries["physical_offset"], entries["size"]
    there: NDArray[np.bool_] = (
        (physical_offsets >= log.min_offset)
        & (sizes >= MIN_RECORD_BYTES)
        & (sizes <= log.end_offset - physical_offsets)
    )
    if log.end_offset - log.min_offset >= NO_MESSAGE_SIZE:  # else there are none of that size
        there &= sizes != NO_MESSAGE_SIZE
    return there


def rows_wanted(log: CommitLog, entries: Entries, wanted: NDArray[np.int32] | None) -> tuple[NDArray[np.int64], bool]:
    """The rows that have a message with these tags, and whether any has a message at all."""
    there = have_messages(log, entries)
    if wanted is None:
        rows = np.flatnonzero(there)
        return rows, len(rows) > 0
    matches = there & may_have_tags(entries, wanted)
    return np.flatnonzero(matches), bool(there.any())


def may_have_tags(entries: Entries, wanted: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of these entries may be of messages with one of these tags."""
    codes = entries["tags_code"]
    may: NDArray[np.bool_] = _is_one_of(codes.astype(np.int32), wanted) | (codes < ELSEWHERE_BELOW)
    return may


def _is_one_of(codes: NDArray[np.int32], wanted: NDArray[np.int32]) -> NDArray[np.bool_]:
    if not 0 < len(wanted) <= _FEW_TAGS:
        return np.isin(codes, wanted)
    found: NDArray[np.bool_] = codes == wanted[0]
    for code in wanted[1:]:
        found |= codes == code
    return found
