"""Several Arrow batches as one, for what is small costs as much as what is large.

Spark hands out 10,000 rows at a time to be written. Divided among queues that leaves sends of a thousand rows, and each
send costs client and broker about as much as the rows in it. Read from many queues, a few rows of each, every batch
costs Spark some hundred microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def gathered(batches: Iterable[Any], most_bytes: Callable[[Any], int]) -> Iterator[Any]:
    """The rows of Arrow batches, all of one schema, in their order: neighbours in one batch as long as that stays
    within `most_bytes` of its first. What is larger by itself stays as it is."""
    held: list[Any] = []
    room = 0
    for batch in batches:
        size = batch.nbytes
        if held and size > room:
            yield _one(held)
            held = []
        if not held:
            room = most_bytes(batch)
        held.append(batch)
        room -= size
    if held:
        yield _one(held)


def _one(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
