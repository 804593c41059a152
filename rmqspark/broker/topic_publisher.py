"""Makes changes of the topic table known: to the disk, so that a restart remembers, and to the name servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.broker.registration import Registrar
    from rmqspark.broker.tables import BrokerTables


class TopicPublisher:
    """What handlers call after they changed the topic table."""

    def __init__(self, tables: BrokerTables, registrar: Registrar) -> None:
        self._tables = tables
        self._registrar = registrar

    async def save(self) -> None:
        """Returns once a restart would find the topics as they are now."""
        await self._tables.save()

    def hurry(self) -> None:
        """Registers with the name servers soon."""
        self._registrar.hurry()

    async def publish(self) -> None:
        """Saves and registers; returns when the name servers that can be reached know, or after a moment."""
        await asyncio.gather(self._tables.save(), self._registrar.registered())
