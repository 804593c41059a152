"""One end of a simulated connection, as asyncio has it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmqspark.testing.sim.loop import Life
    from rmqspark.testing.sim.network import SimNetwork
    from rmqspark.testing.sim.stream import Stream

_HIGH_BYTES = 65_536


class _Ends:
    """What a server asks of a socket: whether the other side is on the same machine. Here it never is."""

    def __init__(self, here: tuple[str, int], there: tuple[str, int]) -> None:
        self._here = here
        self._there = there

    def getsockname(self) -> tuple[str, int]:
        return self._here

    def getpeername(self) -> tuple[str, int]:
        return self._there


class SimTransport(asyncio.Transport):
    """Belongs to a life; what a dead one writes goes nowhere."""

    def __init__(
        self,
        network: SimNetwork,
        life: Life,
        name: str,
        here: tuple[str, int],
        there: tuple[str, int],
        out: Stream,
        back: Stream,
    ) -> None:
        super().__init__({"peername": there, "sockname": here, "socket": _Ends(here, there)})
        self.name = name
        self.life = life
        self.here = here
        self.there = there
        self.reads = False
        self._network = network
        self._out = out
        self._back = back
        out.sender = back.receiver = self
        self._protocol: Any = None
        self._closing = False
        self._has_ended = False
        self._paused_by_protocol = False
        self._writer_waits = False
        self._high, self._low = _HIGH_BYTES, _HIGH_BYTES // 4

    # --- life --------------------------------------------------------------------------------------------------------

    def open_with(self, factory: Callable[[], Any], *, now: bool = False) -> Any:
        """Makes the protocol, at once or in a turn of its own, and tells it of the connection."""
        if not now:
            self._network.loop.call_soon(self._open, factory, context=self.life.context)
            return None
        return self._open(factory)

    def _open(self, factory: Callable[[], Any]) -> Any:
        self._protocol = factory()
        self._protocol.connection_made(self)
        self.reads = not self._paused_by_protocol
        self._back.poke()
        return self._protocol

    def poke(self) -> None:
        """What was held up goes on, if it may."""
        self._out.poke()
        self._back.poke()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.reads = False
        if self.get_write_buffer_size() == 0:
            self._finish(None)

    def abort(self) -> None:
        """Hangs up at once: a reset for the other side, after some or all of what was on its way."""
        if self._has_ended:
            return
        self._closing = True
        keeps = self._network.random.randint(0, len(self._out.waiting))
        self._out.reset(keeps=keeps)
        self._end(None)

    def lose(self, error: Exception | None) -> None:
        """The other side hung up."""
        self._closing = True
        self._end(error)

    def break_off(self) -> None:
        """A box between the two resets the connection, for both."""
        self._network.loop.call_soon(
            self.lose, ConnectionResetError("Connection reset by peer"), context=self.life.context
        )
        self._out.reset(keeps=self._network.random.randint(0, len(self._out.waiting)))

    def learn_of_end(self) -> None:
        """The other side's host answers what it is sent by a reset: nobody takes it any more."""
        if self._out.receiver is None and self._out.waiting and not self._has_ended:
            error = ConnectionResetError("Connection reset by peer")
            self._network.loop.call_later(self._network.delay_s(), self.lose, error, context=self.life.context)

    def die(self, *, silently: bool) -> None:
        """With its process. Silently: nobody is told until the host is there again."""
        if self._has_ended:
            return
        self._has_ended = self._closing = True
        self.reads = False
        self._back.receiver = None
        self._out.sender = None
        self._network.forget(self)
        if silently:
            self._out.is_lost = True
            self._network.trace.reached("host gone without a word")
        else:
            self._out.reset(keeps=self._network.random.randint(0, len(self._out.waiting)))

    def _finish(self, error: Exception | None) -> None:
        self._out.end()
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self.reads = False
        self._back.receiver = None
        self._network.forget(self)
        if self._back.sender is not None and self._back.waiting:
            self._back.sender.learn_of_end()
        self._network.loop.call_soon(self._protocol.connection_lost, error, context=self.life.context)

    # --- reading -----------------------------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        self._network.trace.delivered(self._network.loop.time(), self.name, data)
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.data_received(data)
            return
        while data and self.reads:
            buffer = memoryview(self._protocol.get_buffer(-1))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            self._protocol.buffer_updated(size)
        if data and not self._closing:  # it paused in between: the rest is for later
            self._back.waiting[:0] = data

    def take_end(self) -> None:
        self._network.trace.note(self._network.loop.time(), f"{self.name} end")
        self._back.has_ended = False
        if not self._protocol.eof_received():
            self.close()

    def is_reading(self) -> bool:
        return self.reads

    def pause_reading(self) -> None:
        self._paused_by_protocol = True
        self.reads = False

    def resume_reading(self) -> None:
        self._paused_by_protocol = False
        if not self._closing:
            self.reads = True
            self._back.poke()

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self.life.is_over or self._closing or not data:
            return
        self._out.write(bytes(data))
        if not self._network.is_dark(self.there[0]):
            self.learn_of_end()
        if self.get_write_buffer_size() > self._high and not self._writer_waits:
            self._writer_waits = True
            self._network.trace.reached("writer had to wait")
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def has_room(self) -> None:
        """Something of what was written was taken."""
        if self.get_write_buffer_size() > self._low or self._has_ended:
            return
        if self._writer_waits:
            self._writer_waits = False
            self._network.loop.call_soon(self._protocol.resume_writing, context=self.life.context)
        if self._closing and self.get_write_buffer_size() == 0:
            self._network.loop.call_soon(self._finish, None, context=self.life.context)

    def end_halfway(self) -> None:
        """The other side is told that nothing more comes, and may still answer."""
        self._out.end()

    def write_eof(self) -> None:
        self._out.end()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return max(0, len(self._out.waiting) - self._network.weather.window_bytes)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def is_closing(self) -> bool:
        return self._closing

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
