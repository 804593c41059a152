"""A server of a simulation: started, killed and started again with what its disk still has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from rmqspark.entropy import SystemEntropy
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.testing.sim.clock import SimClock
from rmqspark.testing.sim.loop import Life, spawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from rmqspark.testing.sim.world import World


class Server(Protocol):
    """What runs in a node: listens while its `async with` block runs."""

    @property
    def address(self) -> str: ...


class Node:
    """One host with one server. `make` gives a new server for each life, from the node's files, clock and entropy."""

    def __init__(
        self, world: World, name: str, host: str, make: Callable[[Node], AbstractAsyncContextManager[Server]]
    ) -> None:
        self.name = name
        self.host = host
        self.clock = SimClock(world.loop)
        self.files = MemoryFileSystem(clock=self.clock)
        self.server: Any = None
        self.life: Life | None = None
        self.lives = 0
        self.failure: Exception | None = None
        """What its start, or a task of its server, ended with."""
        self.on_listen: Callable[[], None] = lambda: None
        self.on_end: list[Callable[[], None]] = []
        """Called when a life is over, however."""
        self.make = make
        self._world = world
        self._serves = False
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether there is a process that has not died, ready or not."""
        return self.life is not None and not self.life.is_over

    @property
    def serves(self) -> bool:
        return self.is_up and self._serves and not self._stopping.is_set()

    @property
    def entropy(self) -> SystemEntropy:
        """Of this life."""
        return SystemEntropy(f"{self._world.seed}/{self.name}/{self.lives}")

    def start(self) -> None:
        self.lives += 1
        self._serves, self.failure = False, None
        self._world.network.is_back(self.host)
        self.life = Life(self.host, lambda: self.files.has_died)
        self.life.on_listen = self.on_listen
        self._stopping = self.life.context.run(asyncio.Event)
        self._task = spawn(self._world.loop, self.life, self._serve())
        self._world.note(f"{self.name} starts")

    async def stop(self) -> None:
        """In order; returns when the server has ended."""
        self._stopping.set()
        if self._task is not None and self.is_up:
            await asyncio.wait([self._task])
        if self.is_up:
            self._end(silently=False)
            self.files.kill()

    async def start_anew(self) -> None:
        """An operator stops it and empties its store."""
        await self.stop()
        self.files.wipe()
        self.start()

    def kill(self) -> None:
        """SIGKILL: what it wrote stays written."""
        self._end(silently=False)
        self.files.kill()

    def lose_power(self, *, silently: bool) -> None:
        """What was not synced may be gone. Silently: the host does not even refuse what it is sent."""
        self._end(silently=silently)
        self.files.crash(SystemEntropy(f"{self._world.seed}/{self.name}/power/{self.lives}"))

    def forget(self) -> None:
        """All of its lives, at the end of a run."""
        self.server = self.life = self._task = None
        self.files.wipe()

    def _end(self, *, silently: bool) -> None:
        for told in self.on_end:
            told()
        if self.life is not None:
            self.life.end()
            self._world.bury(self.life)
            self._world.network.died(self.life, silently=silently)
        self._world.note(f"{self.name} ends")

    async def _serve(self) -> None:
        try:
            self.server = self.make(self)
            async with self.server as server:
                self._serves = True
                self._world.note(f"{self.name} serves at {server.address}")
                await self._stopping.wait()
        except Exception as error:  # noqa: BLE001 - a start may fail as its disk does: the story judges that
            self.failure = error
        self._serves = False
