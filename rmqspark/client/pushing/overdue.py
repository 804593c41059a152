"""Gives back what a listener is at for too long, so that one which hangs does not hold its queue up for ever.

RocketMQ: ConsumeMessageConcurrentlyService.cleanExpireMsg. What the listener makes of such a message in the end counts
for nothing: it is another member's by then, or comes here once more.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.client.pushing.complaints import story
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.client.pushing.agenda import Agenda
    from rmqspark.client.pushing.process_queue import Batch
    from rmqspark.client.pushing.workers import Workers
    from rmqspark.clock import Clock
    from rmqspark.model import ReceivedMessage

_MINUTE_MS: Final = 60_000

_log = logging.getLogger(__name__)


class Overdue:
    """Of one consumer. `way` gives a message back, which may take its time; `tell` hears, on any thread, of each that
    is."""

    def __init__(
        self,
        workers: Workers,
        way: Callable[[ReceivedMessage], None],
        tell: Callable[[Batch, ReceivedMessage], None],
        timeout_minutes: int,
    ) -> None:
        self._workers = workers
        self._way = way
        self._tell = tell
        self._timeout_minutes = timeout_minutes
        self._looked_ms: int | None = None
        self._thread: threading.Thread | None = None

    def watch(self, agenda: Agenda, clock: Clock) -> None:
        """Looks now and again, each time when what was begun with just before the last time is overdue."""
        if self._looked_ms is not None:
            self._look(self._workers.begun_before(self._looked_ms))
        self._looked_ms = clock.monotonic_ms()
        agenda.add(self._looked_ms + self._timeout_minutes * _MINUTE_MS, partial(self.watch, agenda, clock))

    def _look(self, overdue: list[Batch]) -> None:
        """All that is held of these is given back, on a thread of its own; not while the last is at it."""
        if overdue and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(
                target=self._give_back, args=(overdue,), name="rmqspark-overdue", daemon=True
            )
            self._thread.start()

    def _give_back(self, batches: list[Batch]) -> None:
        for batch in batches:
            for message in batch.messages:
                if batch.is_wanted and batch.of.holds(message):
                    self._give_back_one(batch, message)

    def _give_back_one(self, batch: Batch, message: ReceivedMessage) -> None:
        try:
            self._way(message)
        except RmqError as error:
            _log.warning("No broker takes back %s, at which the listener still is: %s", story(message), error)
        else:
            minutes = self._timeout_minutes
            _log.warning("The listener is at %s for more than %d minutes: it comes again", story(message), minutes)
            self._tell(batch, message)
