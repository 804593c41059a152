"""The other brokers of the cluster: who they are, by the name servers, and one connection to each that is asked.

RocketMQ's brokers hardly talk to each other outside of replication; this has no counterpart there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rmqspark.errors import NotSupported, Unreachable
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.names import MASTER_ID
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.remoting.registered_brokers import registered_brokers
from rmqspark.txn.coordinator.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import msgspec

    from rmqspark.remoting.access import Access
    from rmqspark.remoting.reply import Body
    from rmqspark.remoting.response import Response

_CONNECT_TIMEOUT_MS: Final = 2_000


class Peers:
    """Masters of the cluster by name, without this broker itself, `own_name`. A broker without name servers has none.
    `retired` are brokers that will never come back."""

    def __init__(
        self, own_name: str, name_servers: Sequence[str], access: Access = OPEN, retired: Iterable[str] = ()
    ) -> None:
        self.own_name: Final = own_name
        self.retired: Final = frozenset(retired)
        self._name_servers = tuple(name_servers)
        self._access = access
        self._addresses: dict[str, str] = {}
        self._connections: dict[str, AsyncConnection] = {}
        self._turns = Turns()  # of those who want a connection

    def names(self) -> list[str]:
        """As of the last `refresh`."""
        return list(self._addresses)

    async def refresh(self) -> bool:
        """Asks the name servers who is there. False, with nothing changed, where none of them answers."""
        asked = await asyncio.gather(*(registered_brokers(each, self._access) for each in self._name_servers))
        found = [info for info in asked if info is not None]
        if found:
            self._addresses = {
                name: broker.brokerAddrs[MASTER_ID]
                for info in found
                for name, broker in info.brokerAddrTable.items()
                if MASTER_ID in broker.brokerAddrs and name != self.own_name
            }
            self._let_go()
        return bool(found) or not self._name_servers

    async def listed(self, brokers: Collection[str]) -> set[str]:
        """Which of these there are. Asks once, however many are not known: names may be a client's invention."""
        if not self._addresses.keys() >= set(brokers):
            await self.refresh()
        return self._addresses.keys() & set(brokers)

    async def call(
        self, broker: str, code: int, header: msgspec.Struct | None = None, body: Body = b"", *, timeout_ms: int
    ) -> Response:
        """The broker's answer. Raises Unreachable, RequestTimeout, and what the broker's error code stands for."""
        connection = await self._connection(broker)
        response = await connection.call(code, header, body, timeout_ms=timeout_ms)
        return response.raise_for_code()

    async def close(self) -> None:
        """Ends all connections."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            if not connection.closed:
                await connection.close()

    def _let_go(self) -> None:
        """Of brokers that are gone nothing is kept: they may come under a new name each time."""
        self._connections = {
            name: connection
            for name, connection in self._connections.items()
            if name in self._addresses or not connection.closed
        }

    async def _connection(self, broker: str) -> AsyncConnection:
        if broker not in self._addresses:
            await self.refresh()
        if broker not in self._addresses:
            raise unlisted(broker)
        async with self._turns.of(broker):
            address = self._addresses.get(broker)
            if address is None:
                raise unlisted(broker)
            connection = self._connections.get(broker)
            if connection is None or connection.closed or connection.address != address:
                try:
                    connection = await self._open(broker, address)
                except Unreachable:
                    self._addresses.pop(broker, None)  # it may have come back elsewhere: the next call asks
                    raise
                self._connections[broker] = connection
            return connection

    async def _open(self, broker: str, address: str) -> AsyncConnection:
        connection = await AsyncConnection.open(address, timeout_ms=_CONNECT_TIMEOUT_MS, access=self._access)
        try:
            await _require_name(connection, broker)
        except BaseException:
            await connection.close()
            raise
        return connection


async def _require_name(connection: AsyncConnection, broker: str) -> None:
    """Raises Unreachable where another broker listens by now, and what keeps it from saying so. Addresses change hands,
    and to the same question, whether a version is complete, say, that one has another answer."""
    try:
        response = await connection.call(RequestCode.RMQ_CAPABILITIES, timeout_ms=_CONNECT_TIMEOUT_MS)
        name = CapabilitiesBody.decode(response.raise_for_code().body).brokerName
    except NotSupported:  # a stock broker: of no batch is it asked what became of it
        return
    if name not in (broker, ""):
        raise Unreachable(f"Broker {name!r} answers where {broker!r} was.", address=connection.address)


def unlisted(broker: str) -> Unreachable:
    """The error for a broker that is not there, as far as the name servers know."""
    return Unreachable(f"No name server knows a broker {broker!r}.", address=broker)
