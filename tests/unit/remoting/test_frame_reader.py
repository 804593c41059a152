"""The receiving half of the client's connection, without a socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.errors import FrameError
from rmqspark.remoting.frame_reader import BufferPool, FrameReader


class Stream:
    """Bytes that arrive in pieces of given sizes, then end."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = sizes
        self._at = self._turn = 0

    def receive_into(self, buffer: memoryview) -> int:
        assert len(buffer) > 0
        size = min(len(buffer), self._sizes[self._turn % len(self._sizes)], len(self._data) - self._at)
        buffer[:size] = self._data[self._at : self._at + size]
        self._at, self._turn = self._at + size, self._turn + 1
        return size


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def read_all(data: bytes, sizes: list[int]) -> list[bytes]:
    reader = FrameReader(Stream(data, sizes).receive_into)
    frames = []
    while (frame := reader.read()) is not None:
        frames.append(bytes(frame))
    return frames


sized = st.one_of(st.integers(4, 300), st.sampled_from([65_535, 65_536, 65_537, 300_000, 800_000]))


@pytest.mark.property
@given(
    st.lists(sized, min_size=1, max_size=6),
    st.lists(st.one_of(st.integers(1_000, 70_000), st.just(1 << 20)), min_size=1, max_size=5),
)
def test_any_split(lengths: list[int], sizes: list[int]) -> None:
    """However an answer is cut up on its way, it arrives as it was sent, large or small."""
    wanted = [bytes([number % 256]) * length for number, length in enumerate(lengths)]
    assert read_all(b"".join(map(framed, wanted)), sizes) == wanted


def test_byte_by_byte() -> None:
    """A network that delivers one byte at a time is slow, nothing worse."""
    wanted = [b"first", b"second one"]
    assert read_all(b"".join(map(framed, wanted)), [1]) == wanted


def test_a_large_frame_lies_in_one_buffer_that_is_used_again() -> None:
    """A large answer is not copied together, and its memory serves the next one once nobody looks at it."""
    data = framed(b"a" * 1_000_000)
    reader = FrameReader(Stream(data * 3, [1 << 20]).receive_into)
    first = reader.read()
    assert first is not None
    memory = first.obj
    second = reader.read()
    assert second is not None
    assert second.obj is not memory  # the first is still looked at
    first.release()
    third = reader.read()
    assert third is not None
    assert third.obj is memory
    assert bytes(second) == bytes(third) == b"a" * 1_000_000


@pytest.mark.parametrize("cut", [1, 4, 10, 70_000, 299_999])
def test_cut_within_a_frame(cut: int) -> None:
    """An answer that ends half way is an error, never a short answer."""
    with pytest.raises(FrameError, match="within a frame"):
        read_all(framed(b"x" * 300_000)[:cut], [1 << 16])


@pytest.mark.parametrize("length", [-1, 3, 16 * 1024 * 1024 - 3, 2**31 - 1])
def test_impossible_lengths(length: int) -> None:
    """A length beyond the limit is refused before any memory is spent on it."""
    with pytest.raises(FrameError, match="announced"):
        read_all(length.to_bytes(4, "big", signed=True) + b"x" * 100, [1 << 16])


def test_pool_keeps_few() -> None:
    """The memory that a connection keeps for later is bounded."""
    pool = BufferPool()
    buffers = [bytearray(size) for size in (10, 20, 30, 40, 50)]
    for buffer in buffers:
        pool.keep(buffer)
    assert pool.take(1) is buffers[1]
    assert pool.take(45) is buffers[4]
    assert pool.take(51) is None
    pool.clear()
    assert pool.take(1) is None
