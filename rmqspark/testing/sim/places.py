"""Where processes of clients come and go: one after the other on a host, each joining, leaving in order or dying."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Final, Protocol

from rmqspark.testing.sim.processes import SimProcess

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from rmqspark.testing.sim.world import World

_LONGEST_LIFE_S: Final = 40.0
_LONGEST_AWAY_S: Final = 10.0
_LONGEST_FROZEN_S: Final = 30.0
_LOOK_AGAIN_S: Final = 0.1


class Body(Protocol):
    """What a process does. `run` returns by itself, or soon after `is_to_stop` was set."""

    is_to_stop: bool
    is_done: bool
    """Whether no other has to go on where it has ended."""

    def run(self) -> None: ...


def send_each(body: Body, process: SimProcess, sends: int, longest_pause_s: float, send: Callable[[str], None]) -> None:
    """Calls `send` with a name for each message, resting in between, unless and until the body is to stop."""
    for number in range(sends):
        if body.is_to_stop:
            break
        send(f"{process.name}-{number}")
        process.pause(longest_pause_s)


class Place:
    """From the healing on its process stays, until it `is_to_stop`."""

    def __init__(
        self,
        world: World,
        name: str,
        host: str,
        namesrvs: list[str],
        make: Callable[[SimProcess], Body],
        *,
        may_freeze: bool = False,
    ) -> None:
        """`may_freeze`: instead of dying one may stop, and go on when there is another in its place."""
        self.host = host
        self.is_healed = False
        self.is_to_stop = False
        self._world = world
        self._name = name
        self._namesrvs = namesrvs
        self._make = make
        self._may_freeze = may_freeze
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
        await self._until(lambda: self.is_healed or _is_over(process, thread), stays_s)
        if not _is_over(process, thread) and not self.is_healed and dies:
            self._die(process, silently)
            return False
        await self._until(lambda: not self.is_healed or self.is_to_stop or _is_over(process, thread))
        body.is_to_stop = True
        await self._until(lambda: _is_over(process, thread))
        process.kill()
        return body.is_done or self.is_to_stop

    def _die(self, process: SimProcess, silently: bool) -> None:
        if self._may_freeze and self._random.random() < 0.5:
            self._world.trace.reached("process stopped, and went on later")
            frozen_s = self._random.random() * _LONGEST_FROZEN_S
            process.freeze(frozen_s)
            process.die_later(frozen_s + _LONGEST_FROZEN_S)
        else:
            self._world.trace.reached("process died")
            process.kill(silently=silently)

    async def _until(self, condition: Callable[[], bool], at_most_s: float = inf) -> None:
        end_s = self._world.loop.time() + at_most_s
        while not condition() and self._world.loop.time() < end_s:  # noqa: ASYNC110 - in simulated time it costs nothing
            await asyncio.sleep(_LOOK_AGAIN_S)


def _is_over(process: SimProcess, thread: threading.Thread) -> bool:
    return process.life.is_over or not thread.is_alive()
