"""Which hosts are those of a broker's slaves, by its name servers: a port without authentication goes by that."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.route import ClusterInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.address import parse_address
from rmqspark.remoting.connection import AsyncConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.remoting.access import Access

_TIMEOUT_MS: Final = 3_000
_MASTER_ID: Final = 0

log = structlog.get_logger("rmqspark.replication")


class RegisteredSlaves:
    """Asks anew for each connection: they are few."""

    def __init__(self, broker_name: str, name_servers: Sequence[str], access: Access = OPEN) -> None:
        self._broker_name = broker_name
        self._name_servers = tuple(name_servers)
        self._access = access

    async def count_at(self, host: str) -> int:
        """How many slaves of this broker are registered that are reached at this IP address."""
        return max([await self._count(name_server, host) for name_server in self._name_servers], default=0)

    async def _count(self, name_server: str, host: str) -> int:
        addresses = await self._slaves_at(name_server)
        return sum([host in await _ips(parse_address(address)[0]) for address in addresses])

    async def _slaves_at(self, name_server: str) -> list[str]:
        try:
            connection = await AsyncConnection.open(name_server, timeout_ms=_TIMEOUT_MS, access=self._access)
        except RmqError:
            return []
        try:
            answer = await connection.call(RequestCode.GET_BROKER_CLUSTER_INFO, timeout_ms=_TIMEOUT_MS)
            known = ClusterInfo.decode(answer.raise_for_code().body).brokerAddrTable.get(self._broker_name)
        except RmqError as error:
            log.warning("a name server did not say which slaves there are", namesrv=name_server, reason=str(error))
            return []
        finally:
            await connection.close()
        addresses = known.brokerAddrs.items() if known is not None else ()
        return [address for broker_id, address in addresses if broker_id != _MASTER_ID]


async def _ips(host: str) -> set[str]:
    """The host's IP addresses; none where its name is unknown."""
    with suppress(OSError, ValueError):
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return {str(address[4][0]) for address in found}
    return set()
