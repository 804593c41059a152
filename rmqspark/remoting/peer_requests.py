"""What the server asks of us on a blocking connection: handled as it comes, answered then or later."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

from rmqspark.errors import NotSupported, RmqError, ServerFault
from rmqspark.protocol.commands.command import Command
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.commands.file_region import in_memory
from rmqspark.protocol.faults import to_response
from rmqspark.remoting.reply import Reply

if TYPE_CHECKING:
    from rmqspark.remoting.reply import Buffer

Answer: TypeAlias = "Reply | Future[Reply] | None"
OnRequest: TypeAlias = Callable[[Command, memoryview], Answer]
"""Handles a request of the server; its Reply is sent, a Future's when that is done, unless the request is oneway. Runs
in the reader thread."""

log = logging.getLogger("rmqspark.remoting")


class PeerRequests:
    """Without `on_request` all are answered as not supported. `send` takes an encoded answer, from any thread."""

    def __init__(self, address: str, on_request: OnRequest | None, send: Callable[[list[Buffer]], object]) -> None:
        self._address = address
        self._on_request = on_request or _not_supported
        self._send = send

    def serve(self, command: Command, body: memoryview) -> None:
        """Raises what `send` does; errors of the handler are the answer."""
        answer = self._told(command, lambda: self._on_request(command, body))
        if isinstance(answer, Future):
            answer.add_done_callback(lambda later: self._serve_later(command, later))
        elif answer is not None and not command.is_oneway:
            self._answer(command, answer)

    def _serve_later(self, command: Command, later: Future[Reply]) -> None:
        """On whichever thread has found the answer."""
        answer = self._told(command, later.result)
        if isinstance(answer, Reply) and not command.is_oneway:
            with contextlib.suppress(RmqError):  # whoever asked has gone
                self._answer(command, answer)

    def _answer(self, command: Command, reply: Reply) -> None:
        header, content, code, remark, extra = reply
        self._send(in_memory(encode_response(command.opaque, code, header, content, remark=remark, extra=extra)))

    def _told(self, command: Command, handle: Callable[[], Answer]) -> Answer:
        try:
            return handle()
        except RmqError as error:
            code, remark = to_response(error)
        except Exception as error:  # a user's code: logged and answered, for it must not end our connection
            log.exception("a request of %s could not be handled: %s", self._address, command)
            code, remark = to_response(ServerFault(f"{type(error).__name__}: {error}"))
        return Reply(code=code, remark=remark)


def _not_supported(command: Command, _: memoryview) -> Answer:
    raise NotSupported(f"request type {command.code} not supported")
