"""One connection of a slave to its master: the tail of its log compared, then whole records taken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from rmqspark.replication.joining import LogsDiverged, TailComparison
from rmqspark.replication.stream import Transfer, TransferDecoder, report

if TYPE_CHECKING:
    from rmqspark.remoting.stream import Stream
    from rmqspark.replication.joining import Window
    from rmqspark.replication.settings import HaSettings
    from rmqspark.store.replica import ReplicaLog

_READ_BYTES: Final = 1 << 20


class Follower(Protocol):
    """The slave, as a session of it knows it."""

    replica: ReplicaLog
    window: Window
    settings: HaSettings

    async def safe(self, end_offset: int) -> None:
        """Returns when its log is as safe up to there as its flush mode promises."""

    def heard(self) -> None:
        """Something came from the master."""

    def reported(self) -> None:
        """The master was told how far this slave is."""

    def joined(self, master: str) -> None:
        """The tail is this master's. Raises EOFError where another one is to be followed by now."""


class Session:
    """Of a slave with one master."""

    def __init__(self, slave: Follower, master: str, stream: Stream) -> None:
        self._slave = slave
        self._master = master
        self._replica = slave.replica
        self._window = slave.window
        self._settings = slave.settings
        self._safe = slave.safe
        self._stream = stream
        self._transfers = TransferDecoder()
        self._comparison: TailComparison | None = None
        self._expected = 0  # where the next transfer belongs
        self._has_taken = False
        self._waiting = bytearray()  # behind the end of the log, a record that is not whole
        self._reported_s = 0.0  # loop time

    async def run(self) -> NoReturn:
        """Until the connection ends. Raises TailDiffers, LogsDiverged, and what ended it."""
        replica = self._replica
        await self._safe(replica.end_offset)  # what is confirmed from now on is below that, or made safe before
        start = 0 if replica.is_empty else self._window.start(replica.start_offset, replica.end_offset)
        if not replica.is_empty:
            self._begin(start, replica.end_offset)
        self._report(start)
        has_heard = False
        while chunk := await self._read(confirmed=start):
            has_heard = True
            self._slave.heard()
            was_joined = self._is_joined
            if self._take(self._transfers.feed(chunk)) or self._is_joined != was_joined:
                await self._safe(replica.end_offset)
                self._report(self._confirmed(start))
        if not has_heard:
            self._window.widen(replica.start_offset, replica.end_offset)  # it may end before it
        raise EOFError("the master hung up" + ("" if has_heard else " at once: its log says why"))

    def _begin(self, start: int, end: int) -> None:
        self._comparison = TailComparison(start, end, self._replica.read)
        self._expected = start
        if self._comparison.is_over:
            self._slave.joined(self._master)

    @property
    def _is_joined(self) -> bool:
        return self._comparison is not None and self._comparison.is_over

    def _confirmed(self, start: int) -> int:
        comparison = self._comparison
        if comparison is None:
            return start
        return self._replica.end_offset if comparison.is_over else comparison.position

    async def _read(self, *, confirmed: int) -> bytes:
        """What comes next; b"" at the end. Reports as often as the master wants to hear something."""
        loop, settings = asyncio.get_running_loop(), self._settings
        give_up_s = loop.time() + settings.housekeeping_s
        while loop.time() < give_up_s:
            try:
                async with asyncio.timeout_at(min(give_up_s, self._reported_s + settings.heartbeat_s)):
                    return await self._stream.read(_READ_BYTES)
            except TimeoutError:
                self._report(self._confirmed(confirmed))
        raise TimeoutError(f"nothing came from the master for {settings.housekeeping_s:g} s")

    def _report(self, offset: int) -> None:
        self._stream.write(report(offset))
        self._reported_s = asyncio.get_running_loop().time()
        self._slave.reported()

    def _take(self, transfers: list[Transfer]) -> bool:
        """Appends what lies behind the end of the log; whether there was any."""
        for transfer in transfers:
            if self._comparison is None:
                self._replica.begin_at(transfer.offset)
                self._begin(transfer.offset, transfer.offset)
            self._take_one(transfer)
        with memoryview(self._waiting) as waiting:  # no copy: a blank record that fills a file comes in many chunks
            taken = self._replica.append(waiting)
        del self._waiting[:taken]
        return taken > 0

    def _take_one(self, transfer: Transfer) -> None:
        comparison = self._comparison
        assert comparison is not None
        if transfer.offset > self._expected and not self._has_taken:
            comparison.begin_later(transfer.offset)
            self._expected = transfer.offset
        self._has_taken = True
        if transfer.offset != self._expected:
            raise LogsDiverged(f"The master sends its log from {transfer.offset} on, not from {self._expected}.")
        self._expected += len(transfer.data)
        if not transfer.data:
            comparison.heartbeat()
            return
        was_over = comparison.is_over
        self._waiting += comparison.take(transfer.data)
        if comparison.is_over and not was_over:
            self._slave.joined(self._master)
