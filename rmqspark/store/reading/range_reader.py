"""Reading ranges of many queues at once: a look at each queue's entries, then one at all records.

What a read costs is mostly the same for one message and for some hundred, so with a few in each of many queues it is
not the messages that cost. Here only the entries are fetched queue by queue; which of them are wanted, how far the
limits reach and where the records lie is found for all of them together.

An answer is about the first ranges, as many as the limits let through. What is wrong with one of them ends the answer
before it, or, where it is the first, is raised: so each range fails as it would alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rmqspark.errors import DamagedFile
from rmqspark.protocol.bulk.topic_ranges import FoundRanges
from rmqspark.store.queues.consume_queue import ENTRY_DTYPE
from rmqspark.store.reading.log_regions import regions_of
from rmqspark.store.reading.wanted_entries import as_wanted, rows_wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.protocol.buffers.spans import Positions
    from rmqspark.protocol.bulk.topic_ranges import TopicRange
    from rmqspark.store.log.commit_log import CommitLog
    from rmqspark.store.queues.consume_queue import Entries
    from rmqspark.store.queues.consume_queues import ConsumeQueues
    from rmqspark.store.reading.collect import Collector

_MOST_ENTRIES: Final = 1 << 16  # that one read looks at: a few milliseconds of the event loop
_NO_BYTES: Final = np.empty(0, np.uint8)


class _Look(NamedTuple):
    """The entries of the first ranges, one after the other: where each range starts, how many entries it has, and where
    its queue begins."""

    entries: Entries
    starts: Positions
    lengths: Positions
    min_offsets: Positions


class RangeReader:
    """Reads ranges of any queues of one log."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues, collector: Collector) -> None:
        self._log = log
        self._queues = queues
        self._collector = collector

    def read(
        self,
        ranges: Sequence[TopicRange],
        *,
        max_count: int,
        max_bytes: int,
        tag_codes: frozenset[int] | None = None,
        unchecked: bool = False,
    ) -> FoundRanges:
        """The messages of the first of these ranges (one at least), as far as the limits allow: one message if there is
        any, whatever its size. It may find none although ranges are left: read on behind the last. A range that starts
        below its queue brings nothing. `unchecked` as in `Reader.read_bulk`. Raises DamagedFile where the first range
        has no file."""
        most = _MOST_ENTRIES if tag_codes is not None else min(_MOST_ENTRIES, max(1, max_count))
        look = self._look(ranges, most, max_bytes if tag_codes is None else None)
        rows, _ = rows_wanted(self._log, look.entries, as_wanted(tag_codes))
        sizes = look.entries["size"][rows].astype(np.int64)
        fit = min(max(1, int(np.searchsorted(np.cumsum(sizes), max_bytes, side="right"))), max(1, max_count))
        reached = int(rows[fit]) if fit < len(rows) else len(look.entries)
        return self._found(look, rows[:fit], sizes[:fit], reached, unchecked=unchecked)

    def _look(self, ranges: Sequence[TopicRange], most: int, max_bytes: int | None) -> _Look:
        """The entries of the first ranges: `most`, and for about `max_bytes`, as each range's first entry has it."""
        parts: list[Entries] = []
        seen: list[tuple[int, int, int]] = []
        size_bytes = 0
        for topic, queue_id, start, end, _ in ranges:
            queue = self._queues.get(topic, queue_id)
            low, high = (queue.min_offset, queue.max_offset) if queue is not None else (0, 0)
            length = min(end, high, start + most) - start if start >= low else 0
            if queue is not None and length > 0:
                try:
                    parts.append(queue.entries(start, start + length))
                except DamagedFile:
                    if not seen:
                        raise
                    break
                most -= length
                size_bytes += length * int(parts[-1]["size"][0])
            seen.append((start, max(0, length), low))
            if not most or (max_bytes is not None and size_bytes >= max_bytes):
                break
        starts, lengths, min_offsets = np.array(seen, np.int64).T
        return _Look(np.frombuffer(b"".join(part.data for part in parts), ENTRY_DTYPE), starts, lengths, min_offsets)

    def _found(self, look: _Look, rows: Positions, sizes: Positions, reached: int, *, unchecked: bool) -> FoundRanges:
        """What is at these rows of the entries looked at, of which the limits let the first `reached` through."""
        begins = np.cumsum(look.lengths) - look.lengths
        answered = max(1, int(np.searchsorted(begins, reached))) if reached < len(look.entries) else len(begins)
        begins = begins[:answered]
        places = look.entries["physical_offset"][rows].astype(np.int64)
        regions = regions_of(self._log.segments, places, sizes) if unchecked else None
        if regions is None:
            body, sizes, sound = self._collector.collect_sound(places, sizes)
        else:
            body, sound = _NO_BYTES, np.ones(len(sizes), np.bool_)
        sound_before = np.concatenate((np.zeros(1, np.int64), np.cumsum(sound)))
        of_ranges = sound_before[np.searchsorted(rows, np.append(begins, reached))]
        next_offsets = look.starts[:answered] + np.minimum(look.lengths[:answered], reached - begins)
        min_offsets = look.min_offsets[:answered]
        return FoundRanges(
            np.maximum(next_offsets, min_offsets),
            min_offsets,
            np.diff(of_ranges),
            sizes.astype(np.int32),
            body.data,
            regions or (),
        )
