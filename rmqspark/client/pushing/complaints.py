"""Tells of a listener that fails, so that one which fails again and again at the same message does not fill the log.

The first time with the traceback; then that it still does at the 2nd, 4th, 8th … time, in a line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rmqspark.client.pushing.process_queue import Batch
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

_log = logging.getLogger(__name__)


class _Failing(NamedTuple):
    """What fails in a queue, and how often it has."""

    queue_offset: int
    error: type[BaseException]
    times: int


class Complaints:
    """Of one consumer. Safe to share between threads that are at different queues; others may tell once too often."""

    def __init__(self) -> None:
        self._failing: dict[MessageQueue, _Failing] = {}

    def passed(self, batch: Batch) -> None:
        """The listener has returned."""
        if self._failing:
            self._failing.pop(batch.of.queue, None)

    def failed(self, batch: Batch, error: BaseException) -> None:
        """The listener has raised this."""
        queue, queue_offset, kind = batch.of.queue, batch.messages[0].queue_offset, type(error)
        known = self._failing.get(queue)
        times = known.times + 1 if known is not None and known[:2] == (queue_offset, kind) else 1
        self._failing[queue] = _Failing(queue_offset, kind, times)
        what = ", ".join(map(story, batch.messages))
        if times == 1:
            _log.error("The listener failed at %s", what, exc_info=error)
        elif times & (times - 1) == 0:
            _log.error("The listener has failed %d times at %s: %s: %s", times, what, kind.__name__, error)


def story(message: ReceivedMessage) -> str:
    """Which message it is."""
    return f"{message.topic} {message.queue} offset {message.queue_offset} ({message.msg_id})"
