"""Large appends are written by another thread, while the next are made."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from errno import EIO
from typing import TYPE_CHECKING

import pytest

from rmqspark.broker.broker import _a_thread
from rmqspark.errors import NotWritable
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.store.appending.made_records import made_of_committed
from rmqspark.store.draft import Run
from rmqspark.store.posix_files import PosixFileSystem

from ..base.test_in_thread import no_thread
from .store_bench import StoreBench, bulk

if TYPE_CHECKING:
    from pathlib import Path

    from rmqspark.store.appending.beside import Work
    from rmqspark.store.appending.made_records import MadeRecords


def made(*bodies: bytes) -> MadeRecords:
    records = RecordBatch.from_sizes(*bulk("t", 0, bodies))
    return made_of_committed(Run("t", 0, len(records)), records, 4711)


def test_what_is_written_and_what_is_done_meanwhile_overlap(tmp_path: Path) -> None:
    """The write ends only after what is done meanwhile has ended, so the two do not take turns; nothing is appended
    before both have."""
    bench = StoreBench(files=PosixFileSystem(tmp_path))
    done_meanwhile = threading.Event()
    threads: set[int] = set()

    def late(work: Work) -> Work:
        def write() -> object:
            threads.add(threading.get_ident())
            assert done_meanwhile.wait(30)
            return work()

        return pool.submit(write).result

    with ThreadPoolExecutor(1) as pool:
        bench.store.write_beside(late)
        bench.store.writer.append_made(made(b"1", b"2"), done_meanwhile.set)
    assert threads
    assert threading.get_ident() not in threads
    assert bench.bodies("t", 0) == [b"1", b"2"]
    bench.reopen()
    assert bench.bodies("t", 0) == [b"1", b"2"]


def test_a_write_that_is_refused_leaves_nothing() -> None:
    """The disk's refusal in the other thread is the refusal of the append; what was done meanwhile was done."""
    bench = StoreBench()
    bench.send("t", 0, b"before")
    end, seen = bench.store.end_offset, list[str]()
    with ThreadPoolExecutor(1) as pool:
        bench.store.write_beside(lambda work: pool.submit(work).result)
        bench.disk.fail_at(1, OSError(EIO, "refused"), after_bytes=30)
        with pytest.raises(NotWritable):
            bench.store.writer.append_made(made(b"1", b"2"), lambda: seen.append("meanwhile"))
        bench.disk.heal()
        assert (bench.store.end_offset, seen) == (end, ["meanwhile"])
        bench.store.writer.append_made(made(b"3"), lambda: None)
    bench.kill()
    assert bench.bodies("t", 0) == [b"before", b"3"]


def test_what_fails_meanwhile_leaves_nothing() -> None:
    """A write is waited for whatever happens meanwhile, and is no append then."""
    bench = StoreBench()
    bench.send("t", 0, b"before")

    def no_memory() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        bench.store.writer.append_made(made(b"1", b"2"), no_memory)
    bench.send("t", 0, b"after")
    bench.kill()
    assert bench.bodies("t", 0) == [b"before", b"after"]
    bench.check_tail()


def test_nothing_is_written_later_than_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread could be had at first: what was to be written by it is not written once one is there, over what has
    been acknowledged since."""
    bench = StoreBench()

    async def append() -> None:
        async with AsyncExitStack() as running:
            bench.store.write_beside(_a_thread(running))
            with monkeypatch.context() as scarce:
                scarce.setattr(threading.Thread, "start", no_thread)
                bench.store.writer.append_made(made(b"1", b"2"), lambda: None)
            bench.send("t", 0, b"of somebody else")
            bench.store.writer.append_made(made(b"3"), lambda: None)

    asyncio.run(append())
    assert bench.bodies("t", 0) == [b"1", b"2", b"of somebody else", b"3"]
