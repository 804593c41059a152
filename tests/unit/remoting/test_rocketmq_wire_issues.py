"""Bugs that Apache RocketMQ had, or has, between socket and handler, under their numbers: here they must not happen.

Each docstring begins with what fails there. docs/reliability.md has the table.
"""

from __future__ import annotations

import struct
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import DecodeError, HeaderError
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.remoting.receive import Budget, FrameReceiver, command_at

_FIXED = struct.pack(">hbhii", 10, 0, 479, 1, 0)
_SHARED_BYTES = 4096
_CONNECTIONS = 6


@pytest.mark.parametrize("remark_bytes", [-(2**31), -1, 1, 2**24, 2**31 - 1])
def test_3474_a_remark_of_gigabytes(remark_bytes: int) -> None:
    """A wrong length of a remark was allocated before it was checked, and the server did nothing but collect
    garbage."""
    head = _FIXED + struct.pack(">i", remark_bytes)
    raw = split_frame(struct.pack(">I", 1 << 24 | len(head)) + head)
    tracemalloc.start()
    try:
        with pytest.raises(HeaderError):
            decode_command(raw)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.property
@given(st.integers(0, 255), st.integers(0, 0xFFFFFF), st.binary(max_size=40))
def test_10832_a_header_of_no_known_kind(kind: int, header_bytes: int, rest: bytes) -> None:
    """Frames too short for what they claim, or of an unknown serialization, raised exceptions nobody had foreseen."""
    for frame in (struct.pack(">I", kind << 24 | header_bytes) + rest, rest[:3]):
        try:
            decode_command(split_frame(frame))
        except DecodeError:
            continue
        assert kind in (0, 1)


@pytest.mark.parametrize("seed", range(20))
def test_10911_frames_of_several_connections(seed: int) -> None:
    """Bytes of one connection were stored in the middle of a message of another. Here all connections share the buffer
    that is received into: what waits for its end must have left it by the time the next one is read."""
    _talk(seed)


def test_10911_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same connections, with what is incomplete left where it was received: they do get mixed up."""

    def leave_in_place(receiver: FrameReceiver, rest: int) -> None:
        receiver._shared[:rest] = receiver._shared[receiver._at : receiver._end]
        receiver._own = receiver._shared
        receiver.view = receiver._shared

    monkeypatch.setattr(FrameReceiver, "_set_aside", leave_in_place)
    monkeypatch.setattr(FrameReceiver, "_reserve", lambda *_: None)
    with pytest.raises((AssertionError, DecodeError)):
        _talk(1)


def _talk(seed: int) -> None:
    """Several connections send at once, cut anywhere: of each is received what it sent."""
    rng, shared = Random(seed), memoryview(bytearray(_SHARED_BYTES))
    bodies = [_bodies(rng, bytes([65 + number])) for number in range(_CONNECTIONS)]
    streams = [b"".join(map(_framed, mine)) for mine in bodies]
    receivers = [FrameReceiver(shared, Budget(1 << 20), 1 << 20) for _ in bodies]
    received: list[list[bytes]] = [[] for _ in bodies]
    while any(streams):
        number = rng.choice([number for number, stream in enumerate(streams) if stream])
        receiver, stream = receivers[number], streams[number]
        room = receiver.writable()
        count = min(len(room), len(stream), rng.choice((1, 7, 100, 5_000)))
        room[:count] = stream[:count]
        receiver.received(count)
        received[number] += [bytes(command_at(receiver.view, *places).body) for places in receiver.frames()]
        receiver.settle()
        streams[number] = stream[count:]
    assert received == bodies


def _bodies(rng: Random, letter: bytes) -> list[bytes]:
    return [letter * rng.choice((0, 1, 30, 700, 9_000)) for _ in range(8)]


def _framed(body: bytes) -> bytes:
    return struct.pack(">iI", 4 + len(body), 0) + body
