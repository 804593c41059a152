"""One client of a RemotingServer: bytes in, handled at once; answers gathered, written once per turn of the loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import structlog

from rmqspark.errors import Busy, DecodeError, GoingAway, RmqError
from rmqspark.protocol.codes import Version
from rmqspark.protocol.commands.command import RawCommand, decode_command
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.records.message_id import pack_ipv4_host
from rmqspark.remoting.address import format_address
from rmqspark.remoting.deadlines import Activity
from rmqspark.remoting.gathered import Gathered
from rmqspark.remoting.outgoing import Outgoing
from rmqspark.remoting.pending import PendingCalls
from rmqspark.remoting.receive import FrameReceiver, command_at, frames_of
from rmqspark.remoting.tls.session import TLS_HANDSHAKE

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    import msgspec

    from rmqspark.remoting.gathered import TakesTogether
    from rmqspark.remoting.host import Host
    from rmqspark.remoting.reply import Body, Buffer, Part
    from rmqspark.remoting.response import Response

_SMALL_BYTES = 64 * 1024  # read at once: more is work enough for a turn

log = structlog.get_logger("rmqspark.remoting")


class ServerConnection(asyncio.BufferedProtocol):
    """The server's end of a connection; implements `host.Guest` and `gathered.Gatherer`."""

    def __init__(self, host: Host, connection_id: int) -> None:
        self.id = connection_id
        self.peer = ("", 0)
        self.ipv4_host: bytes | None = None
        self.encrypted = False
        self.under_way = 0
        self.gathered = False  # has requests that wait for the end of the turn
        self._host = host
        self._turn = host.turn
        self._transport: asyncio.Transport | None = None
        self._receiver = FrameReceiver(host.shared_buffer, host.newcomers, host.limits.max_frame_bytes)
        self._calls = PendingCalls("", host.limits.max_calls_under_way)
        self._outgoing = Outgoing()
        self._flush_due = False
        self._working = False  # in the middle of the frames received
        self._write_paused = False
        self._oneways = 0  # requests that want no answer, handled and not done
        self._oneways_pause = False  # too many of them: nothing more is read until some are done
        self._holds = False  # answers that the client has not taken, when last noted
        self._activity = Activity(host.now)
        self._refused = ""  # why nothing more can be received
        self._shrink_at = 0

    @property
    def address(self) -> str:
        return format_address(*self.peer)

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def idle(self) -> bool:
        """True if nothing is under way and nothing waits to be sent."""
        return self.under_way == 0 and self._oneways == 0 and not self._outgoing and self.unsent_bytes == 0

    @property
    def _pauses(self) -> bool:
        """True while nothing more is read or handled (backpressure)."""
        return self._write_paused or self._oneways_pause

    @property
    def unsent_bytes(self) -> int:
        """Answers written that the client has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # --- what handlers use -------------------------------------------------------------------------------------------

    def send(self, parts: Sequence[Part]) -> None:
        """Queues an encoded command."""
        if self._transport is not None:
            self._outgoing.add_all(parts)
            self._leave_soon()

    def _leave_soon(self) -> None:
        """What is queued is written at the end of this turn, or now where it is much."""
        if self._outgoing.is_much:
            self.flush()
        elif not self._flush_due:
            self._flush_due = True
            self._turn.flush_soon(self)

    def answer(self, responses: Buffer, count: int) -> None:
        """Queues the encoded answers to so many requests that were counted in `under_way`."""
        self.under_way -= count
        if self._transport is not None:
            self._outgoing.add(responses)
            self._leave_soon()

    def begin_oneway(self) -> None:
        self._oneways += 1
        if self._oneways >= self._host.limits.max_requests_under_way and not self._oneways_pause:
            self._oneways_pause = True
            self._stop_reading()

    def end_oneway(self) -> None:
        self._oneways -= 1
        if self._oneways_pause and self._oneways <= self._host.limits.max_requests_under_way // 2:
            self._oneways_pause = False
            asyncio.get_running_loop().call_soon(self._read_on)  # not in the middle of what has ended it

    def send_request_oneway(self, code: int, header: msgspec.Struct | None = None, body: Body = b"") -> None:
        """Sends a request of ours that needs no answer."""
        self.send(encode_request(code, self._calls.next_opaque(), header, body, oneway=True, language="JAVA"))

    async def call(
        self, code: int, header: msgspec.Struct | None = None, body: Body = b"", *, timeout_ms: int
    ) -> Response:
        """Sends a request of ours and waits for the client's answer."""
        return await self._calls.call(
            lambda opaque: self.send(encode_request(code, opaque, header, body, language="JAVA")), code, timeout_ms
        )

    def deliver(self, response: Response) -> None:
        self._calls.deliver(response)

    def close(self, reason: str) -> None:
        """Ends the connection at once, unsent answers with it; also one that was closed gently, and waits for a client
        that takes nothing."""
        if self._transport is None:
            return
        if not self._transport.is_closing():
            self._host.closings.note(self.address, reason)
        self._transport.abort()

    def close_gently(self) -> None:
        """Sends what is queued, then ends the connection."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    # --- called by the transport -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.peer = (str(peer[0]), int(peer[1])) if peer else ("", 0)
        self.ipv4_host = pack_ipv4_host(*self.peer)
        self._calls = PendingCalls(self.address, self._host.limits.max_calls_under_way)
        high = self._host.limits.outgoing_high_bytes
        self._transport.set_write_buffer_limits(high=high, low=high // 4)
        refusal = self._host.admit(self)
        if refusal is not None:
            self.close(refusal)

    def move_to(self, transport: asyncio.Transport) -> None:
        """Speaks to the same client by a transport that encrypts from now on."""
        self._transport = transport
        self.encrypted = True

    def get_buffer(self, sizehint: int) -> memoryview:
        try:
            return self._receiver.writable()
        except Busy as error:
            self._refused = str(error)  # to be closed as soon as the loop allows, which is not here
            return self._host.shared_buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._refused:
            self.close(self._refused)
            return
        self._receiver.received(nbytes)
        self._activity.last = self._host.now
        together = self._turn.together
        handled = 0 if together is None else self._gather(together)
        if not handled:
            handled = self._work_off()
        if nbytes < _SMALL_BYTES:
            self._turn.small_requests += handled

    def pause_writing(self) -> None:
        """The client does not read its answers: nothing more is read from it (backpressure)."""
        self._write_paused = True
        self._stop_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        if self._transport is not None and not self._transport.is_closing():
            self.note_unsent()
            self._read_on()

    def _stop_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _read_on(self) -> None:
        """Unless it pauses for another reason."""
        if self._pauses or self._transport is None or self._transport.is_closing():
            return
        self._activity.read_on(self._host.now)
        self._transport.resume_reading()
        if not self._working:  # a write may succeed, and get here, while a handler is answering
            self._work_off()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._host.unsent.note(self, 0)
        self._outgoing.clear()
        self._receiver.release()
        self._calls.fail()
        self._host.forget(self)

    # --- frames ------------------------------------------------------------------------------------------------------

    def _work_off(self) -> int:
        """Handles the whole frames received, unless and until it pauses; returns how many."""
        self._flush_due = True  # answers given at once leave at the end of this, in one write
        self._working = True
        handled, waits = 0, False
        try:
            if not self._pauses:
                handled = self._handle_each()
            waits = self._receiver.settle()
            if handled and not self._activity.is_proven:
                self._activity.is_proven = True
                self._receiver.use_budget(self._host.buffered)
        except (DecodeError, Busy) as error:
            self._broken(error)
        self._working = False
        self._activity.worked_off(self._host.now, handled, waits=waits)
        if self._outgoing:
            self.flush()
        self._flush_due = self.under_way > 0
        if self._flush_due:  # what is answered later in this very turn leaves at its end
            self._turn.flush_soon(self)
        return handled

    def _gather(self, together: TakesTogether) -> int:
        """Sets aside what was received, if it is all wanted together with others like it; returns how many requests."""
        host = self._host
        if self._pauses or not self._activity.is_proven or host.going_away:
            return 0
        if self.under_way >= host.limits.max_requests_under_way:
            return 0
        word, frame_bytes, sizes, frames = self._receiver.take_whole(together.words)
        total = len(sizes)
        if total:
            if self.gathered:
                self._turn.hand_over()  # to keep the order of a connection's requests
            self.gathered = True
            self.under_way += total
            self._turn.gather(Gathered(word, frame_bytes, sizes, frames, self))
            if not self._flush_due:
                self._flush_due = True
                self._turn.flush_soon(self)
        return total

    def _handle_each(self) -> int:
        """Handles frames one by one; returns how many."""
        host, handled = self._host, 0
        view, receive, most_under_way = self._receiver.view, host.router.receive, host.limits.max_requests_under_way
        for word, header_at, body_at, end in self._receiver.frames():
            if self.gathered:
                self._turn.hand_over()  # as above
            if host.going_away or self.under_way >= most_under_way:
                rest = self._turn_away(command_at(view, word, header_at, body_at, end))
            else:
                rest = receive(view, word, header_at, body_at, end, self)
            if rest is not None:
                host.run(rest)
            handled += 1
            if self._pauses:
                break
        return handled

    def work_off_alone(self, requests: Gathered) -> None:
        """Handles requests that were gathered, one by one."""
        self.under_way -= len(requests.sizes)
        host, view = self._host, memoryview(bytearray(requests.frames))
        most_under_way = host.limits.max_requests_under_way
        try:
            for places in frames_of(view, requests.sizes):
                if host.going_away or self.under_way >= most_under_way:
                    rest = self._turn_away(command_at(view, *places))
                else:
                    rest = host.router.receive(view, *places, self)
                if rest is not None:
                    host.run(rest)
        except DecodeError as error:
            self._broken(error)

    def _turn_away(self, raw: RawCommand) -> Coroutine[Any, Any, None] | None:
        """Refuses a request, unless the server is going away and the client would not understand that."""
        host = self._host
        if host.going_away and self._may_be_sent_away(raw):
            host.router.refuse(raw, self, GoingAway("please go away"))
        elif self.under_way >= host.limits.max_requests_under_way:
            host.router.refuse(raw, self, Busy("too many requests of this connection are under way"))
        else:
            return host.router.dispatch(raw, self)
        return None

    @staticmethod
    def _may_be_sent_away(raw: RawCommand) -> bool:
        """Only clients after 5.3.1 understand GO_AWAY (spec: remoting, section 4.1)."""
        return decode_command(raw).version > Version.V5_3_1

    def _broken(self, error: RmqError) -> None:
        """The stream has lost its place, or may have no more memory: the connection is of no more use."""
        if not self._activity.is_proven and self._receiver.first_byte == TLS_HANDSHAKE:
            self.close("the client speaks TLS, which is off here (tls_server_mode)")
        else:
            self.close(str(error))

    # --- answers -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes all that is queued."""
        self._flush_due = False
        if not self._outgoing:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            self._outgoing.clear()
            return
        self._activity.last = self._host.now
        try:
            self._outgoing.write_to(transport, encrypts=self.encrypted)
        except Exception as error:  # noqa: BLE001 - whatever it is: a head may be out that has promised what follows
            log.error("answers could not be written", peer=self.address, reason=f"{type(error).__name__}: {error}")
            self.close("its answers could not be written")
            return
        if transport.get_write_buffer_size() or self._holds:
            self.note_unsent()
            if self._write_paused and self.unsent_bytes > self._host.limits.outgoing_max_bytes:
                self.close("the client does not take its answers")

    def note_unsent(self) -> None:
        """Something was written: what of it the client has not taken counts."""
        unsent = self.unsent_bytes
        self._holds = unsent > 0
        self._host.unsent.note(self, unsent)

    # --- time --------------------------------------------------------------------------------------------------------

    def check(self, now: int) -> int | None:
        """Closes the connection if a deadline has passed; called by the server's wheel."""
        if self._transport is None:
            return None
        self._note_progress(now)
        deadline, reason = self._activity.deadline(self._host.ticks, is_read=not self._pauses)
        if now >= deadline:
            self.close(reason)
            return None
        if now >= self._shrink_at:
            self._receiver.shrink()
            self._shrink_at = now + self._host.ticks.shrink
        return min(deadline, now + self._host.ticks.visit)

    def _note_progress(self, now: int) -> None:
        """A client that takes its answers slowly is slow, not idle; nor is one that waits to be read from."""
        if self._oneways_pause:
            self._activity.last = now
        if self._holds:
            self.note_unsent()
        if self._write_paused:
            self._activity.took(now, self.unsent_bytes)
