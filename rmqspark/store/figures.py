"""How much a store holds, for operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rmqspark.store.files import DiskUsage


class StoreFigures(NamedTuple):
    """How much a store holds. Times in ms, -1 where there is no message."""

    min_physical_offset: int
    end_physical_offset: int
    flushed_physical_offset: int
    readable_physical_offset: int
    earliest_timestamp_ms: int
    newest_timestamp_ms: int
    indexed_physical_offset: int
    disk: DiskUsage
    refusal: str
    """Why the store takes no messages now; "" while it does."""
