"""Where the messages of a version are, told in one range for each queue.

Others may write to a queue between two pieces of a large version; such a range says how many of its messages are the
version's own. What went with a topic that was deleted is a number of rows. So the account has a length that is known
before anything is written, and fits into one event.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.protocol.bodies.txn import OutputRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.txn.participant.half_batch import HalfBatch
    from rmqspark.txn.participant.held import AppendedRows

_MOST: Final = (1 << 63) - 1
_encode: Final = msgspec.json.Encoder().encode


def output_ranges(appended: Iterable[tuple[str, int, AppendedRows]], broker_name: str) -> list[OutputRange]:
    """The ranges of what was appended: topic, queue id and place of each piece, in any order."""
    ranges = []
    for (topic, queue_id), pieces in groupby(sorted(appended), key=itemgetter(0, 1)):
        places = [place for _, _, place in pieces]
        first, end = places[0].queue_offset, places[-1].queue_offset + places[-1].rows
        rows = sum(place.rows for place in places)
        ranges.append(OutputRange(topic, broker_name, queue_id, first, end, rows if rows < end - first else None))
    return ranges


def deleted_ranges(halves: Iterable[HalfBatch], broker_name: str) -> list[OutputRange]:
    """What stands in the place of ranges for half batches that went with their topics."""
    rows: Counter[tuple[str, int]] = Counter()
    for half in halves:
        rows[half.topic, half.queue_id] += half.rows
    return [
        OutputRange(topic, broker_name, queue_id, deleted=count) for (topic, queue_id), count in sorted(rows.items())
    ]


def most_bytes(queues: Iterable[tuple[str, int]], broker_name: str) -> int:
    """How long the account of messages for these queues (topic, queue id) is at most, in an event."""
    ranges = (OutputRange(topic, broker_name, queue_id, _MOST, _MOST, _MOST) for topic, queue_id in queues)
    return len(_encode(broker_name)) + sum(len(_encode(each)) + len(",") for each in ranges)
