"""Frames to a peer that takes them, takes its time, or takes nothing."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from rmqspark.clock import SystemClock
from rmqspark.remoting.frame_writer import FrameWriter
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = 4 << 20  # more than any system's buffers of a socket take
SOON_MS = 10


class Passing(ManualClock):
    """A millisecond for each look at it."""

    def monotonic_ms(self) -> int:
        self.advance(ms=1)
        return super().monotonic_ms()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def taken(peer: socket.socket) -> bytes:
    """All that has come."""
    chunks = []
    try:
        while True:
            chunks.append(peer.recv(1 << 20, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return b"".join(chunks)


def in_time(clock: SystemClock) -> int:
    return clock.monotonic_ms() + 60_000


def test_buffers_are_sent_as_one_frame(ends: tuple[socket.socket, socket.socket]) -> None:
    """However many they are, and with empty ones among them."""
    ours, theirs = ends
    clock = SystemClock()
    frame = [b"head", b"", *(b"%d" % number for number in range(1_500)), b""]
    assert FrameWriter(ours, clock).write(frame, in_time(clock))
    assert taken(theirs) == b"".join(frame)


def test_what_is_left_of_a_frame_goes_out_before_the_next(ends: tuple[socket.socket, socket.socket]) -> None:
    """The peer gets whole frames, although the time of one was over in its middle and its memory was used again."""
    ours, theirs = ends
    clock = SystemClock()
    writer = FrameWriter(ours, clock)
    body = bytearray(b"x" * LARGE)
    assert not writer.write([b"head", body], clock.monotonic_ms() + SOON_MS)
    body[:] = bytes(LARGE)
    came = b""
    while not writer.write([b"next"], clock.monotonic_ms() + SOON_MS):
        came += taken(theirs)
    assert came + taken(theirs) == b"head" + b"x" * LARGE + b"next"


def test_a_frame_that_was_not_begun_in_time_is_not_sent(ends: tuple[socket.socket, socket.socket]) -> None:
    """Its sender has given it up, so nobody need read it."""
    ours, theirs = ends
    clock = SystemClock()
    writer = FrameWriter(ours, clock)
    assert not writer.write([bytes(LARGE)], clock.monotonic_ms() + SOON_MS)
    assert not writer.write([b"too late"], clock.monotonic_ms() + SOON_MS)
    came = b""
    while not writer.write([b"next"], clock.monotonic_ms() + SOON_MS):
        came += taken(theirs)
    assert came + taken(theirs) == bytes(LARGE) + b"next"


def test_a_peer_that_takes_nothing_for_long_has_gone(ends: tuple[socket.socket, socket.socket]) -> None:
    """After 30 s in which somebody waited for it the connection is of no use."""
    clock = Passing()
    writer = FrameWriter(ends[0], clock)
    assert not writer.write([bytes(LARGE)], clock.monotonic_ms() + SOON_MS)
    clock.advance(seconds=29)
    assert not writer.write([b"next"], clock.monotonic_ms() + SOON_MS)
    clock.advance(seconds=1)
    with pytest.raises(TimeoutError, match="taken nothing for 30 s"):
        writer.write([b"next"], clock.monotonic_ms() + SOON_MS)


def test_a_peer_that_goes_on_while_nobody_writes_has_not_gone(ends: tuple[socket.socket, socket.socket]) -> None:
    """It stopped in the middle of a frame, and the next is not written before half a minute: it is asked first."""
    ours, theirs = ends
    clock = Passing()
    writer = FrameWriter(ours, clock)
    assert not writer.write([bytes(LARGE)], clock.monotonic_ms() + SOON_MS)
    came = taken(theirs)
    clock.advance(seconds=31)
    while not writer.write([b"next"], clock.monotonic_ms() + SOON_MS):
        came += taken(theirs)
    assert came + taken(theirs) == bytes(LARGE) + b"next"
