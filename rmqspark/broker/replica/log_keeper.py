"""The log that a slave writes, as its broker keeps it: how safe it is, and what rests on its tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import Unreachable
from rmqspark.protocol.names import CHECK_GROUP

if TYPE_CHECKING:
    import asyncio

    from rmqspark.broker.given import Given
    from rmqspark.broker.replica.table_sync import TableSync
    from rmqspark.broker.safekeeping.flusher import Flusher
    from rmqspark.broker.tables import BrokerTables


class LogKeeper:
    """Implements `replication.slave.Keeper`. `sync` can ask the master."""

    def __init__(self, given: Given, flusher: Flusher, tables: BrokerTables, sync: TableSync) -> None:
        self._cuts_all = given.config.ha_cut_tail
        self._sync_flush = given.store_config.syncs_flush
        self._now_ms = given.clock.now_ms
        self._flusher = flusher
        self._tables = tables
        self._sync = sync

    async def safe(self, end_offset: int) -> None:
        if self._sync_flush:
            await self._flusher.flushed(end_offset)

    def between_flushes(self) -> asyncio.Lock:
        return self._flusher.between_flushes

    async def refusal_to_cut(self) -> str:
        """An ASYNC_MASTER promised nothing of what it lost. Of a SYNC_MASTER's this may be the only copy. Unreachable
        while it does not say which it is: one that has just come back may not answer yet."""
        if self._cuts_all or (role := await self._sync.master_role()) == "ASYNC_MASTER":
            return ""
        if not role:
            raise Unreachable(
                "The logs differ, and whether that master waits for slaves is not known: nothing is cut off.",
                address=self._sync.master,
            )
        return "It is a SYNC_MASTER: what it lost may have been acknowledged, and is not cut off without ha_cut_tail."

    async def forget_tail(self) -> None:
        """How far delays were delivered, and which half messages have ended, may rest on it: forgotten on disk, too,
        for nothing undoes the cut. Raises NotWritable."""
        self._tables.timer.forget()
        self._tables.delays.forget(self._now_ms())
        self._tables.offsets.forget_group(CHECK_GROUP)
        await self._tables.save()
