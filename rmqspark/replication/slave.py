"""The slave's side: it connects to its master, compares its tail, and takes what comes.

One connection after the other, as long as the broker runs. Each begins with the last bytes of the slave's log, compared
with the master's (`joining.py`); then whole records are appended, and confirmed when they are as safe as the slave's
own flush mode promises. RocketMQ: DefaultHAClient; spec: storage, section 12.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import structlog

from rmqspark.errors import RmqError
from rmqspark.replication.joining import LogsDiverged, TailDiffers, Window, place_to_cut
from rmqspark.replication.session import Session
from rmqspark.store.doubt import Doubtful

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from rmqspark.replication.introduction import WayToMaster
    from rmqspark.replication.settings import HaSettings
    from rmqspark.store.replica import ReplicaLog

_DIVERGED_PAUSE_S: Final = 60.0  # until it is tried once more; an operator has to look at it

log = structlog.get_logger("rmqspark.replication")


class Keeper(Protocol):
    """Who keeps the log that a slave writes, and knows what rests on it. An RmqError of it may pass: what it was asked
    for is tried again soon."""

    async def safe(self, end_offset: int) -> None:
        """Returns when the log is as safe up to there as its flush mode promises."""

    def between_flushes(self) -> AbstractAsyncContextManager[object]:
        """A moment in which no flush is under way."""

    async def refusal_to_cut(self) -> str:
        """Why a tail that the master does not have must stay; "" where it need not."""

    async def forget_tail(self) -> None:
        """Returns when nothing is known any more of a tail that is to be cut off."""


class Slave:
    """Follows whichever master it is told of. Implements `session.Follower`."""

    def __init__(
        self, replica: ReplicaLog, settings: HaSettings, way: WayToMaster, keeper: Keeper, now_ms: Callable[[], int]
    ) -> None:
        self.replica = replica
        self.settings = settings
        self.window = Window()
        self._keeper = keeper
        self._way = way
        self._now_ms = now_ms
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
            pause_s = await self._once() if self._master else self.settings.retry_s
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
        except Doubtful as doubt:
            log.warning("asking the master once more", master=self._master, reason=str(doubt))
            return 0
        except (OSError, EOFError, MemoryError, RmqError) as error:
            self._tell(error)
        return self.settings.retry_s

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
            await Session(self, master, stream).run()
        finally:
            self.is_connected = False
            stream.close()

    async def safe(self, end_offset: int) -> None:
        """Returns when the log is as safe up to there as the keeper's flush mode promises."""
        await self._keeper.safe(end_offset)

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
        self.window.reset()
        self.replica.lineage.proven()
        log.info("the log is the master's, going on from its end", master=master, at=self.replica.end_offset)
        self.is_connected, self.trouble = True, ""

    async def _settle(self, difference: TailDiffers, master: str) -> float:
        """What becomes of a tail that is not this master's; returns how long to wait. Nothing, where another one is to
        be followed by the time that it is decided: it may have it."""
        replica = self.replica
        if self._master != master:
            return 0
        place = place_to_cut(difference.at, difference.compared_from, replica.end_offset, replica.record_begin)
        if place is None:
            if self.window.widen(replica.start_offset, replica.end_offset):
                return 0
            return self._leave(f"{difference} It is not proven that the two were ever one: nothing is cut off here.")
        if refusal := await self._keeper.refusal_to_cut():
            return self._leave(f"{difference} {refusal}")
        await self._keeper.forget_tail()
        end_offset = replica.end_offset
        async with self._keeper.between_flushes():
            if self._master != master:
                return 0
            kept = replica.cut(place)
        at = replica.end_offset
        log.warning("cut off what the master does not have", at=at, bytes=end_offset - at, kept_in=kept)
        self.window.reset()
        return 0

    def _leave(self, why: str) -> float:
        hint = "Make this slave the master where it has what counts; else empty its store, and it is copied anew."
        self._tell(LogsDiverged(why, hint=hint))
        return _DIVERGED_PAUSE_S
