"""The client's connection: blocking, shared by threads, pipelined.

Any thread sends; one lock keeps the bytes of a command together, encrypted or not. One reader thread per connection
takes the answers and hands each to the future that waits under its opaque. Nothing here imports asyncio, starts at
import, or survives a fork: a child process finds the connection closed and opens its own.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from rmqspark.clock import Clock, SystemClock
from rmqspark.errors import (
    ConnectionLost,
    NotSupported,
    RequestTimeout,
    RmqError,
    ServerFault,
    Unreachable,
)
from rmqspark.pacing import LARGE_BYTES, stop_pacing
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.commands.command import (
    MAX_RESPONSE_HEADER_BYTES,
    Command,
    decode_command,
    encode_request,
    encode_response,
    split_frame,
)
from rmqspark.protocol.faults import to_response
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.address import no_host_name, parse_address
from rmqspark.remoting.frame_reader import FrameReader
from rmqspark.remoting.frame_writer import FrameWriter
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.response import Response
from rmqspark.remoting.signing import signer_of
from rmqspark.remoting.unanswered import unanswered

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

    from rmqspark.protocol.commands.command import RawCommand
    from rmqspark.remoting.access import Access, Tls, TlsNames
    from rmqspark.remoting.reply import Body, Buffer
    from rmqspark.remoting.tls.channel import TlsWriter
    from rmqspark.remoting.tls.session import TlsSession

Answer: TypeAlias = "Reply | Future[Reply] | None"
OnRequest: TypeAlias = Callable[[Command, memoryview], Answer]
"""Handles a request of the server; its Reply is sent, a Future's when that is done, unless the request is oneway. Runs
in the reader thread."""

_MAX_OPAQUE = 0x7FFFFFFF
_UNASKED_TIMEOUT_MS = 3_000  # for the server to take what it does not answer: RocketMQ's timeout of a oneway send
_LOOK_UP_INTERVAL_S = 1  # how often the reader looks for timeouts when nothing comes
_REST_AFTER_LOOKS = 10
_LOOK_MS = 1_000  # between two looks for requests whose time is over
_TIMEVAL = struct.Struct("ll")

log = logging.getLogger("rmqspark.remoting")


class _Waiting(NamedTuple):
    future: Future[Response]
    code: int
    timeout_ms: int
    deadline_ms: int


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
        self._on_request = on_request
        self._pid = os.getpid()
        self._opaques = itertools.count(1)
        self._send_lock = threading.Lock()
        self._state_lock = threading.Lock()  # guards the two below
        self._waiting: dict[int, _Waiting] = {}
        self._lost: str | None = None  # why, in words
        self._going_away = False  # the server has said that it shuts down
        self._answered = False  # by anything at all
        self._looks_without_bytes = 0
        self._look_again_ms = 0
        self._has_sent_large = False
        deadline_ms = self._clock.monotonic_ms() + connect_timeout_ms
        session = None if access.tls is None else _session(address, access.tls)
        self._socket = _connect(address, connect_timeout_ms)
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
        return self._lost is not None or self._going_away or self._pid != os.getpid()

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

        Raises RequestTimeout or ConnectionLost: either way the request may or may not have been carried out.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        opaque, future = self._submit(code, header, body, timeout_ms, extra)
        try:
            return future.result(self._left_s(deadline_ms))
        except TimeoutError:
            self._give_up(opaque)
            raise self._timed_out(code, timeout_ms) from None

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
            raise self._timed_out(code, _UNASKED_TIMEOUT_MS)

    def close(self) -> None:
        """Ends the connection; what still waits gets ConnectionLost. Closing twice is no mistake."""
        if self._pid != os.getpid():
            self._socket.close()  # only our copy: the parent's connection lives on
            return
        self._part()
        self._end(f"The connection to {self.address} was closed.")
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
        if self._encrypting is not None and self._lost is None and self._send_lock.acquire(blocking=False):
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
        future: Future[Response] = Future()
        future.set_running_or_notify_cancel()  # what was sent cannot be cancelled
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        with self._state_lock:
            if self._lost is None:
                self._waiting[opaque] = _Waiting(future, code, timeout_ms, deadline_ms)
        if not self._send(buffers, deadline_ms):
            self._give_up(opaque)
            raise self._timed_out(code, timeout_ms)
        return opaque, future

    def _send(self, buffers: list[Buffer], deadline_ms: int) -> bool:
        """False if others were before it, or the server did not take it, until its time was over."""
        if not (self._send_lock.acquire(blocking=False) or self._send_lock.acquire(timeout=self._left_s(deadline_ms))):
            return False
        try:
            if self._lost is not None:
                raise ConnectionLost(self._lost, address=self.address)
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
            raise ConnectionLost(self._end(self._broken(error)), address=self.address) from error
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

    def _take_first(self) -> None:
        """It shows that the server speaks to us at all; for that, no other is looked at."""
        frame = self._reader.read()
        if frame is None:
            raise ConnectionResetError
        self._answered = True
        self._take(split_frame(frame, max_header_bytes=MAX_RESPONSE_HEADER_BYTES))

    def _receive_into(self, buffer: memoryview) -> int:
        while True:
            try:
                count = self._receive(buffer)
            except BlockingIOError:  # nothing for a second
                self._look_for_timeouts()
                self._looks_without_bytes += 1
                if self._looks_without_bytes == _REST_AFTER_LOOKS:
                    self._reader.rest()
                continue
            self._looks_without_bytes = 0
            if self._clock.monotonic_ms() >= self._look_again_ms:  # answers to others keep no request waiting
                self._look_for_timeouts()
            return count

    def _take(self, raw: RawCommand) -> None:
        command = decode_command(raw)
        if not command.is_response:
            self._serve(command, raw.body)
            return
        if command.code == ResponseCode.GO_AWAY:
            self._going_away = True
        with self._state_lock:
            waiting = self._waiting.pop(command.opaque, None)
        if waiting is not None:
            waiting.future.set_result(Response.of(command, raw.body))

    def _serve(self, command: Command, body: memoryview) -> None:
        on_request = self._on_request or _not_supported
        answer = self._told(command, lambda: on_request(command, body))
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
        response = encode_response(command.opaque, code, header, content, remark=remark, extra=extra)
        self._send(response, self._clock.monotonic_ms() + _UNASKED_TIMEOUT_MS)

    def _told(self, command: Command, handle: Callable[[], Answer]) -> Answer:
        try:
            return handle()
        except RmqError as error:
            code, remark = to_response(error)
        except Exception as error:  # a user's code: logged and answered, for it must not end our connection
            log.exception("a request of %s could not be handled: %s", self.address, command)
            code, remark = to_response(ServerFault(f"{type(error).__name__}: {error}"))
        return Reply(code=code, remark=remark)

    def _look_for_timeouts(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._look_again_ms = now_ms + _LOOK_MS
        with self._state_lock:
            late = [opaque for opaque, waiting in self._waiting.items() if waiting.deadline_ms < now_ms]
            overdue = [self._waiting.pop(opaque) for opaque in late]
        for waiting in overdue:
            waiting.future.set_exception(self._timed_out(waiting.code, waiting.timeout_ms))

    # --- ending ------------------------------------------------------------------------------------------------------

    def _end(self, reason: str) -> str:
        """Marks the connection lost and fails what waits; only the first reason counts, which it returns."""
        with self._state_lock:
            self._lost = lost = self._lost or reason
            orphans, self._waiting = list(self._waiting.values()), {}
        with contextlib.suppress(OSError):  # it may not be connected any more
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader, and a sender that is stuck
        for waiting in orphans:
            waiting.future.set_exception(ConnectionLost(lost, address=self.address))
        return lost

    def _give_up(self, opaque: int) -> None:
        with self._state_lock:
            self._waiting.pop(opaque, None)

    def _broken(self, cause: Exception | None) -> str:
        if not self._answered and isinstance(cause, (ConnectionResetError, BrokenPipeError)):
            return f"The connection to {self.address} was lost: {unanswered(self._access.tls)}."
        detail = f": {cause}" if cause is not None and str(cause) else ""
        return f"The connection to {self.address} was lost{detail}."

    def _timed_out(self, code: int, timeout_ms: int) -> RequestTimeout:
        return RequestTimeout(f"{self.address} did not answer request {int(code)} within {timeout_ms} ms.")


def _not_supported(command: Command, _: memoryview) -> Answer:
    raise NotSupported(f"request type {command.code} not supported")


def _session(address: str, tls: Tls) -> TlsSession:
    from rmqspark.remoting.tls.channel import client_session  # only now: most can do without OpenSSL

    return client_session(address, tls)


def _connect(address: str, timeout_ms: int) -> socket.socket:
    host, port = parse_address(address)
    try:
        # Encoded here, since Python would load its tables of international names for any text at all.
        encoded = host.encode("ascii" if host.isascii() else "idna")
        connected = socket.create_connection((encoded, port), timeout_ms / 1000)  # type: ignore[arg-type]
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unreachable(f"Nothing answers at {address}: {reason}.", address=address) from error
    except UnicodeError as error:
        raise no_host_name(host, address) from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # The system's own timeout, since Python's would make every call poll first; the writer sets that of sending.
    connected.settimeout(None)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(_LOOK_UP_INTERVAL_S, 0))
    return connected
