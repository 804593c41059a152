"""Which queues brokers are asked about, one request for each at a time: as long as there is room for what comes.

One that cannot be read rests, and is asked about again. What an answer means for its queue is done here; then the queue
goes on.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from rmqspark.client.pushing.instant import LONG_AGO
from rmqspark.client.pushing.pulls import BEGINS_ANEW, Found, Gone, Moved

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.client.pushing.agenda import Agenda
    from rmqspark.client.pushing.commits import Commits
    from rmqspark.client.pushing.figures import Figures
    from rmqspark.client.pushing.process_queue import ProcessQueue
    from rmqspark.client.pushing.pulls import Pulled, Pulls
    from rmqspark.client.pushing.rules import Rules
    from rmqspark.clock import Clock
    from rmqspark.errors import RmqError
    from rmqspark.message_queue import MessageQueue

PULL_RETRY_MS: Final = 3_000  # after an error

_log = logging.getLogger(__name__)


class Asking:
    """Belongs to the pump's thread. `post` has that do something later; `go_on` is called with a queue of which there
    is news, `on_trouble` with one that cannot be read, and why."""

    def __init__(
        self,
        pulls: Pulls,
        rules: Rules,
        commits: Commits,
        figures: Figures,
        agenda: Agenda,
        clock: Clock,
        *,
        post: Callable[[Callable[[], None]], None],
        go_on: Callable[[ProcessQueue], None],
        on_trouble: Callable[[MessageQueue, RmqError], None],
    ) -> None:
        self._pulls = pulls
        self._batch_size = rules.config.pull_batch_size
        self._most = rules.config.thresholds(ordered=rules.is_ordered)
        self._commits = commits
        self._figures = figures
        self._agenda = agenda
        self._clock = clock
        self._post = post
        self._go_on = go_on
        self._on_trouble = on_trouble
        self._under_way: dict[ProcessQueue, int] = {}  # and the generation that the answer is for
        self._resting: set[ProcessQueue] = set()  # asked again when their time has come
        self._failing: set[ProcessQueue] = set()

    def ask(self, held: ProcessQueue) -> None:
        """For what comes next, unless that is under way already, the queue rests, or has no room."""
        generation = held.generation
        if self._under_way.get(held) == generation or held in self._resting:
            return
        room = held.room(self._most, self._batch_size)
        if room is not None:
            self._under_way[held] = generation
            held.asked_ms = self._clock.monotonic_ms()
            self._pulls.ask(held, room, lambda pulled: self._post(partial(self._heard, held, generation, pulled)))

    def forget(self, held: ProcessQueue) -> None:
        """The queue is not held any more."""
        self._under_way.pop(held, None)
        self._resting.discard(held)
        self._failing.discard(held)

    # --- answers -----------------------------------------------------------------------------------------------------

    def _heard(self, held: ProcessQueue, generation: int, pulled: Pulled) -> None:
        if held.dropped or generation != held.generation:
            return
        del self._under_way[held]
        match pulled:
            case Found():
                self._take(held, pulled)
            case Moved():
                self._move(held, pulled)
            case Gone():
                self._note_failure(held, pulled)
        self._go_on(held)

    def _take(self, held: ProcessQueue, found: Found) -> None:
        self._failing.discard(held)
        took_ms = self._clock.monotonic_ms() - held.asked_ms
        self._figures.pulled(held.queue.topic, len(found.messages), took_ms)
        held.arrived(found.messages, found.next_offset, found.end_offset)
        held.topic_deleted_ms = found.topic_deleted_ms
        held.life = found.life or held.life
        if found.rest_ms:
            self._rest(held, found.rest_ms)

    def _move(self, held: ProcessQueue, moved: Moved) -> None:
        """Where it has to go on behind what is held, that is still good: the queue has only lost what is between."""
        _log.warning("Queue %s is read from offset %d on: %s", held.queue, moved.next_offset, moved.reason)
        if moved.is_reset or moved.next_offset < held.next_offset:
            held.restart(moved.next_offset)
        else:
            held.skip_to(moved.next_offset)
        held.topic_deleted_ms = moved.topic_deleted_ms
        held.life = moved.life or held.life
        self._commits.commit(held)

    def _note_failure(self, held: ProcessQueue, gone: Gone) -> None:
        begins_anew = isinstance(gone.error, BEGINS_ANEW)
        if begins_anew or held not in self._failing:
            _log.warning("Queue %s cannot be read, and is tried again: %s", held.queue, gone.error)
        self._failing.add(held)
        self._commits.doubt(held)
        held.locked_until = LONG_AGO  # a broker that starts again knows of no locks, and may give this one to another
        self._rest(held, PULL_RETRY_MS)
        if begins_anew:
            held.drop()
        self._on_trouble(held.queue, gone.error)

    def _rest(self, held: ProcessQueue, delay_ms: int) -> None:
        self._resting.add(held)
        self._agenda.add(self._clock.monotonic_ms() + delay_ms, partial(self._rested, held))

    def _rested(self, held: ProcessQueue) -> None:
        self._resting.discard(held)
        self._go_on(held)
