"""Where the bytes of a connection are received, and the commands that are whole among them. No socket here.

All connections of a server share one buffer: a loop reads one socket at a time, and what was read is handled before
the next read. So an idle connection holds no memory. Only an incomplete frame is set aside in a buffer of its own
connection, which grows with the bytes that come, never by the length that was promised; the rest of the frame is then
received straight into it. A connection of large frames keeps that buffer and receives all into it, until `shrink`.

A command is handed out as the places of its parts in one of these buffers, valid until the next one is asked for.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from rmqspark.errors import Busy
from rmqspark.protocol.commands.command import MAX_HEADER_BYTES, ROCKETMQ, RawCommand, split_frame
from rmqspark.protocol.commands.frame import out_of_bounds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

SHARED_BUFFER_BYTES = 256 * 1024
_SMALLEST_OWN_BYTES = 4 * 1024
_LENGTH = Struct(">i")
_HEAD = Struct(">iI")  # length of what follows, header word
_HEAD_BYTES = _HEAD.size
_HEADER_BYTES = (1 << 24) - 1  # of the header word: the length of the header
_MIN_LENGTH = 4  # of the header word
_NONE: tuple[int, int, list[int], bytes] = 0, 0, [], b""


class Budget:
    """Bytes that a group of connections may hold together; `what` they are, in words."""

    def __init__(self, limit_bytes: int, what: str = "incomplete frames") -> None:
        self._left = limit_bytes
        self._what = what

    def take(self, count: int) -> None:
        """Raises Busy if that many are not left."""
        if count > self._left:
            raise Busy(f"too many bytes of {self._what} are held for all clients together")
        self._left -= count

    def give_back(self, count: int) -> None:
        self._left += count


def command_at(view: memoryview, word: int, header_at: int, body_at: int, end: int) -> RawCommand:
    """The command whose parts lie at these places (see `FrameReceiver.frames`)."""
    return RawCommand(word >> 24, view[header_at:body_at], view[body_at:end])


def frames_of(view: memoryview, sizes: Iterable[int]) -> Iterator[tuple[int, int, int, int]]:
    """Where the commands of whole frames lie, which are so long and back to back (see `FrameReceiver.frames`)."""
    at = 0
    for size in sizes:
        _, word = _HEAD.unpack_from(view, at)
        header_at, at = at + _HEAD_BYTES, at + size
        yield word, header_at, header_at + (word & _HEADER_BYTES), at


class FrameReceiver:
    """The receiving half of one connection.

    Use: read into `writable()`, tell `received(count)`, iterate `frames()` as far as wanted, then call `settle()`.
    """

    __slots__ = ("_at", "_budget", "_end", "_max_frame_bytes", "_needed", "_own", "_shared", "_used_own", "view")

    def __init__(self, shared: memoryview, budget: Budget, max_frame_bytes: int) -> None:
        self._shared = shared
        self._budget = budget
        self._max_frame_bytes = max_frame_bytes
        self._own = memoryview(b"")
        self.view = shared  # the buffer that is read into: `shared` or `_own`
        self._at = 0  # the first byte not handed out yet
        self._end = 0  # behind the last byte received
        self._needed = 0  # length of the frame that begins at 0, once it is known to be incomplete
        self._used_own = False  # since the last `shrink`, for a frame longer than the shared buffer

    @property
    def partial(self) -> bool:
        """True while bytes wait for the rest of their frame, or to be asked for."""
        return self._end > 0

    @property
    def first_byte(self) -> int:
        """The first byte not handed out yet; -1 if there is none."""
        return self.view[self._at] if self._end > self._at else -1

    def writable(self) -> memoryview:
        """Where to receive next. Raises Busy if the bytes set aside may grow no further."""
        if self._end == 0:
            return self.view
        if self._end == len(self._own):
            self._grow()
        # Not beyond this frame: the next one then begins at 0 and needs no moving.
        return self._own[self._end : self._needed or len(self._own)]

    def received(self, count: int) -> None:
        self._end += count

    def frames(self) -> Iterator[tuple[int, int, int, int]]:
        """Where in `view` the commands are that were received whole: header word, where the header begins, where the
        body does, and its end. Raises FrameError or HeaderError where the stream makes no sense."""
        view, longest, head_at = self.view, self._max_frame_bytes - 4, _HEAD.unpack_from
        self._needed = 0
        at, end = self._at, self._end
        while end - at >= _HEAD_BYTES:
            length, word = head_at(view, at)
            stop = at + 4 + length
            if not _MIN_LENGTH <= length <= longest or stop > end:
                break
            header_at = at + _HEAD_BYTES
            self._at = at = stop
            header_bytes = word & _HEADER_BYTES
            if header_bytes > length - 4 or header_bytes > MAX_HEADER_BYTES or word >> 24 > ROCKETMQ:
                split_frame(view[header_at - 4 : stop])  # which says what is wrong
            yield word, header_at, header_at + header_bytes, stop
        if self._end - self._at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(view, self._at)
            self._announce(length, longest)

    def take_whole(self, words: Container[int]) -> tuple[int, int, list[int], bytes]:
        """Takes all that was received, if that is whole frames with header words that are among these: the word and
        the length of each, 0 for both where frames differ in them, all lengths, and a copy of the frames. Nothing if
        that is not so."""
        view, end = self.view, self._end
        if view is not self._shared or end < _HEAD_BYTES or _HEAD.unpack_from(view, 0)[1] not in words:
            return _NONE
        frames, sizes, head, at, heads = view[:end].tobytes(), [], b"", 0, 0
        word = frame_bytes = 0
        while at < end:
            if not heads or not frames.startswith(head, at):
                head, heads = frames[at : at + _HEAD_BYTES], heads + 1
                if len(head) < _HEAD_BYTES:
                    return _NONE
                length, word = _HEAD.unpack(head)
                frame_bytes = 4 + length
                if (
                    word not in words
                    or not _HEAD_BYTES + (word & _HEADER_BYTES) <= frame_bytes <= self._max_frame_bytes
                ):
                    return _NONE
            sizes.append(frame_bytes)
            at += frame_bytes
        if at > end:
            return _NONE
        self._end = 0
        return (word, frame_bytes, sizes, frames) if heads == 1 else (0, 0, sizes, frames)

    def _announce(self, length: int, longest: int) -> None:
        """A frame of this length has begun."""
        if not _MIN_LENGTH <= length <= longest:
            raise out_of_bounds(length, longest)
        self._needed = 4 + length
        self._used_own = self._used_own or length > len(self._shared)

    def settle(self) -> bool:
        """Sets aside what has not been handed out, and tells whether there is any. Raises Busy if it has no room."""
        rest = self._end - self._at
        if rest == 0:
            self.view = self._own if len(self._own) >= len(self._shared) else self._shared
        elif self.view is self._shared:
            self._set_aside(rest)
        elif self._at:
            self._own[:rest] = self._own[self._at : self._end]
        self._at, self._end = 0, rest
        return rest > 0

    def shrink(self) -> None:
        """Gives up memory not needed since the last call."""
        if self._used_own or self.partial:
            self._used_own = False
        else:
            self.release()

    def release(self) -> None:
        """Gives up everything, also an incomplete frame."""
        self._budget.give_back(len(self._own))
        self._own = memoryview(b"")
        self.view = self._shared
        self._at = self._end = self._needed = 0

    def use_budget(self, budget: Budget) -> None:
        """Counts the memory held against another budget from now on."""
        budget.take(len(self._own))
        self._budget.give_back(len(self._own))
        self._budget = budget

    def _set_aside(self, rest: int) -> None:
        self._reserve(max(rest, _SMALLEST_OWN_BYTES))
        self._own[:rest] = self._shared[self._at : self._end]
        self.view = self._own

    def _grow(self) -> None:
        held = self._own
        self._reserve(min(max(2 * self._end, _SMALLEST_OWN_BYTES), self._needed or 2 * self._end))
        self._own[: self._end] = held[: self._end]
        self.view = self._own

    def _reserve(self, capacity: int) -> None:
        """Makes the connection's own buffer at least that long; what was in it is not copied."""
        if capacity > len(self._own):
            more = capacity - len(self._own)
            self._budget.take(more)
            try:
                self._own = memoryview(bytearray(capacity))
            except MemoryError:
                self._budget.give_back(more)
                raise
