"""Large pieces between two ends on one machine, sent as fast as they are taken.

A system may be told to pace what it sends (BBR, a congestion control): small pieces, each when a timer says so, at the
rate that the network seems to have. Within a machine there is none. Pacing costs the sender twice the processor time of
a large piece there, and both ends the time in between (docs/performance.md). So a connection that carries large pieces
within a machine is taken out of it; all others send as their system has been told to. Small requests that come by the
dozen rather gain by it: they are kept back a little, and so come together.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final, Protocol

LARGE_BYTES: Final = 64 << 10
"""From this size on a piece is worth a look at the connection."""

_PACES: Final = b"bbr"  # and the versions of it whose names begin so
_DOES_NOT: Final = b"reno"  # every Linux has it, and anybody may ask for it
_NAME_BYTES: Final = 16


class Connected(Protocol):
    """A TCP socket, as far as it matters here: the system's, or an event loop's view of one."""

    def getsockname(self) -> object: ...
    def getpeername(self) -> object: ...
    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...
    def setsockopt(self, level: int, name: int, value: bytes, /) -> None: ...


def stop_pacing(connection: Connected) -> None:
    """Sends unpaced from now on, if both ends are on this machine; elsewhere as before."""
    if not hasattr(socket, "TCP_CONGESTION"):
        return
    with suppress(OSError):  # it has ended, or is no TCP connection
        if _address(connection.getsockname()) != _address(connection.getpeername()):
            return
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _NAME_BYTES).startswith(_PACES):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _DOES_NOT)


def _address(name: object) -> object:
    """Without the port. What has none, as a Unix socket's path, is as it is."""
    return name[0] if isinstance(name, tuple) else name
