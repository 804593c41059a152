"""Work in a thread that is over when it says so."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.tables import BrokerTables
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.threads import in_thread


def test_results_and_errors_come_back() -> None:
    """What the work returns is returned, what it raises is raised."""
    assert asyncio.run(in_thread(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_thread(divmod, 7, 0))


def test_work_is_done_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, though the pool has it still when it gets a thread: by then a file has other content, perhaps. What it
    raises is told."""
    done: list[str] = []

    async def work() -> None:
        with monkeypatch.context() as scarce:
            scarce.setattr(threading.Thread, "start", no_thread)
            await in_thread(done.append, "without a thread")
            with pytest.raises(ZeroDivisionError):
                await in_thread(divmod, 7, 0)
        await in_thread(done.append, "with one")

    asyncio.run(work())
    assert done == ["without a thread", "with one"]


def no_thread(_: threading.Thread) -> None:
    """What Python says where a process may have no more of them."""
    raise RuntimeError("can't start new thread")


def test_cancelled_work_is_waited_for() -> None:
    """Whoever waits is cancelled only when the thread has ended, however often it is asked to."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert may_end.wait(30)
        ended.set()

    async def cancel_twice() -> None:
        waiting = asyncio.ensure_future(in_thread(work))
        await asyncio.to_thread(begun.wait, 30)
        for _ in range(2):
            waiting.cancel()
            done, _pending = await asyncio.wait([waiting], timeout=0.01)
            assert not done, "returned while the thread still ran"
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert ended.is_set()

    asyncio.run(cancel_twice())


class _SlowFiles(MemoryFileSystem):
    """Renames wait until they are let through."""

    def __init__(self) -> None:
        super().__init__()
        self.renaming, self.may_rename = threading.Event(), threading.Event()

    def rename(self, source: str, target: str) -> None:
        self.renaming.set()
        assert self.may_rename.wait(30)
        super().rename(source, target)


def test_a_broker_that_stops_while_it_saves_saves_once_more() -> None:
    """The save that stopping cut short and the last one do not take each other's temporary file away."""
    files = _SlowFiles()
    tables = BrokerTables(BrokerConfig(), files, ManualClock())

    async def stop_while_saving() -> None:
        tables.offsets.commit("g", "orders", 0, 1)
        periodic = asyncio.ensure_future(tables.save())
        await asyncio.to_thread(files.renaming.wait, 30)
        periodic.cancel()
        tables.offsets.commit("g", "orders", 0, 2)
        last = asyncio.ensure_future(tables.save())
        await asyncio.wait([last], timeout=0.05)  # time enough to meet the first one's temporary file
        files.may_rename.set()
        await last
        outcome: list[Any] = await asyncio.gather(periodic, return_exceptions=True)
        assert isinstance(outcome[0], asyncio.CancelledError)

    asyncio.run(stop_while_saving())
    assert BrokerTables(BrokerConfig(), files, ManualClock()).offsets.committed("g", "orders", 0) == 2
