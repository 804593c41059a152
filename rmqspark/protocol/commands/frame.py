"""Frames: chunks of bytes in, whole commands out.

A frame is an int32 length and that many bytes (spec: remoting, section 1). The decoder never touches a socket, never
allocates by a declared length, and hands a frame that came in one chunk through without copying it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from rmqspark.errors import FrameError

if TYPE_CHECKING:
    from rmqspark.protocol.commands.command import Buffer

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""RocketMQ's limit on a frame, its length bytes included."""
MAX_ANSWER_BYTES: Final = MAX_FRAME_BYTES - 4096
"""Of the messages in an answer: clients take no longer frame, and it has a header, too."""

_LENGTH: Final = struct.Struct(">i")
_LENGTH_BYTES: Final = _LENGTH.size


_HTTP: Final = int.from_bytes(b"HTTP")
_TLS_ALERT: Final = b"\x15\x03"


def out_of_bounds(length: int, longest: int) -> FrameError:
    """The error for a length that no frame has; it may be the beginning of what another protocol says."""
    if length == _HTTP:
        return FrameError("what came is HTTP and not RocketMQ's protocol: the port is another server's, or a proxy's")
    if length >= 0 and length.to_bytes(4).startswith(_TLS_ALERT):
        return FrameError("what came is an alert of TLS, which was not spoken here")
    return FrameError(f"a frame of {length} bytes is announced, of {_LENGTH_BYTES} to {longest} allowed")


class FrameDecoder:
    """Turns chunks into whole frames, without their length bytes.

    A frame may be a view of the chunk it came in: it is valid until the caller reuses that memory. What must outlast
    a call of `feed`, the start of an unfinished frame, the decoder copies.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_length = max_frame_bytes - _LENGTH_BYTES
        self._unfinished = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """How much of an unfinished frame has come so far; above 0 a frame is under way."""
        return len(self._unfinished)

    def feed(self, chunk: Buffer) -> list[memoryview]:
        """The frames that `chunk` completes, in order. Raises FrameError; the connection has lost its place then."""
        frames: list[memoryview] = []
        view = memoryview(chunk)
        at = self._finish(view, frames) if self._unfinished else 0
        end = len(view)
        while end - at >= _LENGTH_BYTES:
            start = at + _LENGTH_BYTES
            stop = start + self._length(view, at)
            if stop > end:
                break
            frames.append(view[start:stop])
            at = stop
        if at < end:
            self._unfinished += view[at:]
        return frames

    def _finish(self, view: memoryview, frames: list[memoryview]) -> int:
        """Adds to the unfinished frame what it lacks; returns how much of `view` that took."""
        taken = 0
        if len(self._unfinished) < _LENGTH_BYTES:
            taken = min(_LENGTH_BYTES - len(self._unfinished), len(view))
            self._unfinished += view[:taken]
            if len(self._unfinished) < _LENGTH_BYTES:
                return taken
        lacking = _LENGTH_BYTES + self._length(self._unfinished, 0) - len(self._unfinished)
        rest = view[taken : taken + lacking]
        self._unfinished += rest
        if len(rest) == lacking:
            frames.append(memoryview(self._unfinished)[_LENGTH_BYTES:])
            self._unfinished = bytearray()  # the frame keeps the old one
        return taken + len(rest)

    def _length(self, data: bytearray | memoryview, at: int) -> int:
        length: int = _LENGTH.unpack_from(data, at)[0]
        if not _LENGTH_BYTES <= length <= self._max_length:
            raise out_of_bounds(length, self._max_length)
        return length
