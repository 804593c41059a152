"""How often a broker tells the name servers about itself."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.registration import BrokerIdentity, Registrar, is_away, next_retry
from rmqspark.errors import Busy, ConnectionLost, HandshakeFailed, NoPermission
from rmqspark.protocol.bodies.route import RegisterBrokerBody
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import RegisterBrokerRequestHeader
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.router import Reply, Route, Router
from rmqspark.remoting.server import RemotingServer

pytestmark = pytest.mark.integration
IDENTITY = BrokerIdentity("broker-a", 0, "DefaultCluster", "127.0.0.1:10911", "127.0.0.1:10912")


def test_a_registered_broker_rests_until_something_changes() -> None:
    """Registering once is enough: no loop of registrations keeps the machine busy."""
    registrations = 0

    def register(request: Any) -> Reply:
        nonlocal registrations
        registrations += 1
        assert request.header.allTopics
        return Reply()

    routes = {
        RequestCode.REGISTER_BROKER: Route(RegisterBrokerRequestHeader, register),
        RequestCode.UNREGISTER_BROKER: Route(None, lambda _: Reply()),
        RequestCode.GET_NAMESRV_CONFIG: Route(None, lambda _: Reply()),
    }

    async def scenario() -> None:
        async with RemotingServer(Router([routes]), host="127.0.0.1", port=0, limits=Limits()) as server:
            registrar = Registrar(
                [server.address], lambda: IDENTITY, RegisterBrokerBody, period_ms=30_000, timeout_ms=3_000
            )
            async with asyncio.TaskGroup() as tasks:
                await registrar.start(tasks)
                await registrar.registered()
                # Whoever spun would register many times while 300 other requests go back and forth.
                bystander = await AsyncConnection.open(server.address, timeout_ms=3_000)
                for _ in range(300):
                    await bystander.call(RequestCode.GET_NAMESRV_CONFIG, timeout_ms=3_000)
                await bystander.close()
                await registrar.stop()

    asyncio.run(scenario())
    assert registrations == 2


def test_a_name_server_that_was_away_for_long_is_noticed_as_soon_as_it_is_back() -> None:
    """It knows no topic until then, and whoever asks it takes them for gone; that went on for up to half a minute."""
    pauses = [0.5]
    while sum(pauses) < 600:
        pauses.append(next_retry(pauses[-1], 30, is_away=True))
    assert max(pauses) == 1.0
    assert next_retry(0.2, 0.1, is_away=True) == 0.1
    assert is_away(ConnectionLost("gone", address="127.0.0.1:9876"))


def test_a_name_server_that_refuses_is_asked_seldom() -> None:
    """Each time it has a list of all topics to read, and this broker to write it."""
    pauses = [0.5]
    while sum(pauses) < 600:
        pauses.append(next_retry(pauses[-1], 30, is_away=False))
    assert pauses[-1] == 30
    assert not is_away(NoPermission("no such user"))
    assert not is_away(Busy("4096 brokers are registered"))
    assert not is_away(HandshakeFailed("no TLS", address="127.0.0.1:9876"))


def test_topics_are_described_to_a_name_server_that_is_there() -> None:
    """20,000 of them take a tenth of a second, in which nobody else is served: not once a second for one that is
    away."""

    def describe() -> RegisterBrokerBody:
        raise AssertionError("described to nobody")

    async def scenario() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"  # nobody listens
            registrar = Registrar([address], lambda: IDENTITY, describe, period_ms=30_000, timeout_ms=3_000)
            async with asyncio.TaskGroup() as tasks:
                await registrar.start(tasks)
                await registrar.stop()

    asyncio.run(scenario())


def test_a_broker_outlives_a_registration_that_there_is_no_memory_for() -> None:
    """A list of 20,000 topics takes megabytes: it is made again a moment later."""
    refusals = [MemoryError(), MemoryError()]
    registered = asyncio.Event()

    def describe() -> RegisterBrokerBody:
        if refusals:
            raise refusals.pop()
        return RegisterBrokerBody()

    routes = {
        RequestCode.REGISTER_BROKER: Route(RegisterBrokerRequestHeader, lambda _: Reply()),
        RequestCode.UNREGISTER_BROKER: Route(None, lambda _: Reply()),
    }

    async def scenario() -> None:
        async with RemotingServer(Router([routes]), host="127.0.0.1", port=0, limits=Limits()) as server:
            registrar = Registrar([server.address], lambda: IDENTITY, describe, period_ms=10, timeout_ms=3_000)
            registrar.on_registered = lambda _: registered.set()
            async with asyncio.TaskGroup() as tasks:
                await registrar.start(tasks)
                await registered.wait()
                await registrar.stop()

    with capture_logs() as logs:
        asyncio.run(scenario())
    assert [entry["event"] for entry in logs if "namesrv" in entry] == ["not registered, trying on", "registered"]


def test_a_name_server_that_refuses_after_it_was_away_is_told_of() -> None:
    """Else the log of a broker that nobody finds says for ever that nothing answers, though its keys are wrong."""
    refused = asyncio.Event()

    def register(_: Any) -> Reply:
        refused.set()
        raise NoPermission("no such user")

    async def scenario() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        address = f"127.0.0.1:{port}"
        registrar = Registrar([address], lambda: IDENTITY, RegisterBrokerBody, period_ms=10, timeout_ms=3_000)
        async with asyncio.TaskGroup() as tasks:
            await registrar.start(tasks)  # nobody listens
            routes = {
                RequestCode.REGISTER_BROKER: Route(RegisterBrokerRequestHeader, register),
                RequestCode.UNREGISTER_BROKER: Route(None, lambda _: Reply()),
            }
            async with RemotingServer(Router([routes]), host="127.0.0.1", port=port, limits=Limits()):
                for _ in range(2):  # the second time it is no news
                    refused.clear()
                    await refused.wait()
                await registrar.registered()
                await registrar.stop()

    with capture_logs() as logs:
        asyncio.run(scenario())
    reasons = [entry["reason"] for entry in logs if entry["event"] == "not registered, trying on"]
    assert len(reasons) == 2
    assert "Nothing answers" in reasons[0]
    assert reasons[1].startswith("no such user")
