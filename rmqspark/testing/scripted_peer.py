"""A server that does exactly what a test tells it: a thread with a real socket, following a script of frames.

    with ScriptedPeer([expect(RequestCode.GET_MAX_OFFSET), answer(offset="42"), cut()]) as peer:
        connection = BlockingConnection(peer.address)
        ...
    assert peer.requests[0].fields["topic"] == "orders"

One script per connection, in the order in which connections come. A step that meets something else than it expects
fails the test when the `with` block ends; so does a script that has not come to its end by then.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from rmqspark.protocol.commands.command import Command, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request, encode_response
from rmqspark.protocol.commands.frame import FrameDecoder

if TYPE_CHECKING:
    from types import TracebackType

    from rmqspark.protocol.commands.command import Buffer

_PATIENCE_S = 60


class PeerRequest(NamedTuple):
    """A command the peer received."""

    command: Command
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        return self.command.fields


class Conversation:
    """One connection of the peer while its script runs."""

    def __init__(self, connected: socket.socket, received: list[PeerRequest]) -> None:
        self.socket = connected
        self.received = received
        self._frames = FrameDecoder()
        self._ready: list[PeerRequest] = []

    def read(self) -> PeerRequest:
        """The next command from the client."""
        while not self._ready:
            chunk = self.socket.recv(1 << 20)
            assert chunk, "the client closed the connection, but the script expects a command"
            for frame in self._frames.feed(chunk):
                raw = split_frame(frame)
                self._ready.append(PeerRequest(decode_command(raw), bytes(raw.body)))
        request = self._ready.pop(0)
        self.received.append(request)
        return request

    def write(self, buffers: Sequence[Buffer]) -> None:
        self.socket.sendall(b"".join(buffers))


Step: TypeAlias = Callable[[Conversation], None]


def expect(code: int, *, oneway: bool = False) -> Step:
    """Reads one command, which must be a request with this code."""

    def step(conversation: Conversation) -> None:
        command = conversation.read().command
        assert command.code == code, f"expected request {int(code)}, got {command.code}"
        assert not command.is_response, f"expected request {int(code)}, got an answer"
        assert command.is_oneway == oneway, f"request {int(code)}: oneway is {command.is_oneway}"

    return step


def expect_answer(code: int = 0) -> Step:
    """Reads one command, which must be a response with this code."""

    def step(conversation: Conversation) -> None:
        command = conversation.read().command
        assert command.is_response, f"expected an answer, got request {command.code}"
        assert command.code == code, f"expected an answer with code {code}, got {command.code}"

    return step


def answer(code: int = 0, body: bytes = b"", *, to: int = -1, remark: str | None = None, **fields: str) -> Step:
    """Answers a request read before, by default the last one; `to` counts them from 0."""

    def step(conversation: Conversation) -> None:
        opaque = conversation.received[to].command.opaque
        conversation.write(encode_response(opaque, code, body=body, remark=remark, extra=fields))

    return step


def ask(code: int, body: bytes = b"", *, opaque: int = 1, oneway: bool = False, **fields: str) -> Step:
    """Sends a request of the server's own."""

    def step(conversation: Conversation) -> None:
        conversation.write(encode_request(code, opaque, body=body, oneway=oneway, extra=fields))

    return step


def send_bytes(data: bytes) -> Step:
    """Sends bytes as they are: garbage, half a frame, several frames at once."""
    return lambda conversation: conversation.socket.sendall(data)


def wait_for(event: threading.Event) -> Step:
    """Goes on when the test says so."""

    def step(conversation: Conversation) -> None:
        assert event.wait(_PATIENCE_S), "the test never let the script go on"

    return step


def wait_for_close() -> Step:
    """Goes on when the client has closed the connection."""

    def step(conversation: Conversation) -> None:
        try:
            while conversation.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            return

    return step


def cut() -> Step:
    """Resets the connection, as a crash or a cable would; what was sent before may be lost."""

    def step(conversation: Conversation) -> None:
        conversation.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conversation.socket.close()

    return step


class ScriptedPeer:
    """Listens on a free port while its `with` block runs. Connections beyond the last script are not accepted."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self.requests: list[PeerRequest] = []
        """All commands received, over all connections."""
        self._scripts = scripts
        self._failure: BaseException | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_PATIENCE_S)
        self._thread = threading.Thread(target=self._serve, name="scripted peer", daemon=True)

    @property
    def address(self) -> str:
        host, port = self._listener.getsockname()
        return f"{host}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.join(_PATIENCE_S)
        self._listener.close()
        if error is None:
            if self._failure is not None:
                raise self._failure
            assert not self._thread.is_alive(), "the script has not come to its end"

    def _serve(self) -> None:
        try:
            for script in self._scripts:
                connected, _ = self._listener.accept()
                with connected:
                    connected.settimeout(_PATIENCE_S)
                    conversation = Conversation(connected, self.requests)
                    for step in script:
                        step(conversation)
        except BaseException as failure:  # noqa: BLE001 - a failed assert too: raised on the test's own thread
            self._failure = failure
