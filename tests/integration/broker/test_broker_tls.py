"""A cluster whose parts speak TLS to each other and to clients, and demand it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.broker import Broker
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import Unreachable
from rmqspark.model import Message
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.remoting.access import Access, Tls
from rmqspark.store.config import StoreConfig
from rmqspark.testing.memory_files import MemoryFileSystem
from rmqspark.txn.coordinator.peers import Peers

from .conftest import SMALL_STORE

if TYPE_CHECKING:
    from tests.certificates import Authority

pytestmark = pytest.mark.integration


def server_settings(authority: Authority) -> dict[str, Any]:
    cert, key = authority.issue()
    return {
        "listen_port": 0,
        "tls_server_mode": "enforcing",
        "tls_server_cert_path": cert,
        "tls_server_key_path": key,
        "tls_server_need_client_auth": "require",
        "tls_server_trust_cert_path": authority.path,
    }


def client_settings(authority: Authority) -> dict[str, Any]:
    cert, key = authority.issue("broker-a")
    return {
        "tls_enable": True,
        "tls_client_trust_cert_path": authority.path,
        "tls_client_cert_path": cert,
        "tls_client_key_path": key,
    }


def a_broker(namesrv: str, **settings: Any) -> Broker:
    return Broker(
        BrokerConfig(namesrv_addr=namesrv, **settings),
        StoreConfig(**SMALL_STORE),
        store_dir="store",
        files=MemoryFileSystem(),
        clock=SystemClock(),
        entropy=SystemEntropy(),
    )


def test_a_cluster_that_demands_tls(authority: Authority) -> None:
    """Brokers register, find each other and serve clients, all encrypted; whoever shows nothing is not let in."""
    cert, key = authority.issue("client")
    access = Access(tls=Tls(authority.path, cert, key))

    def talk(namesrv: str) -> list[bytes]:
        with Producer(namesrv, access=access) as producer:
            receipt = producer.send(Message("encrypted", b"hello"))
        with PullConsumer(namesrv, access=access) as consumer:
            consumer.assign([receipt.queue])
            bodies = [message.body for message in consumer.poll(timeout_ms=60_000)]
        with Producer(namesrv, access=Access()) as producer, pytest.raises(Unreachable, match="demands TLS"):
            producer.send(Message("encrypted", b"plain"))
        return bodies

    async def main() -> None:
        async with AsyncExitStack() as stack:
            names = NameServer(NamesrvConfig(**server_settings(authority)), clock=SystemClock())
            namesrv = (await stack.enter_async_context(names)).address
            told = {**server_settings(authority), **client_settings(authority)}
            await stack.enter_async_context(a_broker(namesrv, **told))
            peers = Peers("broker-z", [namesrv], BrokerConfig(**client_settings(authority)).access)
            assert await peers.refresh()
            assert peers.names() == ["broker-a"]
            assert await asyncio.to_thread(talk, namesrv) == [b"hello"]

    asyncio.run(main())


def test_a_broker_that_is_not_trusted_is_told_so(authority: Authority, stranger: Authority) -> None:
    """It serves, is not registered, and its log says why."""

    async def main() -> None:
        async with NameServer(NamesrvConfig(**server_settings(authority)), clock=SystemClock()) as names:
            with capture_logs() as logs:
                async with a_broker(names.address, listen_port=0, **client_settings(stranger)):
                    pass
            assert [entry["reason"] for entry in logs if entry["event"] == "not registered, trying on"]
            reason = next(entry["reason"] for entry in logs if entry["event"] == "not registered, trying on")
            assert "is not trusted" in reason
            assert "tls_client_trust_cert_path" in reason

    asyncio.run(main())
