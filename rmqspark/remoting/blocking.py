"""The client's connection: blocking, shared by threads, pipelined.

Any thread sends; one lock keeps the bytes of a command together, encrypted or not. One reader thread per connection
takes the answers and hands each to the future that waits under its opaque. Nothing here imports asyncio, starts at
import, or survives a fork: a child process finds the connection closed and opens its own.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import weakref
from typing import TYPE_CHECKING

from rmqspark.clock import Clock, SystemClock
from rmqspark.errors import ConnectionLost, RmqError
from rmqspark.pacing import LARGE_BYTES, stop_pacing
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.commands.command import MAX_RESPONSE_HEADER_BYTES, decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.awaited import AwaitedAnswers, Loss
from rmqspark.remoting.dial import dial
from rmqspark.remoting.frame_reader import FrameReader
from rmqspark.remoting.frame_writer import FrameWriter
from rmqspark.remoting.peer_requests import PeerRequests
from rmqspark.remoting.response import Response
from rmqspark.remoting.signing import signer_of
from rmqspark.remoting.unanswered import remedy, remedy_for, timed_out, unanswered, waits_for_itself

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    import msgspec

    from rmqspark.protocol.commands.command import RawCommand
    from rmqspark.remoting.access import Access, Tls, TlsNames
    from rmqspark.remoting.peer_requests import OnRequest
    from rmqspark.remoting.reply import Body, Buffer
    from rmqspark.remoting.tls.channel import TlsWriter
    from rmqspark.remoting.tls.session import TlsSession

_MAX_OPAQUE = 0x7FFFFFFF
_UNASKED_TIMEOUT_MS = 3_000  # for the server to take what it does not answer: RocketMQ's timeout of a oneway send
_REST_AFTER_LOOKS = 10  # without a byte, a second each
_LOOK_MS = 1_000  # between two looks for requests whose time is over
_SILENT_LOOKS = 10
"""Without a byte, when a request was given up: what is between may have forgotten the connection, and the system would
go on for a quarter of an hour. RocketMQ's clients leave it at the first request that has no answer in time."""

_made: weakref.WeakSet[BlockingConnection] = weakref.WeakSet()


