"""Which hosts are those of a broker's slaves, by its name servers: a port without authentication goes by that."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.errors import InvalidArgument
from rmqspark.protocol.names import MASTER_ID
from rmqspark.remoting.access import OPEN
from rmqspark.remoting.address import parse_address
from rmqspark.remoting.registered_brokers import registered_brokers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.remoting.access import Access


class RegisteredSlaves:
    """Asks anew for each connection: they are few. All name servers at once: a slave does not wait for long, and those
    that are away take seconds each."""

    def __init__(self, broker_name: str, name_servers: Sequence[str], access: Access = OPEN) -> None:
        self._broker_name = broker_name
        self._name_servers = tuple(name_servers)
        self._access = access

    async def count_at(self, host: str) -> int:
        """How many slaves of this broker are registered that are reached at this IP address."""
        return max(await asyncio.gather(*(self._count(each, host) for each in self._name_servers)), default=0)

    async def _count(self, name_server: str, host: str) -> int:
        addresses = await self._slaves_at(name_server)
        return sum([host in await _ips(address) for address in addresses])

    async def _slaves_at(self, name_server: str) -> list[str]:
        info = await registered_brokers(name_server, self._access)
        known = None if info is None else info.brokerAddrTable.get(self._broker_name)
        addresses = known.brokerAddrs.items() if known is not None else ()
        return [address for broker_id, address in addresses if broker_id != MASTER_ID]


async def _ips(address: str) -> set[str]:
    """The IP addresses of its host; none where its name is unknown, or what a broker has registered is no address."""
    with suppress(OSError, ValueError, InvalidArgument):
        host, _ = parse_address(address)
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return {str(each[4][0]) for each in found}
    return set()
