"""Reads ahead of whoever polls: asks for every queue that has room, takes in what has arrived, and hands out what is
decoded.

Backlog is read with rmqspark's bulk reads where the broker has them; at the tail a pull waits in the broker, one for
each queue: none is starved, nothing is polled for, and a message is here as soon as it is readable.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.pulling.cursor import CHUNK_BYTES, Cursor
from rmqspark.client.pulling.fetcher import Reset, Started
from rmqspark.client.pulling.received import first_unreadable, received_all
from rmqspark.errors import RecordError, RmqError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqspark.client.pulling.cursor import Fetched
    from rmqspark.client.pulling.fetcher import Arrival, Fetcher
    from rmqspark.clock import Clock
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

MAX_AHEAD_BYTES: Final = 64 << 20  # fetched or asked for beyond what was handed out, all queues together
RETRY_MS: Final = 1_000
START_MS: Final = 1_000
_log = logging.getLogger(__name__)


class _Untold(NamedTuple):
    """What is wrong with the next message of a queue, as long as that is the next one (`generation`)."""

    cursor: Cursor
    generation: int
    error: RmqError


class ReadAhead:
    """The queues of one consumer. Belongs to whoever has the consumer's turn. `accept` tests what a broker's filter has
    let through; None accepts everything."""

    def __init__(
        self, fetcher: Fetcher, accept: Callable[[ReceivedMessage], bool] | None, max_messages: int, clock: Clock
    ) -> None:
        self.cursors: dict[MessageQueue, Cursor] = {}
        self._fetcher = fetcher
        self._accept = accept
        self._max_messages = max_messages
        self._clock = clock
        self._order: deque[Cursor] = deque()
        self._taken_from: dict[Cursor, int | None] = {}  # where the cursors stood before the last hand-out
        self._untold: _Untold | None = None

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """These queues from now on, and no others. Those it reads already keep their place."""
        before = self.cursors
        self.cursors = {queue: before.get(queue) or Cursor(queue) for queue in queues}
        self._order = deque(self.cursors.values())
        for queue in before.keys() - self.cursors.keys():
            before[queue].ask_again()  # its answer under way, an error perhaps, is nobody's any more

    def begin_anew(self) -> None:
        """In a process that is forked: what was asked for is answered to its parent. It goes on where that stood."""
        self._fetcher.begin_anew()
        for cursor in self._order:
            cursor.ask_again()

    def wake(self) -> None:
        """Ends a wait in `poll`, whose `check` then has its turn. Any thread may call it."""
        self._fetcher.wake()

    def poll(self, timeout_ms: int, check: Callable[[], None]) -> list[ReceivedMessage]:
        """The next messages, those of one queue in order; waits for the first ones. `check` raises what ends the wait.

        Raises what keeps a queue from being read and does not pass by itself, and what all queues have in their way
        when the time is over.
        """
        self._taken_from = {}  # what the last poll returned is not taken back any more
        try:
            messages = self._poll(timeout_ms, check)
        except RmqError:
            raise
        except BaseException:  # Ctrl-C above all: nobody gets what was taken, so it is read again; it rises
            self._take_back()
            raise
        if not messages:
            self._raise_if_nothing_works()
        return messages

    def _poll(self, timeout_ms: int, check: Callable[[], None]) -> list[ReceivedMessage]:
        began_ms = self._clock.monotonic_ms()
        while True:
            check()
            self._taken_from = {}
            self._take_in(self._fetcher.arrivals(0))
            self._fetch_ahead()
            messages = self._hand_out()
            is_starting = any(cursor.is_starting for cursor in self._order)
            patience_ms = max(timeout_ms, START_MS) if is_starting else timeout_ms
            left_ms = began_ms + patience_ms - self._clock.monotonic_ms()
            if messages or left_ms <= 0:
                return messages
            self._take_in(self._fetcher.arrivals(min(left_ms, RETRY_MS)))

    # --- from broker to cursor ---------------------------------------------------------------------------------------

    def _fetch_ahead(self) -> None:
        now_ms = self._clock.monotonic_ms()
        ahead_bytes = sum(cursor.bytes_ahead for cursor in self._order)
        for cursor in self._order:
            room = ahead_bytes < MAX_AHEAD_BYTES or not cursor.backlogged
            if not room or not cursor.wants_fetch(now_ms):
                continue
            self._fetcher.fetch(cursor)
            ahead_bytes += CHUNK_BYTES

    def _take_in(self, arrivals: Iterable[Arrival]) -> None:
        """Takes in all that has arrived; then raises the first error among it that does not pass by itself.

        Arrivals come once: one that an error before it kept from its cursor would leave that cursor waiting for ever.
        """
        lasting: RmqError | None = None
        for cursor, generation, outcome in arrivals:
            if generation != cursor.generation:
                continue
            if isinstance(outcome, Started):
                cursor.started(outcome.position)
            elif isinstance(outcome, Reset):
                cursor.seek(outcome.position)
            elif not isinstance(outcome, RmqError):
                cursor.arrived(outcome)
            else:
                self._note_failure(cursor, outcome)
                if lasting is None and not outcome.retriable:
                    lasting = outcome
        if lasting is not None:
            raise lasting

    def _note_failure(self, cursor: Cursor, error: RmqError) -> None:
        if cursor.failure is None and error.retriable:
            _log.warning("Queue %s cannot be read, and is tried again every second: %s", cursor.queue, error)
        cursor.failed(error, self._clock.monotonic_ms() + RETRY_MS if error.retriable else 0)

    def _raise_if_nothing_works(self) -> None:
        failures = [cursor.failure for cursor in self._order]
        if failures[0] is not None and None not in failures:
            raise failures[0]

    # --- from cursor to user -----------------------------------------------------------------------------------------

    def _hand_out(self) -> list[ReceivedMessage]:
        """From the queues in turn, beginning with another one each time. Raises what is wrong with a message."""
        untold, self._untold = self._untold, None
        if untold is not None and untold.generation == untold.cursor.generation:
            raise untold.error
        messages: list[ReceivedMessage] = []
        self._taken_from = {cursor: cursor.position for cursor in self._order}
        self._order.rotate(-1)
        try:
            for cursor in self._order:
                while (room := self._max_messages - len(messages)) > 0:
                    taken = cursor.take(room, partial(self._decode, cursor))
                    if not taken:
                        break
                    messages += taken
        except RmqError as error:
            if not messages:
                raise
            # Told by the next poll: what other queues gave counts as handed out.
            self._untold = _Untold(cursor, cursor.generation, error)
        return messages

    def _take_back(self) -> None:
        """What was taken and not handed out is read again; so is what arrived and may not have been taken in."""
        for cursor in self._order:
            cursor.position = self._taken_from.get(cursor, cursor.position)
            cursor.ask_again()

    def _decode(self, cursor: Cursor, chunk: Fetched) -> list[ReceivedMessage]:
        """Of a chunk with a message that cannot be read those before it; where it is the first the error says where."""
        try:
            messages = received_all(chunk.records, cursor.queue.broker_name, chunk.sizes)
        except RecordError as error:
            at, queue_offset = first_unreadable(chunk.records)
            if not at:
                raise _located(error, cursor.queue, queue_offset) from None
            messages = received_all(cursor.cut(at, queue_offset).records, cursor.queue.broker_name)
        return list(filter(self._accept, messages)) if self._accept else messages


def _located(error: RecordError, queue: MessageQueue, queue_offset: int) -> RecordError:
    return RecordError(
        f"Message {queue_offset} of {queue} cannot be read: {error.message}",
        hint=f"Step over it: consumer.seek(queue, {queue_offset + 1}).",
    )
