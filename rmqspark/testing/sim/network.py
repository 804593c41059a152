"""The network between the hosts of a simulation: who listens where, how long things take, what is cut.

Within a connection nothing is lost, as with TCP: what meets a cut waits, arrives when the cut is healed, perhaps long
after its sender gave up, or is reset. `Weather` says how often things go wrong by themselves; the rest is done to it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from errno import EADDRINUSE, ECONNREFUSED
from os import strerror
from typing import TYPE_CHECKING, Any

from rmqspark.testing.sim.stream import Stream
from rmqspark.testing.sim.transport import SimTransport

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from rmqspark.testing.sim.loop import Life, SimLoop
    from rmqspark.testing.sim.trace import Trace

_FIRST_FREE_PORT = 40_000
_LOOK_AGAIN_S = 0.2


@dataclass
class Weather:
    """What a network is like. Times in seconds, the others are shares of 0 to 1, or bytes."""

    latency_s: float = 0.001
    slow_pieces: float = 0.0
    slowest_s: float = 1.0
    """Of a piece that is slow."""
    cuts: float = 0.0
    """Deliveries of a piece of what is there instead of all of it; and of these half are of one byte to ten."""
    window_bytes: int = 65_536
    """Taken by the system before a writer has to wait."""

    def calm(self) -> None:
        """Nothing goes wrong by itself any more."""
        self.slow_pieces = self.cuts = 0.0


class SimServer:
    """What a loop's `create_server` gives."""

    def __init__(self, network: SimNetwork, factory: Callable[[], Any], where: tuple[str, int], life: Life) -> None:
        self.factory = factory
        self.life = life
        self.sockets = [_Listening(where)]
        self._network = network
        self._where = where

    def close(self) -> None:
        self._network.stop_listening(self._where, self)

    async def wait_closed(self) -> None:
        """Nothing takes time here."""


class _Listening:
    def __init__(self, where: tuple[str, int]) -> None:
        self._where = where

    def getsockname(self) -> tuple[str, int]:
        return self._where


class SimNetwork:
    """All hosts and what is between them."""

    def __init__(self, loop: SimLoop, random: Random, trace: Trace) -> None:
        self.weather = Weather()
        self.loop = loop
        self.random = random
        self.trace = trace
        self._listeners: dict[tuple[str, int], SimServer] = {}
        self._ports: dict[str, int] = {}
        self._cut: dict[tuple[str, str], None] = {}
        self._refusing: dict[str, None] = {}
        self._dark: dict[str, None] = {}
        self._transports: dict[SimTransport, None] = {}
        self._connections = 0

    # --- what the loop asks for --------------------------------------------------------------------------------------

    def listen(self, factory: Callable[[], Any], host: str, port: int, life: Life) -> SimServer:
        where = host, port or self._free_port(host)
        if where in self._listeners:
            raise OSError(EADDRINUSE, strerror(EADDRINUSE))
        life.on_listen()
        server = self._listeners[where] = SimServer(self, factory, where, life)
        return server

    def stop_listening(self, where: tuple[str, int], server: SimServer) -> None:
        if self._listeners.get(where) is server:
            del self._listeners[where]

    async def connect(self, factory: Callable[[], Any], host: str, port: int, life: Life) -> tuple[SimTransport, Any]:
        await asyncio.sleep(self.delay_s())
        while self._is_unreachable(life.host, host):  # noqa: ASYNC110 - in simulated time a look costs nothing
            await asyncio.sleep(_LOOK_AGAIN_S)
        server = self._listeners.get((host, port))
        if server is None or server.life.is_over or host in self._refusing:
            raise ConnectionRefusedError(ECONNREFUSED, strerror(ECONNREFUSED))
        ours, theirs = self._pair((life.host, self._free_port(life.host)), (host, port), life, server.life)
        theirs.open_with(server.factory)
        protocol = ours.open_with(factory, now=True)
        try:
            await asyncio.sleep(self.delay_s())
        except asyncio.CancelledError:
            ours.close()
            raise
        return ours, protocol

    def _is_unreachable(self, source: str, target: str) -> bool:
        return self.is_cut(source, target) or self.is_cut(target, source) or self.is_dark(target)

    def _pair(
        self, client: tuple[str, int], server: tuple[str, int], of_client: Life, of_server: Life
    ) -> tuple[SimTransport, SimTransport]:
        self._connections += 1
        out, back = Stream(self, client[0], server[0]), Stream(self, server[0], client[0])
        ours = SimTransport(self, of_client, f"{self._connections}>", client, server, out, back)
        theirs = SimTransport(self, of_server, f"{self._connections}<", server, client, back, out)
        for transport in (ours, theirs):
            self._transports[transport] = None
        return ours, theirs

    def _free_port(self, host: str) -> int:
        self._ports[host] = self._ports.get(host, _FIRST_FREE_PORT) + 1
        return self._ports[host]

    def forget(self, transport: SimTransport) -> None:
        self._transports.pop(transport, None)

    # --- what streams ask --------------------------------------------------------------------------------------------

    def delay_s(self) -> float:
        weather, random = self.weather, self.random
        if weather.slow_pieces and random.random() < weather.slow_pieces:
            self.trace.reached("late piece")
            return random.random() * weather.slowest_s
        return (0.1 + random.random()) * weather.latency_s

    def piece_bytes(self, there: int) -> int:
        """How many of the bytes that are there come together."""
        if self.weather.cuts and self.random.random() < self.weather.cuts:
            self.trace.reached("cut within the stream")
            return min(there, self.random.randint(1, 10 if self.random.random() < 0.5 else there))
        return there

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    # --- what is done to it ------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one to the other, what is on its way included; the way back is as it was."""
        self._cut[source, target] = None

    def mend(self, source: str, target: str) -> None:
        """What was held up arrives."""
        self._cut.pop((source, target), None)
        for transport in list(self._transports):
            transport.poke()

    def mend_all(self) -> None:
        for source, target in list(self._cut):
            self.mend(source, target)
        self._refusing.clear()

    def refuse(self, host: str) -> None:
        """Whoever connects to it is refused; connections that are there go on."""
        self._refusing[host] = None

    def accept(self, host: str) -> None:
        self._refusing.pop(host, None)

    def connections(self) -> list[SimTransport]:
        """The clients' ends of all that are open."""
        return [transport for transport in self._transports if transport.name.endswith(">")]

    def died(self, life: Life, *, silently: bool) -> None:
        """A process is gone. Its kernel says so to all it was connected to, unless it is gone as well."""
        for where, server in list(self._listeners.items()):
            if server.life is life:
                del self._listeners[where]
        if silently:
            self._dark[life.host] = None
        for transport in list(self._transports):
            if transport.life is life:
                transport.die(silently=silently)

    def is_dark(self, host: str) -> bool:
        """Whether nothing there answers, not even to say no."""
        return host in self._dark

    def is_back(self, host: str) -> None:
        """The host answers again: who was connected to it before learns that it knows nothing of that."""
        if host in self._dark:
            del self._dark[host]
            for transport in list(self._transports):
                if transport.there[0] == host:
                    transport.learn_of_end()
