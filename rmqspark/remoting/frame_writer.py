"""Whole frames to a blocking socket, each within its time.

A frame whose time is over before its first byte is taken is not sent at all. What is left of one whose time is over in
its middle goes out before the next frame: so a peer that stops for a while costs those who wait for it their own time,
and nobody the connection.
"""

from __future__ import annotations

import socket
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.clock import Clock
    from rmqspark.protocol.commands.command import Buffer

_MAX_BUFFERS_PER_CALL = 512  # of the system's IOV_MAX, 1024 on Linux
_TAKES_NOTHING_MS = 30_000  # without the peer taking a byte, though somebody waits for it: it has gone
_TIMEVAL = Struct("ll")


class FrameWriter:
    """Writes to a socket in blocking mode, whose SO_SNDTIMEO belongs to it. One thread at a time."""

    def __init__(self, connected: socket.socket, clock: Clock) -> None:
        self._socket = connected
        self._clock = clock
        self._unsent: list[memoryview] = []  # of a frame that was begun
        self._stuck_since_ms: int | None = None

    def write(self, frame: Sequence[Buffer], deadline_ms: int) -> bool:
        """Sends the buffers one after the other without joining them. False if the peer did not take them in time.

        Raises OSError where the connection is lost, or nothing was taken for 30 s.
        """
        if self._unsent:
            self._unsent = self.offer(self._unsent, deadline_ms)
            if self._unsent:
                return False
        size = sum(map(len, frame))
        taken = self._send(frame, socket.MSG_DONTWAIT)
        if taken == size:
            return True
        left = self._push(_after([memoryview(buffer).cast("B") for buffer in frame], taken), deadline_ms)
        if 0 < sum(map(len, left)) < size:
            self._unsent = [memoryview(bytes(part)) for part in left]  # its owner may write to the memory again
        return not left

    def offer(self, parts: list[memoryview], deadline_ms: int) -> list[memoryview]:
        """What is left of them when all is taken or the time is over; the rest is the caller's. Raises as `write`."""
        return self._push(_after(parts, self._send(parts, socket.MSG_DONTWAIT)), deadline_ms)

    def _push(self, parts: list[memoryview], deadline_ms: int) -> list[memoryview]:
        """What is left of them when all is taken or the time is over."""
        while parts and (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            self._wait_at_most(left_ms)
            parts = _after(parts, self._send(parts, 0))
        return parts

    def _send(self, parts: Sequence[Buffer], flags: int) -> int:
        try:
            taken = self._socket.sendmsg(parts[:_MAX_BUFFERS_PER_CALL], (), flags)
        except BlockingIOError:
            return 0
        self._stuck_since_ms = None
        return taken

    def _wait_at_most(self, left_ms: int) -> None:
        """For the next call. The system's own timeout, since Python's would make every call poll first."""
        now_ms = self._clock.monotonic_ms()
        if self._stuck_since_ms is None:
            self._stuck_since_ms = now_ms
        patience_ms = self._stuck_since_ms + _TAKES_NOTHING_MS - now_ms
        if patience_ms <= 0:
            raise TimeoutError(f"it has taken nothing for {_TAKES_NOTHING_MS // 1000} s")
        seconds, ms = divmod(min(left_ms, patience_ms), 1000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(seconds, 1000 * ms))


def _after(parts: list[memoryview], taken: int) -> list[memoryview]:
    """What is left once so many bytes of them are taken."""
    done = 0
    while done < len(parts) and taken >= len(parts[done]):
        taken -= len(parts[done])
        done += 1
    left = parts[done:]
    if taken:
        left[0] = left[0][taken:]
    return left
