"""The threads on which listeners run."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rmqspark.client.pushing.listening import LEFT_FOR_MS, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.client.pushing.process_queue import Batch
    from rmqspark.clock import Clock


_log = logging.getLogger(__name__)


class Consumes(Protocol):
    """What to do with a batch; `Listening` does it. None: nothing, its turn has not come."""

    def consume(self, batch: Batch) -> Outcome | None: ...


class Took(NamedTuple):
    """When a call of the listener began and ended, monotonic."""

    began_ms: int
    ended_ms: int


NO_TIME: Final = Took(0, 0)


class Begun(NamedTuple):
    """A batch that a listener is at, since that time."""

    batch: Batch
    since_ms: int


class Workers:
    """So many daemon threads, and the batches that wait for them: as many as the queues that gave them may hold."""

    def __init__(
        self, count: int, consumes: Consumes, report: Callable[[Batch, Outcome | None, Took], None], clock: Clock
    ) -> None:
        """`report` is told of every batch that was given and not withdrawn, on the worker's thread, what became of it,
        and when that began and ended; None where its queue was lost, unlocked or set elsewhere before its turn came."""
        self._consumes = consumes
        self._report = report
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._clock = clock
        self._begun: list[Begun | None] = [None] * count
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"rmqspark-consume-{number}", daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def give(self, batch: Batch) -> None:
        self._batches.put(batch)

    def withdraw(self) -> list[Batch]:
        """Takes back what no thread has begun with."""
        withdrawn: list[Batch] = []
        while True:
            try:
                batch = self._batches.get_nowait()
            except Empty:
                return withdrawn
            if batch is not None:
                withdrawn.append(batch)

    def stop(self) -> None:
        """Each ends when it is through with its batch."""
        for _ in self._threads:
            self._batches.put(None)

    def join(self, timeout_s: float) -> None:
        """Waits for threads that end, for each so long, and for none after one that does not."""
        for thread in self._threads:
            thread.join(timeout_s)
            if thread.is_alive():
                return

    def is_one(self, thread: threading.Thread) -> bool:
        return thread in self._threads

    def begun_before(self, time_ms: int) -> list[Batch]:
        """What listeners are at since then."""
        return [begun.batch for begun in self._begun if begun is not None and begun.since_ms <= time_ms]

    def _work(self, number: int) -> None:
        while (batch := self._batches.get()) is not None:
            if batch.is_wanted:
                self._consume(number, batch)
            else:
                self._report(batch, None, NO_TIME)

    def _consume(self, number: int, batch: Batch) -> None:
        began_ms = self._clock.monotonic_ms()
        self._begun[number] = Begun(batch, began_ms)
        outcome = self._outcome(batch)
        self._begun[number] = None
        self._report(batch, outcome, Took(began_ms, self._clock.monotonic_ms()))

    def _outcome(self, batch: Batch) -> Outcome | None:
        try:
            return self._consumes.consume(batch)
        except Exception:  # noqa: BLE001 - a bug, or no memory to tell of a failure: the queue would stand still for ever
            with suppress(Exception):
                _log.exception("What became of %d messages of %s is not known", len(batch.messages), batch.of.queue)
            return Outcome(batch.messages, LEFT_FOR_MS, failed=True)
