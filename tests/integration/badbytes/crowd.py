"""Many connections at once, all of them this process's."""

from __future__ import annotations

import resource
import select
import socket
import time
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    import msgspec

    from rmqspark.testing.fuzz.canary import Canary
    from rmqspark.testing.fuzz.victim import Victim

PATIENCE_S = 60
_PARTS_OF_A_PACE = 10
_FILES_OF_OUR_OWN = 500


def room_for_sockets() -> int:
    """Sockets this process may open, as many as the system lets it ask for; a server it starts may open as many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard - _FILES_OF_OUR_OWN


class Crowd:
    """`count` connections to one server."""

    def __init__(self, address: str, count: int, *, receive_buffer: int | None = None) -> None:
        self._address = parse_address(address)
        self._count = count
        self._receive_buffer = receive_buffer
        self.sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        for _ in range(self._count):
            one = socket.socket()
            self.sockets.append(one)
            if self._receive_buffer is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)
            one.settimeout(PATIENCE_S)
            one.connect(self._address)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.sockets:
            one.close()

    def __len__(self) -> int:
        return len(self.sockets)

    def send(self, data: bytes) -> None:
        """The same bytes on each connection."""
        for one in self.sockets:
            one.sendall(data)

    def is_answered(self) -> bool:
        """Whether something is there to be read on any connection."""
        return bool(select.select(self.sockets, [], [], 0)[0])

    def answers(self, each: int = 1) -> Iterator[int]:
        """The codes of `each` answers on each connection; raises where a server closed instead."""
        for one in self.sockets:
            frames: list[memoryview] = []
            decoder = FrameDecoder()
            while len(frames) < each:
                chunk = one.recv(1 << 16)
                assert chunk, "the server closed a connection of the crowd"
                frames += decoder.feed(chunk)
            yield from (decode_command(split_frame(frame)).code for frame in frames)


def request(code: int, header: msgspec.Struct | None = None, opaque: int = 1) -> bytes:
    """A whole frame."""
    return b"".join(encode_request(code, opaque, header))


class Pace(NamedTuple):
    """How long sends of a canary took, and what one cost the server. Waiting includes what else the machine does."""

    median_ms: float
    p99_ms: float
    server_ms: float
    """Processor time of one in the cheapest tenth of the time: others on the machine, who take caches and half of a
    core from the server, make its work dearer, but hardly for all of that time. What costs every send shows here."""

    @classmethod
    def of(cls, canary: Canary, victim: Victim, *, notes: int) -> Pace:
        took, costs_ms = [], []
        in_part = notes // _PARTS_OF_A_PACE
        for _ in range(_PARTS_OF_A_PACE):
            cpu_s = victim.cpu_seconds()
            for _ in range(in_part):
                begin = time.perf_counter()
                canary.sing()
                took.append(1000 * (time.perf_counter() - begin))
            costs_ms.append(1000 * (victim.cpu_seconds() - cpu_s) / in_part)
        took.sort()
        return cls(took[len(took) // 2], took[len(took) * 99 // 100], min(costs_ms))

    def __str__(self) -> str:
        return f"{self.median_ms:.2f} ms (p99 {self.p99_ms:.1f}, {self.server_ms:.2f} of the server)"
