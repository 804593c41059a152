"""From a key to messages: the index says where they may lie, the log brings them."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import MessageNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.store.index.index import Index
    from rmqspark.store.log.commit_log import CommitLog


NOTHING: Final = -1


class WalkLimits(NamedTuple):
    """`below` is a physical offset; `max_bytes` hold for all records but the first."""

    max_count: int
    max_bytes: int
    below: int


class Walked(NamedTuple):
    """Records, the newest first, and the physical offset down to which there are no others; NOTHING where none was
    there."""

    records: list[bytes]
    reached: int


class KeySearch:
    """Finds nothing where the store keeps no index, whatever is there."""

    def __init__(self, log: CommitLog, index: Index | None) -> None:
        self._log = log
        self._index = index

    def run(
        self, topic: str, key: str, begin_ms: int, end_ms: int, max_count: int, max_bytes: int | None
    ) -> list[bytes]:
        """Records stored in [begin_ms, end_ms] under a key with the hash of this one; the caller compares the keys.

        As many of them, in the order of the index, as fit into `max_bytes`, but one at least."""
        chosen: list[bytes] = []
        left = math.inf if max_bytes is None else max_bytes
        for record in self._found(topic, key, begin_ms, end_ms, max_count):
            left -= len(record)
            if left < 0 and chosen:
                break
            chosen.append(record)
        return chosen

    def walk(self, topic: str, key: str, begin_ms: int, end_ms: int, limits: WalkLimits) -> Walked:
        """The same from a place in the log downwards, the newest first."""
        if self._index is None:
            return Walked([], NOTHING)
        chosen: list[bytes] = []
        reached, left = NOTHING, limits.max_bytes
        found = self._index.find(topic, key, begin_ms, end_ms, limits.max_count, limits.below)
        for physical_offset in reversed(found):
            with suppress(MessageNotFound):  # it has expired
                record = self._log.read_record(physical_offset)
                left -= len(record)
                if left < 0 and chosen:
                    break
                chosen.append(record)
            reached = physical_offset
        return Walked(chosen, reached)

    def _found(self, topic: str, key: str, begin_ms: int, end_ms: int, max_count: int) -> Iterator[bytes]:
        if self._index is None:
            return
        for physical_offset in self._index.find(topic, key, begin_ms, end_ms, max_count):
            try:
                yield self._log.read_record(physical_offset)
            except MessageNotFound:
                continue
