"""Bad bytes for a server that runs, over real sockets.

A connection gets a few frames in one go, then the end of the stream. The server must take it from there: answer what
it can, and close. What it answers must be commands.
"""

from __future__ import annotations

import socket
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import MAX_RESPONSE_HEADER_BYTES, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.remoting.address import parse_address
from rmqspark.testing.fuzz.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqspark.protocol.commands.command import Command

FRAMES: Final = 25
"""At most so many on one connection. They follow from the seed and the number of the connection."""
PATIENCE_S: Final = 60
_CHUNK_BYTES: Final = 1 << 20


class Stuck(AssertionError):
    """A server neither answered nor closed, or answered something that is no command."""


def run_attack(
    address: str, role: str, codes: Sequence[int], seeds: Sequence[bytes], *, seed: int, connections: Iterable[int]
) -> Counter[str]:
    """Sends the frames of these connections, one connection after the other; says how many were answered how.

    Raises Stuck with what to repeat.
    """
    counts: Counter[str] = Counter()
    for number in connections:
        requests = Requests(Random(f"{seed}/{role}/{number}"), codes, seeds=seeds)
        frames = _until_unreadable(requests)
        counts["frames"] += len(frames)
        counts["bytes"] += sum(map(len, frames))
        try:
            answers = converse(address, b"".join(frames))
        except (TimeoutError, ValueError) as error:
            raise Stuck(
                f"{type(error).__name__} at {role}: {error}; repeat with: "
                f"python -m rmqspark.testing.fuzz servers --seed {seed} --connection {number}"
            ) from error
        counts.update("answered" if answer.code != ResponseCode.SUCCESS else "succeeded" for answer in answers)
    return counts


def _until_unreadable(requests: Requests) -> list[bytes]:
    """Frames up to one behind which the server will read nothing."""
    frames: list[bytes] = []
    readable = True
    while readable and len(frames) < FRAMES:
        wire, readable = requests.next()
        frames.append(wire)
    return frames


def converse(address: str, data: bytes) -> list[Command]:
    """Sends bytes and the end of the stream; the commands that come back until the server closes too.

    Raises TimeoutError if it does not, and a DecodeError (a ValueError here) for what is no command.
    """
    with socket.create_connection(parse_address(address), PATIENCE_S) as connected:
        received = b""
        try:
            connected.sendall(data)
            connected.shutdown(socket.SHUT_WR)
            while chunk := connected.recv(_CHUNK_BYTES):
                received += chunk
        except (ConnectionResetError, BrokenPipeError):  # it closed with something of ours unread
            pass
    return _commands(received)


def first_answer(address: str, data: bytes) -> list[Command]:
    """Sends bytes and waits, the stream open, for the first command that comes back: what takes several turns of the
    server's loop is not answered to whoever has ended it. Empty if the server closes instead; raises TimeoutError."""
    with socket.create_connection(parse_address(address), PATIENCE_S) as connected:
        received = b""
        connected.sendall(data)
        while chunk := connected.recv(_CHUNK_BYTES):
            received += chunk
            if commands := _commands(received):
                return commands
    return []


def served_codes(address: str) -> list[int]:
    """The requests that a server serves, found by asking for each."""
    return [int(code) for code in RequestCode if _serves(address, code)]


def _serves(address: str, code: int) -> bool:
    request = b"".join(encode_request(code, 1))
    answers = converse(address, request) or first_answer(address, request)
    return bool(answers) and answers[0].code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def _commands(data: bytes) -> list[Command]:
    frames = FrameDecoder().feed(data)
    return [decode_command(split_frame(frame, max_header_bytes=MAX_RESPONSE_HEADER_BYTES)) for frame in frames]
