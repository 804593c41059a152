"""Where a broker is: the host that clients are told, and the forms in which that is said."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rmqspark.broker.registration import BrokerIdentity
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.records.message_id import NO_IP, pack_host
from rmqspark.remoting.address import format_address, is_ipv4, is_loopback

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig

_HA_PORT_OFFSET: Final = 1
_LOOK_UP_S: Final = 3


class Whereabouts:
    """`port` is the one clients connect to; until the server listens, that of the settings, which may be 0. `ha_port`
    is the one slaves connect to; 0 where they cannot, and the usual one is told. `ip` is the IPv4 address that is in
    records and message ids: 0.0.0.0 where the broker is known by an IPv6 address, or by a name that is not looked up.

    Raises InvalidArgument where no host follows from the settings.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self.host = _advertised_host(config)
        self.ip = _ip_of(self.host)
        self.port = config.listen_port
        self.ha_port = 0

    @property
    def address(self) -> str:
        """host:port, as clients are given it."""
        return format_address(self.host, self.port)

    async def look_up(self) -> None:
        """Finds out which IPv4 address a name has, for records and message ids, as RocketMQ's brokers do. Where nobody
        says so soon, it has none; nor where it is this machine's loopback, as Debian has it of a machine's own name: to
        any other machine that is another one."""
        if self.ip != NO_IP or ":" in self.host:
            return
        with suppress(OSError, UnicodeError):  # the first, too, when it takes too long
            async with asyncio.timeout(_LOOK_UP_S):
                loop = asyncio.get_running_loop()
                found = await loop.getaddrinfo(self.host, None, family=socket.AF_INET, type=socket.SOCK_STREAM)
                self.ip = next((ip for each in found if not is_loopback(ip := str(each[4][0]))), NO_IP)

    @property
    def store_host(self) -> bytes:
        """`ip` and the port, as a field of records."""
        return pack_host(self.ip, self.port)

    def identity(self) -> BrokerIdentity:
        """Under what the broker is registered."""
        config = self._config
        return BrokerIdentity(
            config.broker_name,
            config.broker_id,
            config.broker_cluster_name,
            self.address,
            format_address(self.host, self.ha_port or self.port + _HA_PORT_OFFSET),
        )


def _ip_of(host: str) -> str:
    if host == "localhost":
        return "127.0.0.1"
    return host if is_ipv4(host) else NO_IP


def _advertised_host(config: BrokerConfig) -> str:
    if config.broker_ip1:
        return config.broker_ip1
    if config.bind_address in ("0.0.0.0", "::", ""):
        raise InvalidArgument(
            f"A broker that listens on {config.bind_address!r} must be told under which host clients reach it.",
            hint="Set broker_ip1 (--advertise).",
        )
    return config.bind_address
