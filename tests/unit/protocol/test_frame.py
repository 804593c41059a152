"""Frames: the same whole commands come out, however the bytes come in."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import DecodeError, FrameError
from rmqspark.protocol.commands.command import split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import MAX_FRAME_BYTES, FrameDecoder
from rmqspark.protocol.headers.cluster import GetRouteInfoRequestHeader


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


FRAMES = [b"\0\0\0\0", b"\0\0\0\2{}", b"\0\0\0\2{}body", b"\1\0\0\0" + bytes(range(40))]
STREAM = b"".join(framed(frame) for frame in FRAMES)


def feed_all(decoder: FrameDecoder, chunks: list[bytes]) -> list[bytes]:
    """As a server receives: into one buffer that the next chunk overwrites."""
    buffer = bytearray(len(STREAM) + 1024)
    frames: list[bytes] = []
    for chunk in chunks:
        buffer[: len(chunk)] = chunk
        frames += map(bytes, decoder.feed(memoryview(buffer)[: len(chunk)]))
    return frames


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_frames_may_be_split_anywhere(size: int) -> None:
    """Requests arrive whole whether the network brings them byte by byte, coalesced, or in pieces of any size."""
    chunks = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    decoder = FrameDecoder()
    assert feed_all(decoder, chunks) == FRAMES
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_frames_may_be_cut_once_anywhere(cut: int) -> None:
    """A request whose end comes later is neither lost nor delivered early."""
    decoder = FrameDecoder()
    early = feed_all(decoder, [STREAM[:cut]])
    assert decoder.buffered_bytes == cut - sum(len(frame) + 4 for frame in early)
    assert early + feed_all(decoder, [STREAM[cut:]]) == FRAMES


@pytest.mark.property
@given(st.lists(st.binary(min_size=4, max_size=60), max_size=8), st.data())
def test_any_chunking_gives_the_same_frames(contents: list[bytes], data: st.DataObject) -> None:
    """No pattern of network reads can tear requests apart or mix them up."""
    stream = b"".join(map(framed, contents))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(edges)]
    assert feed_all(FrameDecoder(), chunks) == contents


def test_a_frame_in_one_chunk_is_not_copied() -> None:
    """A large request that came in one read costs no second copy of its memory."""
    chunk = bytearray(framed(b"\0\0\0\0body"))
    (frame,) = FrameDecoder().feed(chunk)
    chunk[-1:] = b"Y"
    assert bytes(frame) == b"\0\0\0\0bodY"


def test_a_frame_of_several_chunks_owns_its_memory() -> None:
    """Reusing the receive buffer does not change a request that is still being served."""
    decoder = FrameDecoder()
    wire = framed(b"\0\0\0\0body")
    chunk = bytearray(wire[6:])
    decoder.feed(wire[:6])
    (frame,) = decoder.feed(chunk)
    chunk[:] = bytes(len(chunk))
    decoder.feed(framed(b"\0\0\0\0other"))
    assert bytes(frame) == b"\0\0\0\0body"


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 3, MAX_FRAME_BYTES - 3, 2**31 - 1])
def test_impossible_lengths_end_the_connection(length: int) -> None:
    """A peer that claims a frame of no bytes, of negative or of enormous length is refused at its first four bytes."""
    wire = struct.pack(">i", length)
    with pytest.raises(FrameError, match=str(length)):
        FrameDecoder().feed(wire)
    bytewise = FrameDecoder()
    for at in range(3):
        assert bytewise.feed(wire[at : at + 1]) == []
    with pytest.raises(FrameError):
        bytewise.feed(wire[3:])


@pytest.mark.parametrize(
    ("said", "story"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "what came is HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "an alert of TLS"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes is announced"),
        (b"\xff\xff\xff\xff", "a frame of -1 bytes is announced"),
    ],
)
def test_who_meets_another_server_is_told(said: bytes, story: str) -> None:
    """A console's or a proxy's port, typed for a name server's: the length that its answer begins with says nothing."""
    with pytest.raises(FrameError, match=story):
        FrameDecoder().feed(said)


def test_the_limit_counts_the_length_bytes() -> None:
    """RocketMQ's limit of 16 MiB is on the whole frame, its four length bytes included."""
    FrameDecoder().feed(struct.pack(">i", MAX_FRAME_BYTES - 4))
    small = FrameDecoder(max_frame_bytes=12)
    assert small.feed(framed(b"12345678")) == [b"12345678"]
    with pytest.raises(FrameError):
        small.feed(framed(b"123456789"))


def test_memory_grows_with_what_came_not_with_what_was_claimed() -> None:
    """Announcing a 16 MiB request reserves no memory for it."""
    decoder = FrameDecoder()
    assert decoder.feed(struct.pack(">i", MAX_FRAME_BYTES - 4) + b"abc") == []
    assert decoder.buffered_bytes == 7


@pytest.mark.property
@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    """Whatever a stranger sends, the frame layer answers with frames or with one kind of error."""
    with suppress(DecodeError):
        for frame in FrameDecoder(max_frame_bytes=256).feed(data):
            split_frame(frame)


def test_large_bodies_are_written_as_they_are() -> None:
    """Sending a large body copies none of it: the caller's own buffers go to the socket."""
    parts = [memoryview(bytearray(1 << 20)), b"tail", b""]
    buffers = encode_request(105, 1, GetRouteInfoRequestHeader("T"), parts)
    assert buffers[1] is parts[0]
    assert buffers[2] is parts[1]
    assert len(buffers) == 3
    (frame,) = FrameDecoder().feed(b"".join(buffers))
    assert split_frame(frame).body == bytes(1 << 20) + b"tail"
