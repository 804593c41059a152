"""However a network cuts the golden commands up or joins them, the same commands arrive, at servers and clients."""

from __future__ import annotations

from itertools import combinations, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.remoting.frame_reader import FrameReader
from rmqspark.remoting.receive import Budget, FrameReceiver, command_at
from rmqspark.testing.fuzz.golden import golden_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqspark.protocol.commands.command import RawCommand

pytestmark = pytest.mark.golden

FRAMES = golden_frames(Path(__file__).parent)
WHOLE = [frame[4:] for frame in FRAMES]
SHORTEST = sorted(FRAMES, key=len)[:2]


def by_decoder(chunks: Iterable[bytes]) -> list[bytes]:
    """As a broker's connection to a name server reads."""
    decoder = FrameDecoder()
    return [bytes(frame) for chunk in chunks for frame in decoder.feed(chunk)]


def by_server(chunks: Iterable[bytes]) -> list[bytes]:
    """As a server reads; its shared buffer is smaller than most commands."""
    receiver = FrameReceiver(memoryview(bytearray(96)), Budget(1 << 20), 1 << 20)
    frames: list[bytes] = []
    for chunk in chunks:
        at = 0
        while at < len(chunk):
            room = receiver.writable()
            count = min(len(room), len(chunk) - at)
            room[:count] = chunk[at : at + count]
            receiver.received(count)
            frames += [whole(command_at(receiver.view, *places)) for places in receiver.frames()]
            receiver.settle()
            at += count
    return frames


def whole(raw: RawCommand) -> bytes:
    """The frame that a command was, without its length."""
    word = raw.serialize_type << 24 | len(raw.header)
    return word.to_bytes(4, "big") + bytes(raw.header) + bytes(raw.body)


def by_client(chunks: Iterable[bytes]) -> list[bytes]:
    """As a blocking client reads."""
    waiting = [chunk for chunk in chunks if chunk]

    def receive_into(room: memoryview) -> int:
        if not waiting:
            return 0
        piece, rest = waiting[0][: len(room)], waiting[0][len(room) :]
        waiting[:1] = [rest] if rest else []
        room[: len(piece)] = piece
        return len(piece)

    reader = FrameReader(receive_into)
    return [bytes(frame) for frame in iter(reader.read, None)]


def cut(stream: bytes, places: Sequence[int]) -> list[bytes]:
    return [stream[start:end] for start, end in pairwise([0, *places, len(stream)])]


def splits() -> Iterator[tuple[list[bytes], list[bytes]]]:
    """Chunks, and the commands in them."""
    for one, other in product(FRAMES, repeat=2):  # every pair in one stream, cut once anywhere
        for place in range(len(one) + len(other) + 1):
            yield cut(one + other, [place]), [one[4:], other[4:]]
    stream = b"".join(FRAMES)
    for place in range(len(stream) + 1):  # all in one stream, cut once anywhere
        yield cut(stream, [place]), WHOLE
    for size in range(1, len(stream) + 1):  # all in one stream, in pieces of every size
        yield cut(stream, range(size, len(stream), size)), WHOLE
    for frame in SHORTEST:  # cut twice anywhere
        for places in combinations(range(1, len(frame)), 2):
            yield cut(frame, places), [frame[4:]]


@pytest.mark.parametrize("read", [by_decoder, by_server, by_client])
def test_every_split_gives_the_same_commands(read: Callable[[Iterable[bytes]], list[bytes]]) -> None:
    """No way of cutting or joining what clients send loses, tears or repeats a command."""
    count = 0
    for chunks, commands in splits():
        assert read(chunks) == commands, chunks
        count += 1
    assert count > 40_000
