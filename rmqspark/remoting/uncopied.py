"""What lies in a file goes to a client's socket without being copied (sendfile), as long as the socket takes it.

An event loop's transport takes bytes in memory alone. So an answer's parts up to the last that lies in a file are given
to the socket below, if nothing else waits there; what it does not take at once is read, and waits in the transport like
any other answer. Within a machine that is next to nothing: a socket takes some megabytes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.protocol.commands.command import Buffer
from rmqspark.protocol.commands.file_region import in_memory

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from rmqspark.protocol.commands.file_region import Part


def send_uncopied(transport: asyncio.Transport, parts: Sequence[Part]) -> list[Buffer]:
    """Gives the socket of a transport that does not encrypt what it takes at once; returns what is left, in memory.

    Raises OSError and StoreError where a file cannot be read: a part of an answer may have gone out then.
    """
    taken = 0
    descriptor = _descriptor_of(transport)
    if descriptor is not None and not transport.get_write_buffer_size():  # else they would overtake what waits
        last = max([at for at, part in enumerate(parts) if not isinstance(part, Buffer)], default=-1)
        with suppress(OSError):  # a full socket, a lost one, a file that cannot be read: the rest meets it again
            for part in parts[: last + 1]:
                went = os.write(descriptor, part) if isinstance(part, Buffer) else part.send(descriptor)
                taken += went
                if went < len(part):
                    break
    return in_memory(_behind(parts, taken))


def _descriptor_of(transport: asyncio.Transport) -> int | None:
    connected = transport.get_extra_info("socket")
    return int(connected.fileno()) if hasattr(connected, "fileno") else None


def _behind(parts: Sequence[Part], taken: int) -> list[Part]:
    """The parts without so many of their first bytes."""
    left: list[Part] = []
    for part in parts:
        gone = min(taken, len(part))
        taken -= gone
        if not gone:
            left.append(part)
        elif gone < len(part):
            left.append(memoryview(part)[gone:] if isinstance(part, Buffer) else part.after(gone))
    return left
