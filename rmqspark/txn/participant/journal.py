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
    from collections.abc import Iterator

    from rmqspark.txn.participant.half_store import HalfStore
    from rmqspark.txn.participant.participant import Participant
    from rmqspark.txn.participant.participant_events import Event

_SUMMARY_EVERY_EVENTS: Final = 256
_SUMMARY_BYTES: Final = 16 << 20  # a slave takes no record above 32 MiB, and it is written again and again

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
        """One that is too large tells less, then remembers less: without a summary the log could never expire. Where
        what is held alone is too much, one that fits into a file of the log has to do."""
        next_half = self._halves.next_half
        for most_bytes in (_SUMMARY_BYTES, None):
            for idle, told in _ever_less(self._participant.idle_count, self._participant.id_count):
                summary = self._participant.summary(next_half, idle=idle, told=told)
                with suppress(InvalidMessage):
                    log_offset = self._halves.record(summary, most_bytes=most_bytes)
                    self._participant.forget_idle(idle)
                    return log_offset
        raise InvalidMessage("What is held does not fit into a file of the log.")

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


def _ever_less(idle: int, told: int) -> Iterator[tuple[int, int]]:
    """How many idle ids to remember, and of how many to tell where messages went: that goes first."""
    while told:
        yield idle, told
        told //= 2
    while idle:
        yield idle, 0
        idle //= 2
    yield 0, 0
