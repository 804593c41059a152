"""The other brokers of the cluster: who they are, by the name servers, and one connection to each that is asked.

RocketMQ's brokers hardly talk to each other outside of replication; this has no counterpart there.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RmqError, Unreachable
from rmqspark.protocol.bodies.route import ClusterInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.connection import AsyncConnection

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import msgspec

    from rmqspark.remoting.access import Access
    from rmqspark.remoting.reply import Body
    from rmqspark.remoting.response import Response

_CONNECT_TIMEOUT_MS: Final = 2_000
_NAMESRV_TIMEOUT_MS: Final = 3_000
_MASTER_ID: Final = 0

log = structlog.get_logger("rmqspark.txn")


class Peers:
    """Masters of the cluster by name, without this broker itself. A broker without name servers has none."""

    def __init__(self, own_name: str, name_servers: Sequence[str], access: Access = OPEN) -> None:
        self._own_name = own_name
        self._name_servers = tuple(name_servers)
        self._access = access
        self._addresses: dict[str, str] = {}
        self._connections: dict[str, AsyncConnection] = {}
        self._opening: dict[str, asyncio.Lock] = {}

    def names(self) -> list[str]:
        """As of the last `refresh`."""
        return list(self._addresses)

    async def refresh(self) -> bool:
        """Asks the name servers who is there. False, with nothing changed, where none of them answers."""
        asked = [await _cluster_info(address, self._access) for address in self._name_servers]
        found = [info for info in asked if info is not None]
        if found:
            self._addresses = {
                name: broker.brokerAddrs[_MASTER_ID]
                for info in found
                for name, broker in info.brokerAddrTable.items()
                if _MASTER_ID in broker.brokerAddrs and name != self._own_name
            }
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

    async def _connection(self, broker: str) -> AsyncConnection:
        if broker not in self._addresses:
            await self.refresh()
        if broker not in self._addresses:
            raise unlisted(broker)
        async with self._opening.setdefault(broker, asyncio.Lock()):  # of names that are listed: they have an end
            address = self._addresses.get(broker)
            if address is None:
                raise unlisted(broker)
            connection = self._connections.get(broker)
            if connection is None or connection.closed or connection.address != address:
                try:
                    connection = await AsyncConnection.open(
                        address, timeout_ms=_CONNECT_TIMEOUT_MS, access=self._access
                    )
                except Unreachable:
                    self._addresses.pop(broker, None)  # it may have come back elsewhere: the next call asks
                    raise
                self._connections[broker] = connection
            return connection


def unlisted(broker: str) -> Unreachable:
    """The error for a broker that is not there, as far as the name servers know."""
    return Unreachable(f"No name server knows a broker {broker!r}.", address=broker)


async def _cluster_info(address: str, access: Access) -> ClusterInfo | None:
    try:
        connection = await AsyncConnection.open(address, timeout_ms=_CONNECT_TIMEOUT_MS, access=access)
    except Unreachable:
        return None
    try:
        response = await connection.call(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=_NAMESRV_TIMEOUT_MS)
        return ClusterInfo.decode(response.raise_for_code().body)
    except RmqError as error:
        log.warning("a name server did not say which brokers there are", namesrv=address, reason=str(error))
        return None
    finally:
        await connection.close()
