"""Processes of clients that block: this project's own, unchanged, on a host of a simulation.

Each has a life, a clock and a process id; what it starts runs in turns (`threads.py`), what it connects to is simulated
(`sockets.py`). It ends by itself, in order or not, or is killed: then nothing of it runs any more.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster import cluster_client, identity, shared
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.entropy import SystemEntropy
from rmqspark.remoting import blocking
from rmqspark.remoting.access import OPEN
from rmqspark.testing.sim.clock import SimClock
from rmqspark.testing.sim.loop import Life
from rmqspark.testing.sim.sockets import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.testing.sim.world import World

_FIRST_PID = 100_000


class ProcessClock(SimClock):
    """May be slept by: whoever does is a thread of a simulated process."""

    def __init__(self, world: World) -> None:
        super().__init__(world.loop)
        self._threads = world.threads

    def sleep_ms(self, duration_ms: int) -> None:
        self._threads.wait(duration_ms / 1000)


class SimProcess:
    """One life of a client's process. `random` is a stream of its own."""

    def __init__(self, world: World, name: str, host: str, namesrvs: Sequence[str]) -> None:
        self.world = world
        self.name = name
        self.random = world.random(name)
        self.entropy = SystemEntropy(f"{world.seed}/{name}")
        self.clock = ProcessClock(world)
        self.life = Life(host)
        self.namesrv = ";".join(namesrvs)
        world.processes.append(self)
        self.pid = _FIRST_PID + len(world.processes)
        self.batch: Any = None
        """Of a query, that it works for."""
        self.life.process = self

    def run(self, work: Callable[[], None], name: str = "main") -> threading.Thread:
        """On a thread of its own."""
        thread = threading.Thread(target=work, name=f"{self.name}/{name}")
        self.world.threads.start(thread, self.life)
        return thread

    def client(self) -> ClusterClient:
        return ClusterClient(self.namesrv, clock=self.clock, entropy=self.entropy, access=OPEN)

    def pause(self, longest_s: float) -> None:
        self.world.threads.wait(self.random.random() * longest_s)

    def die_later(self, delay_s: float) -> None:
        self.world.loop.call_later(delay_s, self.kill, context=self.world.of_nobody.context)

    def freeze(self, duration_s: float) -> None:
        """SIGSTOP, and SIGCONT after so long."""
        self.life.frozen_until_s = self.world.loop.time() + duration_s

    def kill(self, *, silently: bool = False) -> None:
        """SIGKILL, or the host's power. Called from within, it does not return."""
        if self.life.is_over:
            return
        self.life.end()
        self.world.bury(self.life)
        self.world.network.died(self.life, silently=silently)
        self.world.note(f"{self.name} ends")
        if self.world.threads.life is self.life:
            self.world.threads.wait()


def replaced(world: World) -> list[tuple[Any, str, Any]]:
    """What clients ask of their machine, and what they are told in `world`."""
    threads, of_system = world.threads, os.getpid

    def here() -> SimProcess:
        process: SimProcess = threads.running().life.process
        return process

    def pid_here() -> int:
        return here().pid if threads.life is not None else of_system()

    return [
        (os, "getpid", pid_here),
        (identity, "_clients", count()),
        (shared, "_clients", {}),
        (cluster_client, "local_ip", lambda _towards: here().life.host),
        (cluster_client, "SystemClock", lambda: here().clock),
        (cluster_client, "SystemEntropy", lambda: here().entropy),
        (blocking, "SystemClock", lambda: here().clock),
        (blocking, "dial", lambda address, timeout_ms: connect(world, threads, address, timeout_ms)),
    ]
