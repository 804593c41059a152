"""Single messages that ask to wait: which may, and where each does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.delays.deliver_times import asked_time_ms, park_until
from rmqspark.broker.delays.parking import TIMER_PROPERTIES, asked_level, park
from rmqspark.broker.delays.recalls import handle_of
from rmqspark.protocol.names import RETRY_PREFIX
from rmqspark.protocol.records.properties import Property

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.delays.parking import Parked, Place
    from rmqspark.clock import Clock

_ASK_FOR_A_TIME: Final = frozenset({Property.DELAY, *TIMER_PROPERTIES})


class AskedDelays:
    """Parks them, as far as this broker allows. `require_room` raises Busy where no more may wait for a time."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, levels: int, require_room: Callable[[], None]) -> None:
        self._levels = levels
        self._max_delay_ms = config.timer_max_delay_sec * 1000
        self._recallable_at = config.broker_name if config.recall_message_enable else None
        self._require_room = require_room
        self._clock = clock

    def park(self, place: Place, encoded: bytes, properties: Mapping[str, str]) -> Parked | None:
        """Where a message with these properties, `encoded` and read, waits that must not be delivered at once; None for
        all others. Raises InvalidMessage for what it may not ask for, and Busy."""
        if _ASK_FOR_A_TIME.isdisjoint(properties):
            return None
        if (level := asked_level(properties)) > 0:
            return park(place, encoded, level, self._levels)
        time_ms = asked_time_ms(properties, self._clock.now_ms(), self._max_delay_ms)
        if time_ms is None:
            return None
        self._require_room()
        return park_until(place, encoded, time_ms)

    def recall_handle(self, topic: str, parked: Parked, unique_key: str) -> str | None:
        """What the sender of a message for this topic is given to recall it by (RocketMQ's SendMessageProcessor)."""
        if parked.due_ms is None or self._recallable_at is None or topic.startswith(RETRY_PREFIX):
            return None
        return handle_of(topic, self._recallable_at, parked.due_ms, unique_key)
