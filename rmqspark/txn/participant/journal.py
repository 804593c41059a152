"""A participant's memory in the log: each thing that happens is an event there before the participant goes by it.

From time to time a summary says all that matters at its place: a start reads from the newest one on, and what lies
before it may expire.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import InvalidMessage, NotWritable
from rmqspark.txn.participant.participant_events import Summary

if TYPE_CHECKING:
    from rmqspark.txn.participant.half_store import HalfStore
    from rmqspark.txn.participant.participant import Participant
    from rmqspark.txn.participant.participant_events import Event

_SUMMARY_EVERY_EVENTS: Final = 256
_SUMMARY_BYTES: Final = 4 << 20  # slaves take no record of much more, and it is written again and again

log = structlog.get_logger("rmqspark.txn")


class Journal:
    """The only one who tells the participant what has happened."""

    def __init__(self, participant: Participant, halves: HalfStore) -> None:
        self._participant = participant
        self._halves = halves
        self._events = 0  # since the newest summary
        self.needed_offset: int | None = None
        """Physical: of the newest summary, or of the first event before any."""

    def record(self, event: Event) -> None:
        """Writes an event, and has the participant take it over. Raises NotWritable."""
        log_offset = self._halves.record(event)
        self._participant.apply(event, log_offset)
        self._events += 1
        if self.needed_offset is None:
            self.needed_offset = log_offset

    def summarize(self, *, at_once: bool = False) -> None:
        """Writes a summary, if it is time for one."""
        is_due = self.needed_offset is not None if at_once else self._events >= _SUMMARY_EVERY_EVENTS
        if not is_due:
            return
        try:
            self.needed_offset = self._record_summary()
            self._events = 0
        except (NotWritable, InvalidMessage) as error:  # a start reads more events instead
            log.warning("half batches could not be summarized", reason=str(error))

    def _record_summary(self) -> int:
        """One that is too large tells less, then remembers less: without a summary the log could never expire."""
        next_half = self._halves.next_half
        with suppress(InvalidMessage):
            return self._halves.record(self._participant.summary(next_half), most_bytes=_SUMMARY_BYTES)
        most_idle = self._participant.idle_count
        while most_idle:
            less = self._participant.summary(next_half, most_idle=most_idle, with_outputs=False)
            with suppress(InvalidMessage):
                return self._halves.record(less, most_bytes=_SUMMARY_BYTES)
            most_idle //= 2
        return self._halves.record(self._participant.summary(next_half, most_idle=0, with_outputs=False))

    def replay(self) -> None:
        """Tells the participant all that the log says. Once, at a start."""
        events = self._halves.events()
        self.needed_offset = events[0][1] if events else None
        summary = events[0][0] if events and isinstance(events[0][0], Summary) else None
        if summary is not None:
            self._participant.apply(*events.pop(0))
        for half in self._halves.find(summary):
            self._participant.hold(half)
        for event, log_offset in events:
            self._participant.apply(event, log_offset)
        self._events = len(events)
