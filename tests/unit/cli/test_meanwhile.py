"""What goes on beside a block, and processes that are looked after so."""

from __future__ import annotations

import asyncio
from errno import EAGAIN
from types import SimpleNamespace
from typing import Any

import pytest

from rmqspark.cli.processes import children
from rmqspark.cli.processes.children import ChildProcess
from rmqspark.cli.processes.meanwhile import meanwhile
from rmqspark.cli.processes.reports import Report
from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        ended.append("ended")


def test_it_ends_with_the_block() -> None:
    """All of it, before the block is left."""
    ended: list[str] = []

    async def run() -> list[str]:
        async with meanwhile(forever(ended), forever(ended)):
            await asyncio.sleep(0)
        return list(ended)

    assert asyncio.run(run()) == ["ended", "ended"]


def test_an_error_of_the_block_stays_what_it_is() -> None:
    """Whoever handles it need not look for it in a group."""
    ended: list[str] = []

    async def run() -> None:
        async with meanwhile(forever(ended)):
            await asyncio.sleep(0)
            raise RmqError("No.")

    with pytest.raises(RmqError, match="No."):
        asyncio.run(run())
    assert ended == ["ended"]


def test_an_error_beside_the_block_ends_it() -> None:
    """A bug there is told."""

    async def fail() -> None:
        raise KeyError("a bug")

    async def run() -> None:
        async with meanwhile(fail()):
            await asyncio.get_running_loop().create_future()

    with pytest.RaisesGroup(KeyError):
        asyncio.run(run())


class Process:
    """One that serves, for as long as it is to."""

    def __init__(self, *, goes_on: bool) -> None:
        self.pid, self.returncode = 7, None
        self.stdin = SimpleNamespace(write=lambda _: None, drain=self.drain, close=lambda: None)
        self.stdout = SimpleNamespace(readline=self.readline)
        self._said = False
        self._goes_on = goes_on

    async def drain(self) -> None: ...

    async def readline(self) -> bytes:
        if self._said and self._goes_on:
            await asyncio.get_running_loop().create_future()
        line, self._said = (b"" if self._said else f"{Report('127.0.0.1:10911').encode()}\n".encode()), True
        return line

    async def wait(self) -> int:
        return 1


class Order:
    """Runs nothing that there is."""

    kind, module, name = "broker", "none", "broker-a"

    def on_port(self, port: int) -> Order:
        return self

    def encode(self) -> bytes:
        return b"\n"


def test_a_restart_for_which_the_system_has_no_process_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment without memory or descriptors would end all brokers otherwise."""
    starts: list[Any] = [Process(goes_on=False), BlockingIOError(EAGAIN, "no"), Process(goes_on=True)]

    async def start(*_: object, **__: object) -> Process:
        if isinstance(now := starts.pop(0), OSError):
            raise now
        return now

    monkeypatch.setattr(children.asyncio, "create_subprocess_exec", start)

    async def run() -> None:
        child, serves = ChildProcess(Order(), SystemClock()), asyncio.Event()
        await child.start()
        async with meanwhile(child.keep_running(serves.set)), asyncio.timeout(30):
            await serves.wait()

    asyncio.run(run())
    assert not starts
