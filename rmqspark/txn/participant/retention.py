"""A participant and the log's retention: which part of the log it needs, and what goes with the part that is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from rmqspark.clock import Clock
    from rmqspark.txn.participant.half_store import HalfStore
    from rmqspark.txn.participant.journal import Journal
    from rmqspark.txn.participant.participant import Participant

_SUMMARY_INTERVAL_MS: Final = 6 * 3_600_000
_SUMMARY_INTERVAL_BYTES: Final = 1 << 30  # of the log: on a disk that is filling up no more should have to stay

log = structlog.get_logger("rmqspark.txn")


class Retention:
    """Keeps a participant and its log's retention in step. Belongs to the event loop's thread."""

    def __init__(self, participant: Participant, halves: HalfStore, journal: Journal, clock: Clock) -> None:
        self._participant = participant
        self._halves = halves
        self._journal = journal
        self._clock = clock
        self._min_offset = halves.min_offset
        self._plan_summary()

    def forget_expired(self) -> None:
        """Lets go of the half batches that are in the log no more.

        Files go between any two requests: a vote that were answered without this might be for what has gone.
        """
        if self._min_offset == self._halves.min_offset:
            return
        self._min_offset = self._halves.min_offset
        for half in self._participant.forget_before(self._min_offset):
            log.warning("an undecided half batch has expired", batch=str(half.name.batch), rows=half.rows)

    def renew_summary(self) -> None:
        """Writes a summary, if it is time: of the log behind the newest one nothing may go."""
        if self._clock.monotonic_ms() >= self._summary_due_ms or self._halves.end_offset >= self._summary_due_offset:
            self._plan_summary()
            self._journal.summarize(at_once=True)

    def _plan_summary(self) -> None:
        self._summary_due_ms = self._clock.monotonic_ms() + _SUMMARY_INTERVAL_MS
        self._summary_due_offset = self._halves.end_offset + _SUMMARY_INTERVAL_BYTES

    def needed_offset(self) -> int | None:
        """Physical offset from which on the log is needed: what was voted for, and what a start reads of the events.
        None if all of it may go."""
        offsets = (self._participant.needed_offset(), self._journal.needed_offset)
        return min((offset for offset in offsets if offset is not None), default=None)
