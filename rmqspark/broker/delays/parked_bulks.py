"""Bulks of messages that are to wait: their senders put them where they wait, with what they say there.

So a bulk, or half a batch of a transaction, stays messages of one queue: that of a delay level, or of the timer topic.
What each says of where it belongs and when is looked at before any is stored; that is a few microseconds of Python for
each message, on a path that few take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.delays.deliver_times import due_in, room_for_times_told
from rmqspark.broker.delays.parking import place_in
from rmqspark.errors import InvalidMessage, InvalidQueue
from rmqspark.protocol.bulk.bulk_rows import BulkRows
from rmqspark.protocol.names import TIMER_TOPIC
from rmqspark.protocol.records.properties import Property, decode_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rmqspark.broker.delays.parking import Place
    from rmqspark.clock import Clock
    from rmqspark.protocol.records.record_batch import RecordBatch

_REFUSED: Final = frozenset(
    {Property.TRANSACTION_PREPARED, Property.TIMER_DEL_UNIQKEY, Property.TIMER_ROLL_TIMES, Property.TIMER_DEQUEUE_MS}
)


class ParkedBulks:
    """Knows what may wait here. `check_place` raises what forbids sending to a queue; `require_room` where so many more
    may not wait for their time."""

    def __init__(
        self,
        check_place: Callable[[str, int], None],
        require_room: Callable[[int], None],
        clock: Clock,
        *,
        levels: int,
        max_delay_ms: int,
    ) -> None:
        self._check_place = check_place
        self._require_room = require_room
        self._clock = clock
        self._levels = levels
        self._max_delay_ms = max_delay_ms

    def check(self, topic: str, queue_id: int, bulk: RecordBatch | BulkRows) -> None:
        """Raises InvalidMessage or InvalidQueue where not all messages of a bulk may wait in this queue, Busy, and what
        forbids to send them where they belong."""
        if isinstance(bulk, BulkRows):
            raise InvalidMessage("Nothing of the bulk was stored. Rows that are to wait do not say where they belong.")
        if topic == TIMER_TOPIC:
            self._require_room(len(bulk))
            places = {self._timed(properties) for properties in _properties_of(bulk)}
        elif not 0 <= queue_id < self._levels:
            raise InvalidQueue(f"This broker has {self._levels} delay levels, not {queue_id + 1}.")
        else:
            places = {self._delayed(properties, queue_id + 1) for properties in _properties_of(bulk)}
        for place in places:
            self._check_place(*place)

    def _timed(self, properties: Mapping[str, str]) -> Place:
        due_ms, now_ms = due_in(properties, _WHERE), self._clock.now_ms()
        if due_ms > now_ms + self._max_delay_ms:
            raise InvalidMessage(
                f"Nothing of the bulk was stored. A message waits {self._max_delay_ms // 1000} seconds at most, not "
                f"{(due_ms - now_ms) // 1000}.",
                hint="See timer_max_delay_sec.",
            )
        return place_in(properties, _WHERE)

    def _delayed(self, properties: Mapping[str, str], level: int) -> Place:
        if properties.get(Property.DELAY) != str(level):
            raise InvalidMessage(f"Nothing of the bulk was stored. A message of it is not of delay level {level}.")
        return place_in(properties, _WHERE)


_WHERE: Final = "A record of the bulk"


def _properties_of(bulk: RecordBatch) -> Iterator[dict[str, str]]:
    raw, spans = bulk.buffer.data, bulk.properties
    for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True):
        encoded = raw[start:end]
        properties = decode_properties(encoded)
        if not _REFUSED.isdisjoint(properties) or not room_for_times_told(len(encoded)):
            raise InvalidMessage("Nothing of the bulk was stored. A message of it has properties that no message has.")
        yield properties
