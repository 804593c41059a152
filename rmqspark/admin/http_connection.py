"""One client of REST and console: what it may take of memory, of time, and of the places that there are.

uvicorn's own has no time in which a header or a body must have come, none for a client that does not take its answer,
and counts a connection only when it asks; the faster of its two parsers takes a header of any length. So whoever
reaches the port could fill the memory, or take all places, with no token at all (security: S8, S11).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MOST_CONNECTIONS: Final = 1_000
MOST_OF_AN_ADDRESS: Final = MOST_CONNECTIONS // 2  # a proxy in front is one, too
MOST_HEADER_BYTES: Final = 64 * 1024
_NO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%b"
)


class Phase(Enum):
    """What a connection is waited for, if anything."""

    HEAD = auto()
    BODY = auto()
    NOTHING = auto()
    """It is answered, or has asked nothing yet again: uvicorn itself closes those that are idle."""


class HttpConnection(H11Protocol):
    """A connection that is closed where its client takes too long, or where there are too many."""

    allowed_s: ClassVar = {Phase.HEAD: 10.0, Phase.BODY: 30.0}
    unread_s: ClassVar = 30.0
    """A client that has taken nothing of its answer for so long has gone."""

    _phase = Phase.NOTHING
    _is_refused = False  # what it sends is no HTTP, or too long: told, and whatever comes behind it is let go
    _too_late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS or self._from_here() > MOST_OF_AN_ADDRESS:
            transport.abort()
        else:
            self._wait_for(Phase.HEAD)

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            super().data_received(data)
            self._look()

    def send_400_response(self, msg: str) -> None:
        """Without closing at once, as uvicorn does: with bytes unread that is a reset, which takes the answer along."""
        self._is_refused = True
        self.transport.write(_NO_HTTP % (len(msg), msg.encode("ascii")))
        self.transport.write_eof()
        self._wait_for(Phase.HEAD)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()
        self._see_off()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._see_off()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop(self._unread)
        self._see_off()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._too_late)
        self._stop(self._unread)
        super().connection_lost(exc)

    def _from_here(self) -> int:
        host = self.client and self.client[0]
        others = (getattr(each, "client", None) for each in self.connections)
        return sum(1 for client in others if client and client[0] == host)

    def _look(self) -> None:
        state = self.conn.their_state
        if self._is_refused or (state is h11.IDLE and self._phase is Phase.HEAD):
            return
        if state is h11.SEND_BODY:
            phase = Phase.BODY
        else:
            phase = Phase.HEAD if state is h11.IDLE and self.conn.trailing_data[0] else Phase.NOTHING
        if phase is not self._phase:
            self._wait_for(phase)

    def _wait_for(self, phase: Phase) -> None:
        self._stop(self._too_late)
        self._phase = phase
        if phase is not Phase.NOTHING:
            self._too_late = self.loop.call_later(self.allowed_s[phase], self.transport.abort)

    def _see_off(self) -> None:
        """A connection that is closed has its place until its client has taken what is left, however little."""
        if self.transport.is_closing():
            self._expect_taking()

    def _expect_taking(self) -> None:
        self._stop(self._unread)
        left = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.unread_s, self._look_what_is_taken, left)

    def _look_what_is_taken(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._expect_taking()
        else:
            self.transport.abort()

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()
