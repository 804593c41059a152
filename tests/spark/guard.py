"""A guard before a server: lets through what is signed, and answers the rest as RocketMQ does. Real sockets."""

from __future__ import annotations

import hmac
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.commands.command import MAX_RESPONSE_HEADER_BYTES, Command, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.signature import signature

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from rmqspark.protocol.commands.command import Buffer

USER, PASSWORD = "billing", "5ecret-of-the-user"
_CHUNK_BYTES = 1 << 16
_PATIENCE_S = 60


class Guard:
    """Listens at `listen` and speaks to `target` while entered. `let_in` and `refused` have the codes of requests."""

    def __init__(self, listen: tuple[str, int], target: tuple[str, int]) -> None:
        self.let_in: set[int] = set()
        self.refused: set[int] = set()
        self._target = target
        self._listener = socket.create_server(listen)
        self._sockets: list[socket.socket] = []
        self._pumps: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._server = threading.Thread(target=self._serve, name="guard", daemon=True)
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in (self._server, *self._pumps):
            thread.join(_PATIENCE_S)
        for each in (self._listener, *self._sockets):
            each.close()

    def _serve(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target, _PATIENCE_S)
                server.settimeout(None)
                self._sockets += (client, server)
                self._pumps += _Line(self, client, server).started()

    def story(self, command: Command, body: Buffer) -> str:
        """Why it is refused, in RocketMQ's words; "" where it is not."""
        if command.is_response:
            return ""
        said = command.fields
        right = signature(said, body, PASSWORD)
        if "AccessKey" not in said:
            story = "username cannot be null."
        elif said["AccessKey"] != USER:
            story = f"User:{said['AccessKey']} is not found."
        else:
            story = "" if hmac.compare_digest(said["Signature"], right) else "check signature failed."
        (self.refused if story else self.let_in).add(command.code)
        return story


class _Line:
    """One connection through the guard. Frame by frame, so that an answer of its own falls between two."""

    def __init__(self, guard: Guard, client: socket.socket, server: socket.socket) -> None:
        self._guard = guard
        self._client, self._server = client, server
        self._to_client = threading.Lock()

    def started(self) -> list[threading.Thread]:
        ways = (self._requests, self._answers)
        pumps = [threading.Thread(target=way, name="guard line", daemon=True) for way in ways]
        for pump in pumps:
            pump.start()
        return pumps

    def _requests(self) -> None:
        self._pump(self._client, self._server, self._check)

    def _answers(self) -> None:
        self._pump(self._server, self._client, self._answer)

    def _check(self, frame: memoryview) -> None:
        raw = split_frame(frame, max_header_bytes=MAX_RESPONSE_HEADER_BYTES)
        command = decode_command(raw)
        story = self._guard.story(command, raw.body)
        if not story:
            _send(self._server, frame)
        elif not command.is_oneway:
            with self._to_client:
                self._client.sendall(
                    b"".join(encode_response(command.opaque, ResponseCode.NO_PERMISSION, remark=story))
                )

    def _answer(self, frame: memoryview) -> None:
        with self._to_client:
            _send(self._client, frame)

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket, take: Callable[[memoryview], None]) -> None:
        frames = FrameDecoder()
        with suppress(OSError):
            while chunk := source.recv(_CHUNK_BYTES):
                for frame in frames.feed(chunk):
                    take(frame)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _send(target: socket.socket, frame: memoryview) -> None:
    target.sendall(len(frame).to_bytes(4, "big"))
    target.sendall(frame)
