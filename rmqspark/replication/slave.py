"""The slave's side: it connects to its master, compares its tail, and takes what comes.

One connection after the other, as long as the broker runs. Each begins with the last bytes of the slave's log, compared
with the master's (`joining.py`); then whole records are appended, and confirmed when they are as safe as the slave's
own flush mode promises. RocketMQ: DefaultHAClient; spec: storage, section 12.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

import structlog

from rmqspark.errors import RmqError
from rmqspark.replication.introduction import WayToMaster
from rmqspark.replication.joining import LogsDiverged, TailComparison, TailDiffers, Window, place_to_cut
from rmqspark.replication.stream import Transfer, TransferDecoder, report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from rmqspark.remoting.stream import Stream
    from rmqspark.replication.settings import HaSettings
    from rmqspark.store.replica import ReplicaLog

_READ_BYTES: Final = 1 << 20
_PLAIN: Final = WayToMaster()
_DIVERGED_PAUSE_S: Final = 60.0  # until it is tried once more; an operator has to look at it

log = structlog.get_logger("rmqspark.replication")


class Slave:
    """Follows whichever master it is told of. `safe` returns when the log is as safe up to a place as its flush mode
    promises; `between_flushes` makes a moment in which no flush is under way; `refusal_to_cut` says why a tail that the
    master does not have must stay, "" where it need not; `forget_tail` returns when nothing is known any more of one
    that is to be cut off. An RmqError of either may pass, and is tried again soon."""

    def __init__(
        self,
        replica: ReplicaLog,
        settings: HaSettings,
        way: WayToMaster = _PLAIN,
        *,
        safe: Callable[[int], Awaitable[None]],
        between_flushes: Callable[[], AbstractAsyncContextManager[object]],
        refusal_to_cut: Callable[[], Awaitable[str]],
        forget_tail: Callable[[], Awaitable[None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._refusal_to_cut = refusal_to_cut
        self._forget_tail = forget_tail
        self._now_ms = now_ms
        self._replica = replica
        self._settings = settings
        self._way = way
        self._safe = safe
        self._between_flushes = between_flushes
        self._window = Window()
        self._master = ""
        self._changed = asyncio.Event()
        self.is_connected = False
        self.trouble = ""
        """Why it has no connection, in words for an operator."""
        self.heard_ms = self.reported_ms = 0
        """When the master was last heard, and told something; 0 for never."""

    @property
    def master(self) -> str:
        """host:port that slaves connect to; empty while no master is known."""
        return self._master

    def follow(self, address: str) -> None:
        """Connects to this master when it is not connected any more."""
        if address and address != self._master:
            log.info("following a master", address=address, before=self._master)
            self._master = address
            self._changed.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            pause_s = await self._once() if self._master else self._settings.retry_s
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            self._changed.clear()

    async def _once(self) -> float:
        """One connection, and what becomes of a tail that it shows to differ; returns how long to wait for the next."""
        try:
            return await self._follow_or_settle()
        except LogsDiverged as error:
            self._tell(error)
            return _DIVERGED_PAUSE_S
        except (OSError, EOFError, MemoryError, RmqError) as error:
            self._tell(error)
        return self._settings.retry_s

    async def _follow_or_settle(self) -> float:
        master = self._master
        try:
            await self._follow(master)
        except TailDiffers as difference:
            return await self._settle(difference, master)

    def _tell(self, error: Exception) -> None:
        trouble = str(error) or type(error).__name__
        if trouble != self.trouble:
            log.warning("not connected to the master, trying on", master=self._master, reason=trouble)
        self.trouble = trouble

    async def _follow(self, master: str) -> NoReturn:
        stream = await self._way.open(master)
        try:
            await _Session(self, master, self._replica, self._window, self._settings, self._safe, stream).run()
        finally:
            self.is_connected = False
            stream.close()

    def heard(self) -> None:
        """Something came from the master."""
        self.heard_ms = self._now_ms()

    def reported(self) -> None:
        """The master was told how far this slave is."""
        self.reported_ms = self._now_ms()

    def joined(self, master: str) -> None:
        """The tail is this master's. Raises EOFError where another one is to be followed by now: what else there is to
        take comes from that one, and must not go with this one's log."""
        if self._master != master:
            raise EOFError("another master is followed from now on")
        self._window.reset()
        self._replica.lineage.proven()
        log.info("the log is the master's, going on from its end", master=master, at=self._replica.end_offset)
        self.is_connected, self.trouble = True, ""

    async def _settle(self, difference: TailDiffers, master: str) -> float:
        """What becomes of a tail that is not this master's; returns how long to wait. Nothing, where another one is to
        be followed by the time that it is decided: it may have it."""
        replica = self._replica
        if self._master != master:
            return 0
        place = place_to_cut(difference.at, difference.compared_from, replica.end_offset, replica.record_begin)
        if place is None:
            if self._window.widen(replica.start_offset, replica.end_offset):
                return 0
            return self._leave(f"{difference} It is not proven that the two were ever one: nothing is cut off here.")
        if refusal := await self._refusal_to_cut():
            return self._leave(f"{difference} {refusal}")
        await self._forget_tail()
        size = replica.end_offset - place
        async with self._between_flushes():
            if self._master != master:
                return 0
            kept = replica.cut(place)
        log.warning("cut off what the master does not have", at=place, bytes=size, kept_in=kept)
        self._window.reset()
        return 0

    def _leave(self, why: str) -> float:
        hint = "Make this slave the master where it has what counts; else empty its store, and it is copied anew."
        self._tell(LogsDiverged(why, hint=hint))
        return _DIVERGED_PAUSE_S


class _Session:
    """One connection to a master."""

    def __init__(
        self,
        slave: Slave,
        master: str,
        replica: ReplicaLog,
        window: Window,
        settings: HaSettings,
        safe: Callable[[int], Awaitable[None]],
        stream: Stream,
    ) -> None:
        self._slave = slave
        self._master = master
        self._replica = replica
        self._window = window
        self._settings = settings
        self._safe = safe
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
