"""The threads on which listeners run: whatever happens there, they go on."""

from __future__ import annotations

import logging
from queue import SimpleQueue
from typing import TYPE_CHECKING

from rmqspark.client.pushing.listening import LEFT_FOR_MS, Listening, Outcome, pass_by
from rmqspark.client.pushing.process_queue import Batch, ProcessQueue
from rmqspark.client.pushing.workers import Took, Workers
from rmqspark.model import MessageQueue, ReceivedMessage
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    import pytest

PATIENCE_S = 30
QUEUE = MessageQueue("orders", "broker-a", 0)


def test_a_failure_that_cannot_even_be_told_costs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory runs out, or whoever collects the log fails: the batch comes again, and those behind it are consumed. Its
    queue would stand still for ever, and one thread after the other end."""

    def no_memory(_: logging.LogRecord) -> bool:
        raise MemoryError

    def listen(messages: list[ReceivedMessage]) -> None:
        if messages[0].body == b"bad":
            raise RuntimeError("no")

    for name in ("complaints", "workers"):
        monkeypatch.setattr(logging.getLogger(f"rmqspark.client.pushing.{name}"), "filters", [no_memory])
    reports: SimpleQueue[tuple[Batch, Outcome | None, Took]] = SimpleQueue()
    workers = Workers(1, Listening(listen, pass_by), lambda *report: reports.put(report), ManualClock())
    workers.start()
    held = ProcessQueue(QUEUE, 0)
    bodies = (b"bad", b"good")
    held.arrived([ReceivedMessage("orders", b, None, [], {}, "id", QUEUE, n, 0, 0) for n, b in enumerate(bodies)], 2)
    while batch := held.take(1):
        workers.give(batch)
    (bad, left, _), (_, consumed, _) = [reports.get(timeout=PATIENCE_S) for _ in bodies]
    assert (left, consumed) == (Outcome(bad.messages, LEFT_FOR_MS, failed=True), Outcome())
    workers.stop()
    workers.join(PATIENCE_S)
