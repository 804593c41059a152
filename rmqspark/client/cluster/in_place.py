"""Records that a broker has not looked at, made sure of: they go out as they lie in its log, uncopied.

It vouches for where they lie (`store/reading/log_regions.py`); what they say of themselves their reader looks at. Where
one is not what was asked for, as on a disk that loses bits, the broker is asked again, to read them itself: it leaves
out what is damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from rmqspark.client.cluster.futures import after, at_hand, elsewhere
from rmqspark.protocol.buffers.spans import as_bytes, items_at
from rmqspark.protocol.records.record import PHYSICAL_OFFSET_AT, QUEUE_ID_AT, QUEUE_OFFSET_AT, SIZE_AT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqspark.clock import Clock

A = TypeVar("A")
Ask: TypeAlias = Callable[[bool, int], Future[A]]
"""Asks with or without `readerChecks`, and gives up after so many milliseconds."""

_log = logging.getLogger(__name__)


def made_sure_of(ask: Ask[A], is_in_place: Callable[[A], bool], timeout_ms: int, clock: Clock) -> Future[A]:
    """An answer that is in place, or that the broker has looked at: all within the time."""
    deadline_ms = clock.monotonic_ms() + timeout_ms

    def or_asked_again(answer: A) -> Future[A]:
        if is_in_place(answer):
            return at_hand(answer)
        _log.info("Not all that a broker has sent is what it was asked for: it is asked again, to look at it.")
        return elsewhere(lambda: ask(False, max(1, deadline_ms - clock.monotonic_ms())))

    return after(ask(True, timeout_ms), or_asked_again)


def are_in_place(
    records: memoryview,
    sizes: NDArray[np.int32],
    queue_ids: NDArray[np.int64] | int,
    starts: NDArray[np.int64] | int,
    ends: NDArray[np.int64] | int,
    counts: NDArray[np.int64] | None = None,
) -> bool:
    """Whether records say of themselves that they have these sizes, are of these queues, by number, and of these ranges
    of offsets (one for all of them, or one for each), and lie behind each other in the log. With `counts` they are of
    several queues: so many of the first, then of the next."""
    if not len(sizes):
        return True
    buffer, at = as_bytes(records), np.cumsum(sizes, dtype=np.int64) - sizes
    offsets = items_at(buffer, at + QUEUE_OFFSET_AT, ">i8")
    places = items_at(buffer, at + PHYSICAL_OFFSET_AT, ">i8")
    follows = (offsets[1:] > offsets[:-1]) & (places[1:] >= places[:-1] + sizes[:-1])
    if counts is not None:
        firsts = np.cumsum(counts)[:-1]
        follows[firsts[(firsts > 0) & (firsts < len(sizes))] - 1] = True
    return bool(
        (items_at(buffer, at + SIZE_AT, ">i4") == sizes).all()
        and (items_at(buffer, at + QUEUE_ID_AT, ">i4") == queue_ids).all()
        and (offsets >= starts).all()
        and (offsets < ends).all()
        and follows.all()
    )
