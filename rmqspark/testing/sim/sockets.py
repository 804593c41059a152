"""A blocking socket of a simulated process, as far as `remoting.blocking` uses one."""

from __future__ import annotations

import asyncio
import socket
from struct import Struct
from typing import TYPE_CHECKING, Any

from rmqspark.errors import Unreachable
from rmqspark.remoting.address import parse_address
from rmqspark.testing.sim.loop import spawn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.testing.sim.threads import SimThreads, Ticket
    from rmqspark.testing.sim.world import World

_RECEIVE_BYTES = 65_536
_LOOK_S = 1.0
_TIMEVAL = Struct("ll")


def connect(world: World, threads: SimThreads, address: str, timeout_ms: int) -> SimSocket:
    """As `remoting.dial` connects: raises Unreachable."""
    host, port = parse_address(address)
    made = SimSocket(world, threads)
    life = threads.running().life
    ticket = threads.ticket()
    failures: list[OSError] = []

    async def work() -> None:
        try:
            await world.loop.create_connection(lambda: made.ends, host, port)
        except OSError as error:
            failures.append(error)
        threads.wake(*ticket)

    task = spawn(world.loop, life, work())
    threads.wait(timeout_ms / 1000)
    if made.ends.transport is None:
        task.cancel()
        reason = (failures[0].strerror or str(failures[0])) if failures else "timed out"
        raise Unreachable(f"Nothing answers at {address}: {reason}.", address=address)
    return made


class _Ends(asyncio.Protocol):
    """What the loop tells of the connection."""

    def __init__(self, threads: SimThreads) -> None:
        self.transport: Any = None
        self.received = bytearray()
        self.has_ended = False
        self.error: Exception | None = None
        self.may_write = True
        self._threads = threads
        self._waiting: list[Ticket] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) > _RECEIVE_BYTES:
            self.transport.pause_reading()
        self.changed()

    def eof_received(self) -> bool:
        self.has_ended = True
        self.changed()
        return True  # our way is open until the socket is closed

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended, self.error = True, exc
        self.changed()

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True
        self.changed()

    def wait(self, timeout_s: float) -> None:
        """Until something has changed, or so long."""
        ticket = self._threads.ticket()
        self._waiting.append(ticket)
        self._threads.wait(timeout_s)

    def changed(self) -> None:
        waiting, self._waiting = self._waiting, []
        for ticket in waiting:
            self._threads.wake(*ticket)


class SimSocket:
    """Connected; blocks at most a second for what it receives, and as long as it is told for what it sends."""

    def __init__(self, world: World, threads: SimThreads) -> None:
        self.ends = _Ends(threads)
        self._world = world
        self._send_timeout_s = 0.0
        self._is_shut = False

    def recv_into(self, buffer: memoryview) -> int:
        ends = self.ends
        if not ends.received and not ends.has_ended and not self._is_shut:
            ends.wait(_LOOK_S)
        if ends.received:
            return self._take(buffer)
        if ends.error is not None:
            raise ends.error
        if ends.has_ended or self._is_shut:
            return 0
        raise BlockingIOError

    def _take(self, buffer: memoryview) -> int:
        ends = self.ends
        size = min(len(buffer), len(ends.received))
        buffer[:size] = ends.received[:size]
        del ends.received[:size]
        if not ends.received and not ends.transport.is_reading():
            ends.transport.resume_reading()
        return size

    def sendmsg(self, parts: Sequence[Any], _ancillary: object, flags: int) -> int:
        ends = self.ends
        if not ends.may_write and not flags & socket.MSG_DONTWAIT and not self._is_shut:
            ends.wait(self._send_timeout_s)
        if self._is_shut or ends.error is not None or ends.transport.is_closing():
            raise BrokenPipeError(32, "Broken pipe")
        if not ends.may_write:
            raise BlockingIOError
        data = b"".join(parts)
        ends.transport.write(data)
        return len(data)

    def setsockopt(self, level: int, name: int, value: Any) -> None:
        if (level, name) == (socket.SOL_SOCKET, socket.SO_SNDTIMEO):
            seconds, microseconds = _TIMEVAL.unpack(value)
            self._send_timeout_s = seconds + microseconds / 1_000_000

    def getsockopt(self, _level: int, _name: int, _size: int) -> bytes:
        return b""

    def getsockname(self) -> Any:
        return self.ends.transport.here

    def getpeername(self) -> Any:
        return self.ends.transport.there

    def shutdown(self, _how: int) -> None:
        """Wakes who waits, and tells the other side."""
        if not self._is_shut:
            self._is_shut = True
            if not self._world.is_over:
                self.ends.transport.close()
                self.ends.changed()

    def close(self) -> None:
        self.shutdown(socket.SHUT_RDWR)
