"""Threads of a process that was forked while a thread of its parent had the turn of a pull consumer."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from types import SimpleNamespace
from typing import TYPE_CHECKING

from rmqspark import PullConsumer
from rmqspark.client import pull_consumer

if TYPE_CHECKING:
    import pytest

HERE, THERE = 1, 2  # processes


def test_none_reads_before_all_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take turns from the first one on: what its parent was at is nobody's to go on with."""
    told: SimpleQueue[str] = SimpleQueue()

    class Turn:
        """Tells who has to wait for it."""

        def __init__(self) -> None:
            self._lock = threading.RLock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                told.put("waits")
                self._lock.acquire()

        def __exit__(self, *error: object) -> None:
            self._lock.release()

    processes, others = [HERE], list[threading.Thread]()
    monkeypatch.setattr(pull_consumer, "threading", SimpleNamespace(RLock=Turn))
    monkeypatch.setattr(pull_consumer, "os", SimpleNamespace(getpid=lambda: processes[-1]))
    consumer = PullConsumer("127.0.0.1:1")

    def second() -> None:
        consumer.assign([])
        told.put("reads")

    def begin_anew() -> None:
        if not others:
            others.append(threading.Thread(target=second))
            others[0].start()
            assert told.get(timeout=30) == "waits"

    monkeypatch.setattr(consumer._reading, "begin_anew", begin_anew)
    processes.append(THERE)
    consumer.assign([])
    others[0].join()
    assert told.get(timeout=30) == "reads"
