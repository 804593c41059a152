"""A network that fails as told: a TCP proxy that cuts, resets, half-closes or swallows at any byte of a direction."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Self

_CHUNK_BYTES = 1 << 16
_PATIENCE_S = 60
_NO_LINGER = struct.pack("ii", 1, 0)


class Kind(Enum):
    """What happens when the byte has come through."""

    CUT = "both sides see the end"
    RESET = "both sides see a reset"
    HALF_CLOSE = "the receiver sees the end, and may still speak"
    HELD = "nothing comes through any more, and all of it late"
    SWALLOWED = "nothing comes through any more, ever"


class Fault(NamedTuple):
    """Strikes the connection that carries the byte after the next `after` that go to the broker, or come from it."""

    kind: Kind
    to_broker: bool
    after: int


class Proxy:
    """Listens at `listen` and speaks to `target` while entered. One fault at a time: `arm`, `struck`, `heal`."""

    def __init__(self, listen: tuple[str, int], target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(listen)
        self._lock = threading.Lock()
        self._lines: list[_Line] = []
        self._fault: Fault | None = None
        self._left = 0  # bytes until it strikes
        self.struck = threading.Event()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def __enter__(self) -> Self:
        self._server = threading.Thread(target=self._serve, name="proxy", daemon=True)
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._server.join(_PATIENCE_S)
        self._listener.close()
        for line in self._lines:
            line.close()

    def arm(self, fault: Fault) -> None:
        with self._lock:
            self.struck.clear()
            self._fault, self._left = fault, fault.after

    def heal(self) -> None:
        """What was held comes through now, late; what was swallowed never does, and that connection ends."""
        with self._lock:
            self._fault = None
            lines, self._lines = self._lines, [line for line in self._lines if not line.is_over]
        for line in lines:
            line.heal()

    def due(self, size: int, *, to_broker: bool) -> tuple[int, Kind | None]:
        """How many of so many bytes come through, and what strikes behind them."""
        with self._lock:
            fault = self._fault
            if fault is None or fault.to_broker is not to_broker:
                return size, None
            if size <= self._left:
                self._left -= size
                return size, None
            self._fault = None
            return self._left, fault.kind

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # the listener is closed
                return
            line = _Line(self, client, socket.create_connection(self._target, _PATIENCE_S))
            with self._lock:
                self._lines.append(line)
            line.start()


class _Line:
    """One connection through the proxy: two sockets, and a thread for each direction; the last to end closes both."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self._proxy = proxy
        self._ends = client, broker
        for end in self._ends:
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._pumping = 2
        self._healed = threading.Event()
        self._struck: Kind | None = None
        ways = ((client, broker, True), (broker, client, False))
        self._pumps = [threading.Thread(target=self._pump, args=way, name="proxy line", daemon=True) for way in ways]

    @property
    def is_over(self) -> bool:
        return self._pumping == 0

    def start(self) -> None:
        for pump in self._pumps:
            pump.start()

    def heal(self) -> None:
        self._healed.set()
        if self._struck in (Kind.SWALLOWED, Kind.HALF_CLOSE):
            self._end()

    def close(self) -> None:
        """Returns when the connection is over."""
        self._healed.set()
        self._end()
        for pump in self._pumps:
            pump.join(_PATIENCE_S)

    def _end(self, how: int = socket.SHUT_RDWR) -> None:
        """Has both pumps see the end."""
        with self._lock:
            for end in self._ends:
                with suppress(OSError):
                    end.shutdown(how)

    def _pump(self, source: socket.socket, sink: socket.socket, to_broker: bool) -> None:
        with suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                passing, kind = self._proxy.due(len(chunk), to_broker=to_broker)
                try:
                    sink.sendall(chunk[:passing])
                except OSError:  # the connection ended by itself: the fault is for the next one
                    if kind is not None:
                        self._proxy.arm(Fault(kind, to_broker, after=0))
                    raise
                if kind is not None and not self._strike(kind, source, sink, chunk[passing:]):
                    break
            if self._struck is not Kind.RESET:
                sink.shutdown(socket.SHUT_WR)
        with self._lock:
            self._pumping -= 1
            if not self._pumping:
                for end in self._ends:
                    end.close()

    def _strike(self, kind: Kind, source: socket.socket, sink: socket.socket, rest: bytes) -> bool:
        """Whether this direction goes on afterwards."""
        self._struck = kind
        self._healed.clear()  # it may have outlived an earlier fault
        self._proxy.struck.set()
        match kind:
            case Kind.CUT:
                self._end()
            case Kind.RESET:
                for end in self._ends:
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                self._end(socket.SHUT_RD)  # no end is told; closing resets
            case Kind.HALF_CLOSE:
                pass  # the sink is told the end as if the source had ended
            case Kind.SWALLOWED:
                while source.recv(_CHUNK_BYTES):
                    pass
            case Kind.HELD:
                self._healed.wait(_PATIENCE_S)
                sink.sendall(rest)
        return kind is Kind.HELD
