"""Ports for servers that are started again, or in another process: nobody else is given them meanwhile."""

from __future__ import annotations

import errno
import socket
import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOOPBACK = "127.0.0.1"
_LISTENS_BESIDE = sys.platform == "linux"


@contextmanager
def reserved_port(*offsets: int) -> Iterator[int]:
    """A free port of the loopback, which stays free while the block runs, as do those so far beside it.

    A port that was free a moment ago may be anybody's the next: every socket that asks for any port may get it. So one
    is bound to it and never listens. Linux lets servers that reuse addresses, as ours do, listen there all the same,
    one after the other; whoever connects while none does is refused. Elsewhere the port is only known to have been
    free.
    """
    with ExitStack() as kept:
        sockets = _bound(offsets)
        for each in sockets:
            kept.callback(each.close)
        port = sockets[0].getsockname()[1]
        if not _LISTENS_BESIDE:
            kept.close()
        yield port


def _bound(offsets: Sequence[int]) -> list[socket.socket]:
    """One socket at a port of the system's choice, and one at each offset from it."""
    while True:
        sockets = [_bind(0)]
        try:
            for offset in offsets:
                sockets.append(_bind(sockets[0].getsockname()[1] + offset))
        except OSError as error:
            for each in sockets:
                each.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return sockets


def _bind(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((_LOOPBACK, port))
    except OSError:
        bound.close()
        raise
    return bound
