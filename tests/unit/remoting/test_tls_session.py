"""Encrypted bytes between two sessions in memory, and frames of a blocking client to a peer that takes its time."""

from __future__ import annotations

import os
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from rmqspark.clock import SystemClock
from rmqspark.remoting.access import Tls
from rmqspark.remoting.frame_writer import FrameWriter
from rmqspark.remoting.tls.channel import TlsChannel, TlsWriter
from rmqspark.remoting.tls.contexts import client_context, server_context
from rmqspark.remoting.tls.session import TlsSession
from rmqspark.remoting.tls.settings import TlsServing
from rmqspark.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.certificates import Authority

LARGE = 512 << 10  # more than a buffer of 4 KiB takes


class Passing(ManualClock):
    """A millisecond for each look at it."""

    def monotonic_ms(self) -> int:
        self.advance(ms=1)
        return super().monotonic_ms()


@pytest.fixture
def sessions(authority: Authority) -> tuple[TlsSession, TlsSession]:
    """A client's and a server's, hands shaken."""
    client = TlsSession(client_context(Tls(authority.path)), server_side=False, host="localhost")
    server = TlsSession(server_context(TlsServing(*authority.issue())), server_side=True)
    agreed = [False, False]
    while not all(agreed):
        agreed[0] = client.shake_hands()
        server.feed(client.to_send())
        agreed[1] = server.shake_hands()
        client.feed(server.to_send())
    return client, server


def decrypted(session: TlsSession) -> bytes:
    buffer = memoryview(bytearray(2 << 20))
    return bytes(buffer[: session.read_into(buffer)])


@pytest.mark.parametrize("size", [1, 16_384, 16_385, 1 << 20])
def test_both_ways_at_any_size(sessions: tuple[TlsSession, TlsSession], size: int) -> None:
    """What one encrypts the other decrypts, cut wherever the network likes, into whatever room there is."""
    for sender, receiver in (sessions, sessions[::-1]):
        plain = os.urandom(size)
        encrypted = sender.encrypt(plain)
        assert plain[:16] not in encrypted
        received, room = b"", memoryview(bytearray(5_000))
        for at in range(0, len(encrypted), 60_000):
            receiver.feed(encrypted[at : at + 60_000])
            while count := receiver.read_into(room):
                received += room[:count]
        assert received == plain


def test_the_end_is_told(sessions: tuple[TlsSession, TlsSession]) -> None:
    """A farewell comes behind all that was said before, and is no error."""
    client, server = sessions
    server.feed(client.encrypt(b"last") + client.farewell())
    assert decrypted(server) == b"last"
    assert server.ended


def test_what_was_changed_on_the_way_is_an_error(sessions: tuple[TlsSession, TlsSession]) -> None:
    """One bit is enough."""
    client, server = sessions
    encrypted = bytearray(client.encrypt(b"a" * 100))
    encrypted[50] ^= 1
    server.feed(encrypted)
    with pytest.raises(ssl.SSLError):
        decrypted(server)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def taken(peer: socket.socket, session: TlsSession) -> bytes:
    """All that has come."""
    try:
        while True:
            session.feed(peer.recv(1 << 20, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return decrypted(session)


def test_frames_come_whole_and_in_order(
    ends: tuple[socket.socket, socket.socket], sessions: tuple[TlsSession, TlsSession]
) -> None:
    """Whatever they are made of: thousands of parts, none, large ones."""
    (ours, theirs), (client, server) = ends, sessions
    clock = SystemClock()
    writer = TlsWriter(FrameWriter(ours, clock), TlsChannel(ours, client))
    frames = [[b"%d," % number for number in range(3_000)], [b"", b"x"], [bytearray(b"y" * 30_000), memoryview(b"z")]]
    for frame in frames:
        assert writer.write(frame, clock.monotonic_ms() + 60_000)
    assert taken(theirs, server) == b"".join(b"".join(frame) for frame in frames)


def test_what_is_left_of_a_frame_goes_out_before_the_next(
    ends: tuple[socket.socket, socket.socket], sessions: tuple[TlsSession, TlsSession]
) -> None:
    """The time of a frame was over in its middle, and its memory was used again: the peer gets it as it was."""
    (ours, theirs), (client, server) = ends, sessions
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    clock = Passing()
    writer = TlsWriter(FrameWriter(ours, clock), TlsChannel(ours, client))
    body = bytearray(b"a" * LARGE)
    assert not writer.write([b"head", body], clock.monotonic_ms() + 20)
    body[:] = b"b" * LARGE
    assert not writer.write([b"never begun"], clock.monotonic_ms() + 5)
    received = taken(theirs, server)
    while not writer.write([b"next"], clock.monotonic_ms() + 5):
        received += taken(theirs, server)
    received += taken(theirs, server)
    assert received == b"head" + b"a" * LARGE + b"next"


def test_a_farewell_is_not_put_into_the_middle_of_a_frame(
    ends: tuple[socket.socket, socket.socket], sessions: tuple[TlsSession, TlsSession]
) -> None:
    """A connection that ends there is cut off, and the peer sees that it is."""
    (ours, theirs), (client, server) = ends, sessions
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    clock = Passing()
    writer = TlsWriter(FrameWriter(ours, clock), TlsChannel(ours, client))
    assert not writer.write([bytes(LARGE)], clock.monotonic_ms() + 20)
    taken(theirs, server)
    writer.part()
    taken(theirs, server)
    assert not server.ended
