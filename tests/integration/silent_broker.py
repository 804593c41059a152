"""A broker that name servers know and nobody hears of, as one is for two minutes after it was killed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import RegisterBrokerRequestHeader
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def silent_broker(namesrv: str, name: str = "broker-x", *topics: str) -> Iterator[None]:
    """It is registered, with one queue of each of these topics, while the block runs, and no longer."""
    with reserved_port() as port:
        connection = BlockingConnection(namesrv, connect_timeout_ms=3000)
        header = RegisterBrokerRequestHeader(name, f"127.0.0.1:{port}", "DefaultCluster", "127.0.0.1:1", 0)
        body = RegisterBrokerBody(TopicConfigTable({name: TopicConfig(name, 1, 1) for name in topics}, DataVersion(1)))
        connection.call(RequestCode.REGISTER_BROKER, header, body.encode(), timeout_ms=3000).raise_for_code()
        try:
            yield
        finally:
            connection.close()
        with ClusterClient(namesrv) as client:
            while name in client.cluster_info().brokerAddrTable:
                pass