class BlockingConnection:
    """A connection to one server, open from construction until `close` or its loss.

    Raises Unreachable, naming the address, if nobody answers there; with `access.tls` also HandshakeFailed, and
    InvalidArgument for files that cannot be used. All methods may be called from any thread;
    callbacks of futures and `on_request` run in the reader thread and must not wait for this connection themselves.
    Without `on_request` the server's requests are answered as not supported.
    """

    def __init__(
        self,
        address: str,
        *,
        connect_timeout_ms: int = 3_000,
        on_request: OnRequest | None = None,
        access: Access = OPEN,
        clock: Clock | None = None,
    ) -> None:
        self.address = address
        self._access = access
        self._sign = signer_of(access)
        self._clock = clock or SystemClock()
        self._peer_requests = PeerRequests(address, on_request, self._answer)
        self._pid = os.getpid()
        self._opaques = itertools.count(1)
        self._send_lock = threading.Lock()
        self._awaited = AwaitedAnswers(address)
        self._going_away = False  # the server has said that it shuts down
        self._answered = False  # by anything at all
        self._looks_without_bytes = 0
        self._look_again_ms = 0
        self._has_sent_large = False
        deadline_ms = self._clock.monotonic_ms() + connect_timeout_ms
        session = None if access.tls is None else _session(address, access.tls)
        self._socket = dial(address, connect_timeout_ms)
        _made.add(self)
        self._receive: Callable[[memoryview], int] = self._socket.recv_into
        self._writer: FrameWriter | TlsWriter = FrameWriter(self._socket, self._clock)
        self._encrypting: TlsWriter | None = None
        if session is not None and access.tls is not None:
            self._encrypt(session, deadline_ms, access.tls.names)
        self._reader = FrameReader(self._receive_into)
        self._thread = threading.Thread(target=self._read_all, name=f"rmqspark reader of {address}", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """True if the next request wants another connection: this one was closed, lost, told to go away by a server
        that shuts down, or opened by the process from which this one was forked."""
        return self._awaited.lost is not None or self._going_away or self._pid != os.getpid()

    def call(
        self,
        code: int,
        header: msgspec.Struct | None = None,
        body: Body = b"",
        *,
        timeout_ms: int,
        extra: Mapping[str, str] | None = None,
    ) -> Response:
        """Sends a request and waits for its answer, whatever its code. `extra` are fields beside those of the header.

        Raises RequestTimeout or ConnectionLost: either way the request may or may not have been carried out. Conflict
        in a callback that the reader thread runs, with nothing sent: it would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise waits_for_itself()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        opaque, future = self._submit(code, header, body, timeout_ms, extra)
        try:
            return future.result(self._left_s(deadline_ms))
        except TimeoutError:
            self._awaited.give_up(opaque)
            raise timed_out(self.address, code, timeout_ms) from None

    def submit(
        self,
        code: int,
        header: msgspec.Struct | None = None,
        body: Body = b"",
        *,
        timeout_ms: int,
        extra: Mapping[str, str] | None = None,
    ) -> Future[Response]:
        """Sends a request and returns at once; the future gets the answer, or an error as in `call`.

        A timeout is noticed up to a second late. Where the server has stopped taking what it is sent, this waits for
        it as long as for the answer, and raises RequestTimeout.
        """
        return self._submit(code, header, body, timeout_ms, extra)[1]

    def send_oneway(self, code: int, header: msgspec.Struct | None = None, body: Body = b"") -> None:
        """Sends a request that nobody answers. Raises ConnectionLost if it cannot be handed to the system, and
        RequestTimeout if not within 3 s."""
        self._check_process()
        request = encode_request(code, self._next_opaque(), header, body, oneway=True, sign=self._sign)
        if not self._send(request, self._clock.monotonic_ms() + _UNASKED_TIMEOUT_MS):
            raise timed_out(self.address, code, _UNASKED_TIMEOUT_MS)

    def close(self) -> None:
        """Ends the connection; what still waits gets ConnectionLost. Closing twice is no mistake."""
        if self._pid != os.getpid():
            self._socket.close()  # only our copy: the parent's connection lives on
            return
        self._part()
        self._end(Loss(f"The connection to {self.address} was closed."))
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # --- TLS ---------------------------------------------------------------------------------------------------------

    def _encrypt(self, session: TlsSession, deadline_ms: int, names: TlsNames) -> None:
        from rmqspark.remoting.tls.channel import TlsWriter, open_channel

        try:
            channel = open_channel(self._socket, self.address, session, deadline_ms, self._clock, names)
        except BaseException:
            self._socket.close()
            raise
        self._receive = channel.recv_into
        self._writer = self._encrypting = TlsWriter(FrameWriter(self._socket, self._clock), channel)

    def _part(self) -> None:
        """The other side of an encrypted connection is told that it ends here, unless something is being sent."""
        if self._encrypting is not None and self._awaited.lost is None and self._send_lock.acquire(blocking=False):
            try:
                self._encrypting.part()
            finally:
                self._send_lock.release()

    # --- sending -----------------------------------------------------------------------------------------------------

    def _submit(
        self, code: int, header: msgspec.Struct | None, body: Body, timeout_ms: int, extra: Mapping[str, str] | None
    ) -> tuple[int, Future[Response]]:
        self._check_process()
        opaque = self._next_opaque()
        buffers = encode_request(code, opaque, header, body, extra=extra, sign=self._sign)
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        future = self._awaited.begin(opaque, code, timeout_ms, deadline_ms)
        if not self._send(buffers, deadline_ms):
            self._awaited.give_up(opaque)
            raise timed_out(self.address, code, timeout_ms)
        return opaque, future

    def _send(self, buffers: list[Buffer], deadline_ms: int) -> bool:
        """False if others were before it, or the server did not take it, until its time was over."""
        if not (self._send_lock.acquire(blocking=False) or self._send_lock.acquire(timeout=self._left_s(deadline_ms))):
            return False
        try:
            if self._awaited.lost is not None:
                raise self._awaited.lost.error(self.address)
            return self._write(buffers, deadline_ms)
        finally:
            self._send_lock.release()

    def _write(self, buffers: list[Buffer], deadline_ms: int) -> bool:
        if not self._has_sent_large and sum(map(len, buffers)) >= LARGE_BYTES:
            self._has_sent_large = True
            stop_pacing(self._socket)
        try:
            return self._writer.write(buffers, deadline_ms)
        except OSError as error:  # part of the command may be out: nothing can follow it
            raise self._end(self._broken(error)).error(self.address) from error
        except BaseException:  # Ctrl-C above all: the same, and it rises
            self._end(self._broken(None))
            raise

    def _left_s(self, deadline_ms: int) -> float:
        return max(deadline_ms - self._clock.monotonic_ms(), 0) / 1000

    def _check_process(self) -> None:
        """A fork copies locks as they happen to be: nothing of the parent's connection may be touched."""
        if self._pid != os.getpid():
            raise ConnectionLost(f"The connection to {self.address} is another process's.", address=self.address)

    def _next_opaque(self) -> int:
        return next(self._opaques) & _MAX_OPAQUE

    def _answer(self, response: list[Buffer]) -> None:
        self._send(response, self._clock.monotonic_ms() + _UNASKED_TIMEOUT_MS)

    # --- the reader thread -------------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        cause: Exception | None = None
        try:
            self._take_first()
            while (frame := self._reader.read()) is not None:
                self._take(split_frame(frame, max_header_bytes=MAX_RESPONSE_HEADER_BYTES))
        except (OSError, RmqError) as error:
            cause = error
        finally:
            self._end(self._broken(cause))
            self._socket.close()
            self._reader.close()  # who holds a connection that is lost need not know that it is

    def _take_first(self) -> None:
        """It shows that the server speaks to us at all; for that, no other is looked at."""
        frame = self._reader.read()
        if frame is None:
            raise ConnectionResetError
        self._answered = True
        self._take(split_frame(frame, max_header_bytes=MAX_RESPONSE_HEADER_BYTES))

    def _receive_into(self, buffer: memoryview) -> int:
        """What comes next; before that, now and then, a look for requests whose time is over: answers to others keep
        none waiting. All that have come are taken by then: a process that was stopped finds some that were in time."""
        if self._clock.monotonic_ms() >= self._look_again_ms:
            self._look_for_timeouts()
        while True:
            try:
                count = self._receive(buffer)
            except BlockingIOError:  # nothing for a second
                self._look_for_timeouts()
                self._looks_without_bytes += 1
                if self._looks_without_bytes == _REST_AFTER_LOOKS:
                    self._reader.rest()
                if self._looks_without_bytes >= _SILENT_LOOKS and self._awaited.has_given_up:
                    raise _silent(self._looks_without_bytes) from None
                continue
            self._looks_without_bytes = 0
            self._awaited.has_given_up = False
            return count

    def _take(self, raw: RawCommand) -> None:
        command = decode_command(raw)
        if not command.is_response:
            self._peer_requests.serve(command, raw.body)
            return
        if command.code == ResponseCode.GO_AWAY:
            self._going_away = True
        self._awaited.deliver(Response.of(command, raw.body))

    def _look_for_timeouts(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._look_again_ms = now_ms + _LOOK_MS
        self._awaited.fail_overdue(now_ms)

    # --- ending ------------------------------------------------------------------------------------------------------

    def _end(self, loss: Loss) -> Loss:
        """Marks the connection lost and fails what waits; only the first reason counts, which it returns."""
        orphans = self._awaited.fail(loss)
        with contextlib.suppress(OSError):  # it may not be connected any more
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, and a sender that is stuck
        first = self._awaited.lost or loss
        self._awaited.tell_lost(orphans, first)
        return first

    def _broken(self, cause: Exception | None) -> Loss:
        tls = self._access.tls
        if not self._answered and isinstance(cause, (ConnectionResetError, BrokenPipeError)):
            return Loss(f"The connection to {self.address} was lost: {unanswered(tls)}.", remedy(tls))
        detail = f": {cause}" if cause is not None and str(cause) else ""
        hint = "" if self._answered else remedy_for(cause, tls)
        return Loss(f"The connection to {self.address} was lost{detail}.", hint)


def _silent(looks: int) -> OSError:
    return TimeoutError(f"nothing has come for {looks} s, and a request had no answer")


def _session(address: str, tls: Tls) -> TlsSession:
    from rmqspark.remoting.tls.channel import client_session  # only now: most can do without OpenSSL

    return client_session(address, tls)


def _let_go() -> None:
    """In a process that is forked: also of those that are being made, which nobody has yet. No server would notice its
    parent's death while anybody holds them open."""
    for connection in list(_made):
        connection.close()  # our copy


os.register_at_fork(after_in_child=_let_go)
