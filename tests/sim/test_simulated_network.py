"""The simulated network does as a real one does where runs depend on it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.sim.loop import Life, spawn
from rmqspark.testing.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

SERVER, CLIENT = "127.0.1.1", "127.0.2.1"


class Heard(asyncio.Protocol):
    """What one end hears, in its order. It keeps its side open when the other has ended."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def data_received(self, data: bytes) -> None:
        self.events.append(data)

    def eof_received(self) -> bool:
        self.events.append("end")
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")


def run(world: World, talk: Coroutine[Any, Any, None]) -> None:
    """On the client's host; what the server has heard stays with it."""
    task = spawn(world.loop, Life(CLIENT), talk)
    world.loop.run_until_complete(task)
    world.loop.forget()


async def listening(world: World) -> list[Heard]:
    made: list[Heard] = []

    def make() -> Heard:
        made.append(Heard())
        return made[-1]

    world.network.listen(make, SERVER, 1, Life(SERVER))
    return made


def test_behind_the_end_of_a_half_nothing_comes() -> None:
    """Of a connection that a box in between has closed in one direction; the other goes on."""
    world = World(1)

    async def talk() -> None:
        made = await listening(world)
        ours, heard = await world.loop.create_connection(Heard, SERVER, 1)
        ours.write(b"before")
        ours.end_halfway()
        await asyncio.sleep(1)
        ours.write(b"behind")
        await asyncio.sleep(1)
        assert made[0].events == [b"before", "end"]
        assert not heard.events

    run(world, talk())


def test_a_connection_that_is_not_waited_for_ends() -> None:
    """As asyncio has it: whoever gives up connecting leaves nothing open."""
    world = World(2)
    world.network.weather.latency_s = 1.0

    async def talk() -> None:
        made = await listening(world)
        connecting = asyncio.ensure_future(world.loop.create_connection(Heard, SERVER, 1))
        while not world.network.connections():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.01)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        await asyncio.sleep(10)
        assert not world.network.connections()
        assert made[0].events == ["end"]

    run(world, talk())
