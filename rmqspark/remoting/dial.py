"""A socket to a server, blocking, as `BlockingConnection` reads from it and writes to it."""

from __future__ import annotations

import socket
import struct

from rmqspark.errors import Unreachable
from rmqspark.remoting.address import no_host_name, parse_address

_LOOK_UP_INTERVAL_S = 1  # how long a read waits before the reader looks for timeouts
_TIMEVAL = struct.Struct("ll")


def dial(address: str, timeout_ms: int) -> socket.socket:
    """Connected; a read where nothing comes for a second raises BlockingIOError.

    Raises Unreachable, naming the address, if nobody answers there in time, and InvalidArgument if it is none.
    """
    host, port = parse_address(address)
    try:
        # Encoded here, since Python would load its tables of international names for any text at all.
        encoded = host.encode("ascii" if host.isascii() else "idna")
        connected = socket.create_connection((encoded, port), timeout_ms / 1000)  # type: ignore[arg-type]
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unreachable(f"Nothing answers at {address}: {reason}.", address=address) from error
    except UnicodeError as error:
        raise no_host_name(host, address) from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The system's own timeout, since Python's would make every call poll first; the writer sets that of sending.
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(_LOOK_UP_INTERVAL_S, 0))
    return connected
