"""The address of a broker in records and message ids, whatever it is called."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.whereabouts import Whereabouts

if TYPE_CHECKING:
    from collections.abc import Callable


def ip_of(host: str, known: dict[str, str], slow: Callable[[], Any] | None = None) -> str:
    """After it was looked up, where names have these addresses."""

    async def getaddrinfo(name: str, port: object, **_: object) -> list[Any]:
        if slow is not None:
            raise slow()
        if name not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (known[name], 0))]

    async def look_up() -> str:
        asyncio.get_running_loop().getaddrinfo = getaddrinfo  # type: ignore[method-assign]
        whereabouts = Whereabouts(BrokerConfig(broker_ip1=host))
        await whereabouts.look_up()
        assert whereabouts.host == host  # which clients are told
        return whereabouts.ip

    return asyncio.run(look_up())


@pytest.mark.parametrize(
    ("host", "ip"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("localhost", "127.0.0.1"),
        ("broker-a.example", "10.0.0.7"),
        ("unknown.example", "0.0.0.0"),
        ("this-machine", "0.0.0.0"),
        ("::1", "0.0.0.0"),
    ],
)
def test_a_name_is_looked_up(host: str, ip: str) -> None:
    """As RocketMQ's brokers do: its tools call what an id names, and two brokers of one port have no ids in common."""
    assert ip_of(host, {"broker-a.example": "10.0.0.7", "this-machine": "127.0.1.1"}) == ip


@pytest.mark.parametrize("error", [TimeoutError, lambda: UnicodeError("label empty or too long")])
def test_a_name_that_is_not_known_keeps_no_broker_from_its_start(error: Callable[[], Any]) -> None:
    assert ip_of("broker-a.example", {}, error) == "0.0.0.0"
