"""Where processes of clients come and go: one after the other on a host, each joining, leaving in order or dying."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from rmqspark.testing.sim.processes import SimProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.testing.sim.world import World

_LONGEST_LIFE_S: Final = 40.0
_LONGEST_AWAY_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.1


class Body(Protocol):
    """What a process does. `run` returns by itself, or soon after `is_to_stop` was set."""

    is_to_stop: bool

    def run(self) -> None: ...


class Place:
    """From the healing on its process stays, until it `is_to_stop`."""

    def __init__(
        self, world: World, name: str, host: str, namesrvs: list[str], make: Callable[[SimProcess], Body]
    ) -> None:
        self.host = host
        self.is_healed = False
        self.is_to_stop = False
        self._world = world
        self._name = name
        self._namesrvs = namesrvs
        self._make = make
        self._random = world.random(name)

    async def run(self) -> None:
        lives = 0
        while not self.is_to_stop:
            lives += 1
            process = SimProcess(self._world, f"{self._name}/{lives}", self.host, self._namesrvs)
            if await self._live(process):
                return
            await self._until(lambda: self.is_healed, self._random.random() * _LONGEST_AWAY_S)
            self._world.network.is_back(self.host)

    async def _live(self, process: SimProcess) -> bool:
        """One life; whether it ended because all is done."""
        body = self._make(process)
        thread = process.run(body.run)
        dies, silently = self._random.random() < 0.5, self._random.random() < 0.5
        stays_s = self._random.random() * _LONGEST_LIFE_S
        await self._until(lambda: self.is_healed or not thread.is_alive(), stays_s)
        while self.is_healed and not self.is_to_stop and thread.is_alive():
            await asyncio.sleep(_LOOK_AGAIN_S)
        is_done = not thread.is_alive() and not process.life.is_over
        if dies and not self.is_healed and not is_done:
            self._world.trace.reached("process died")
            process.kill(silently=silently)
            return False
        body.is_to_stop = True
        while thread.is_alive() and not process.life.is_over:
            await asyncio.sleep(_LOOK_AGAIN_S)
        is_done |= self.is_to_stop and not process.life.is_over
        process.kill()
        return is_done

    async def _until(self, condition: Callable[[], bool], at_most_s: float) -> None:
        end_s = self._world.loop.time() + at_most_s
        while not condition() and self._world.loop.time() < end_s:  # noqa: ASYNC110 - in simulated time it costs nothing
            await asyncio.sleep(_LOOK_AGAIN_S)
