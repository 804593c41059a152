"""The master's side: slaves connect, and each is sent the log from where it asks for it.

Only what is as safe as the flush mode promises is sent, so that no slave ever has what a power loss may take from the
master of a SYNC_FLUSH. What a slave confirms goes into `Slaves`; one that confirms what it was never sent is cut off.
Who is sent anything at all is for `admission.py` to say.
RocketMQ: DefaultHAService, DefaultHAConnection; spec: storage, section 12.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from rmqspark.errors import DamagedFile, FrameError, InvalidArgument, RmqError
from rmqspark.remoting.address import cannot_listen, format_address
from rmqspark.remoting.stream import Stream
from rmqspark.replication.acks import Slaves
from rmqspark.replication.admission import NO_PROOF, PROTOCOL, STRANGER, Refused
from rmqspark.replication.stream import ReportDecoder, transfer_head

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from rmqspark.replication.acks import SlaveProgress
    from rmqspark.replication.admission import Admission
    from rmqspark.replication.settings import HaSettings

_READ_BYTES: Final = 4096
_MOST_CONNECTIONS: Final = 64
_SENT_A_TURN_BYTES: Final = 1 << 20
_FROM_THE_START: Final = 0

log = structlog.get_logger("rmqspark.replication")


class LogSource(Protocol):
    """What is read of a store."""

    @property
    def safe_offset(self) -> int: ...
    @property
    def min_physical_offset(self) -> int: ...
    def read_range(self, physical_offset: int, size: int) -> bytes: ...


class Master:
    """Serves slaves while its `async with` block runs. Raises PortInUse, or InvalidArgument for another address that
    cannot be listened on."""

    def __init__(
        self,
        source: LogSource,
        segment_bytes: int,
        settings: HaSettings,
        *,
        host: str,
        port: int,
        admission: Admission,
        on_ack: Callable[[], None],
    ) -> None:
        self._source = source
        self._segment_bytes = segment_bytes
        self._settings = settings
        self._host = host
        self.port = port
        self.admission = admission
        self._on_ack = on_ack
        self.slaves = Slaves()
        self._wakes: dict[SlaveProgress, asyncio.Event] = {}
        self._is_stopping = False
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self.port)
        except OSError as error:
            raise cannot_listen(error, self._host, self.port, "ha_listen_port") from error
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_stopping = True
        self._server.close()
        connections = dict(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        for writer in connections.values():  # of those that had not even begun
            writer.close()

    def log_grew(self) -> None:
        """There is more to send."""
        for wake in self._wakes.values():
            wake.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_stopping:  # it was on its way when the port was closed
            writer.close()
            return
        task = asyncio.create_task(self._admit(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _admit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = (writer.get_extra_info("peername") or ("", 0))[:2]  # nobody's, where it is gone already
        stream, address = Stream(reader, writer), format_address(host, port)
        try:
            slave = await self._known(stream, host, port)
            if slave is not None:
                await self._serve_until_refused(slave, host, stream)
        except* (OSError, EOFError) as ended:
            reason = str(ended.exceptions[0]) or "it said nothing for too long"
            log.info("a slave's connection ended", slave=address, reason=reason)
        finally:
            stream.close()

    async def _known(self, stream: Stream, host: str, port: int) -> SlaveProgress | None:
        """None for who is sent nothing."""
        try:
            if len(self._connections) > _MOST_CONNECTIONS:
                raise Refused(STRANGER, f"{_MOST_CONNECTIONS} connections are open already.")
            return await self.admission.admit(stream, host, port)
        except RmqError as error:
            self.admission.refuse(host, _refusal(error))
            return None

    async def _serve_until_refused(self, slave: SlaveProgress, host: str, stream: Stream) -> None:
        try:
            await self._serve(slave, stream)
        except* RmqError as errors:
            self.admission.hang_up(slave, host, _refusal(errors.exceptions[0]))

    async def _serve(self, slave: SlaveProgress, stream: Stream) -> None:
        wake = self._wakes[slave] = asyncio.Event()
        self.slaves.add(slave)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._hear(slave, stream, wake))
                both.create_task(self._send(slave, stream, wake))
        finally:
            self.slaves.remove(slave)
            del self._wakes[slave]

    # --- what it says

    async def _hear(self, slave: SlaveProgress, stream: Stream, wake: asyncio.Event) -> None:
        """Until it hangs up, says what it cannot, or nothing for too long."""
        reports = ReportDecoder()
        while True:
            async with asyncio.timeout(self._settings.housekeeping_s):
                chunk = await stream.read(_READ_BYTES)
            if not chunk:
                raise EOFError("it hung up")
            if not slave.is_known():
                raise Refused(NO_PROOF, "The user it came as is gone, or has another password.")
            for offset in reports.feed(chunk):
                self._note(slave, offset)
            wake.set()

    def _note(self, slave: SlaveProgress, offset: int) -> None:
        if not slave.has_begun:
            slave.begin(self._place_to_begin(offset))
            log.info("a slave connected", slave=slave.address, who=slave.identity)
            return
        slave.ack(offset)
        self._on_ack()

    def _place_to_begin(self, wanted: int) -> int:
        """For what has expired the start of the log: a slave goes on there if it has a part of that, or else says what
        is to be done; RocketMQ's hangs up. Raises InvalidArgument for a place behind the end."""
        start, end = self._source.min_physical_offset, self._source.safe_offset
        if wanted == _FROM_THE_START:
            return start if self._settings.sends_whole_log else max(start, end - end % self._segment_bytes)
        if wanted > end:
            raise InvalidArgument(
                f"It asks for the log from {wanted} on, which goes from {start} to {end}.",
                hint="Make it the master where it has what counts, and was lost here; else empty its store.",
            )
        return max(start, wanted)

    # --- what it is sent

    async def _send(self, slave: SlaveProgress, stream: Stream, wake: asyncio.Event) -> None:
        stream.bound_unsent(_SENT_A_TURN_BYTES)
        loop = asyncio.get_running_loop()
        told_s = loop.time()
        while True:
            wake.clear()
            if slave.has_begun and self._next_size(slave):
                self._send_some(slave, stream)
                await asyncio.sleep(0)  # a slave that is quick would else have the loop to itself
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(told_s + self._settings.heartbeat_s):
                        await wake.wait()  # which its reports end as well: it is silence that counts, not rest
                    continue
                if slave.has_begun:
                    stream.write(transfer_head(slave.next_offset, 0))
            told_s = loop.time()
            await stream.drain()

    def _send_some(self, slave: SlaveProgress, stream: Stream) -> None:
        """What is there, but not so much that others wait long: a slave takes many records together at less cost."""
        end = slave.next_offset + _SENT_A_TURN_BYTES
        while slave.next_offset < end and (size := self._next_size(slave)):
            self._send_log(slave, stream, size)

    def _next_size(self, slave: SlaveProgress) -> int:
        """What is sent at a time lies in one file."""
        in_file = self._segment_bytes - slave.next_offset % self._segment_bytes
        return max(0, min(self._source.safe_offset - slave.next_offset, self._settings.transfer_bytes, in_file))

    def _send_log(self, slave: SlaveProgress, stream: Stream, size: int) -> None:
        offset = slave.next_offset
        try:
            data = self._source.read_range(offset, size)
        except DamagedFile as error:
            raise FrameError(f"The log from {offset} on cannot be read: {error}") from error
        stream.write(transfer_head(offset, size) + data)
        slave.sent(size)


def _refusal(error: Exception) -> Refused:
    """What a slave is refused for, with the kind that it counts as."""
    return error if isinstance(error, Refused) else Refused(PROTOCOL, str(error))
