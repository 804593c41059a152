"""A master and a slave over real sockets, their stores on memory disks."""

from __future__ import annotations

import asyncio
import functools
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from rmqspark.errors import Unreachable
from rmqspark.replication.admission import Admission
from rmqspark.replication.introduction import WayToMaster
from rmqspark.replication.master import Master
from rmqspark.replication.settings import HaSettings
from rmqspark.replication.slave import Slave

from ..store.store_bench import SMALL, StoreBench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
    from typing import Any

QUICK = HaSettings(heartbeat_s=0.05, housekeeping_s=5.0, retry_s=0.02, transfer_bytes=100)
WHOLE = QUICK._replace(sends_whole_log=True)
PATIENCE_S = 30
PLAIN = WayToMaster()


def filled(rounds: int = 12, config: object = SMALL, word: str = "m") -> StoreBench:
    bench = StoreBench(config)  # type: ignore[arg-type]
    add(bench, rounds, word)
    return bench


def add(bench: StoreBench, rounds: int, word: str = "m") -> None:
    for number in range(rounds):
        bench.clock.advance(ms=10)
        bench.send("t", number % 2, f"{word}{number:03}".encode(), tags="A")
        bench.send_bulk("u", 0, f"{word}u{number:03}".encode(), f"{word}v{number:03}".encode())
    bench.store.flush()


def log_of(bench: StoreBench) -> bytes:
    store = bench.store
    return store.replica.read(store.min_physical_offset, store.end_offset - store.min_physical_offset)


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that runs on an event loop of its own."""

    @functools.wraps(test)
    def run(*args: object, **kwargs: object) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def one_anywhere(_: str) -> int:
    return 1


async def nothing_to_forget() -> None:
    """There are no tables here."""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(
    bench: StoreBench, settings: HaSettings = QUICK, admission: Admission | None = None
) -> AsyncIterator[Master]:
    acks: list[int] = []
    master = Master(
        bench.store,
        bench.config.mapped_file_size_commit_log,
        settings,
        host="127.0.0.1",
        port=0,
        admission=admission or Admission(one_anywhere),
        on_ack=lambda: acks.append(1),
    )
    async with master:
        bench.store.on_safe = master.log_grew
        yield master


class Keeper:
    """Of a store that has no tables beside it."""

    def __init__(
        self, bench: StoreBench, refusal: Callable[[], Awaitable[str]], forget_tail: Callable[[], Awaitable[None]]
    ) -> None:
        self._bench = bench
        self.refusal_to_cut = refusal
        self.forget_tail = forget_tail

    async def safe(self, end_offset: int) -> None:
        self._bench.store.flush()

    def between_flushes(self) -> nullcontext[None]:
        return nullcontext()


@asynccontextmanager
async def following(
    bench: StoreBench,
    port: int,
    settings: HaSettings = QUICK,
    refusal_to_cut: str = "",
    way: WayToMaster = PLAIN,
    not_known_at_first: int = 0,
    instead: str = "",
    forget_tail: Callable[[], Awaitable[None]] = nothing_to_forget,
) -> AsyncIterator[Slave]:
    """For so many times `not_known_at_first`, whether to cut cannot be told; meanwhile the slave is told to follow the
    master `instead`."""
    unknown = iter(range(not_known_at_first))

    async def refusal() -> str:
        slave.follow(instead)
        if next(unknown, None) is not None:
            raise Unreachable("not known", address="")
        return refusal_to_cut

    bench.store.replica.open_for_master()
    slave = Slave(bench.store.replica, settings, way, Keeper(bench, refusal, forget_tail), bench.clock.now_ms)
    slave.follow(f"127.0.0.1:{port}")
    task = asyncio.create_task(slave.run())
    try:
        yield slave
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ahead(*lost: bytes, config: object = SMALL) -> tuple[StoreBench, StoreBench]:
    """A master that has lost these messages, its last, in a power loss; and its slave, which has them."""
    original, copy = filled(8, config), StoreBench(config)  # type: ignore[arg-type]
    shared = original.store.end_offset
    original.store.checkpoint()
    for body in lost:
        original.send("t", 0, body)
    async with serving(original, WHOLE) as master, following(copy, master.port):
        await until(lambda: copy.store.end_offset == original.store.end_offset)
    original.lose_power()
    assert original.store.end_offset == shared < copy.store.end_offset
    return original, copy
