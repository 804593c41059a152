"""The threads on which listeners run."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.client.pushing.listening import Outcome
    from rmqspark.client.pushing.process_queue import Batch


class Consumes(Protocol):
    """What to do with a batch; `Listening` does it."""

    def consume(self, batch: Batch) -> Outcome: ...


class Workers:
    """So many daemon threads, and the batches that wait for them: as many as the queues that gave them may hold."""

    def __init__(self, count: int, consumes: Consumes, report: Callable[[Batch, Outcome | None], None]) -> None:
        """`report` is told of every batch that was given and not withdrawn, on the worker's thread, what became of it;
        None where its queue was lost, or set elsewhere, before its turn came."""
        self._consumes = consumes
        self._report = report
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"rmqspark-consume-{number}", daemon=True)
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

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            self._report(batch, self._consumes.consume(batch) if batch.is_wanted else None)
