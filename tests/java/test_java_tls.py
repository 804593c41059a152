"""TLS between the two: RocketMQ's clients on our servers, our clients on RocketMQ's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from ours import read, up
from rocketmq import wait_for

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.errors import HandshakeFailed, Unreachable
from rmqspark.model import Message
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.access import Access, Tls
from rmqspark.remoting.blocking import BlockingConnection

if TYPE_CHECKING:
    from pathlib import Path

    from rocketmq import RocketMQ

    from tests.certificates import Authority

pytestmark = [pytest.mark.java, pytest.mark.integration]

SENT_BY_QUICKSTART = 1000
LARGE = 1 << 20


def verifying(authority: Authority) -> list[str]:
    """How a Java client verifies servers, and shows them who it is."""
    cert, key = authority.issue("java-client", key_type="RSA")
    return [
        "-Dtls.enable=true",
        "-Dtls.test.mode.enable=false",
        "-Dtls.client.authServer=true",
        f"-Dtls.client.trustCertPath={authority.path}",
        f"-Dtls.client.certPath={cert}",
        f"-Dtls.client.keyPath={key}",
    ]


def test_java_clients_on_our_servers(rocketmq: RocketMQ, authority: Authority, tmp_path: Path) -> None:
    """RocketMQ's quickstart sends to and reads from servers of ours that demand TLS and its certificate; one that
    verifies nothing and shows none is not let in, nor is one without TLS."""
    cert, key = authority.issue()
    ours_cert, ours_key = authority.issue("broker-a")
    settings = {
        "tls-server-mode": "enforcing",
        "tls-server-cert-path": cert,
        "tls-server-key-path": key,
        "tls-server-need-client-auth": "require",
        "tls-server-trust-cert-path": authority.path,
        "tls-enable": "true",
        "tls-client-trust-cert-path": authority.path,
        "tls-client-cert-path": ours_cert,
        "tls-client-key-path": ours_key,
    }
    java = replace(rocketmq, properties=verifying(authority))
    access = Access(tls=Tls(authority.path, ours_cert, ours_key))
    with up(tmp_path, *(word for name, value in settings.items() for word in (f"--{name}", value))) as ours:
        said = java.run("example.quickstart.Producer", namesrv=ours.namesrv)
        assert said.count("sendStatus=SEND_OK") == SENT_BY_QUICKSTART
        assert len(read(ours.namesrv, "TopicTest", access=access)) == SENT_BY_QUICKSTART
        with java.running("example.quickstart.Consumer", namesrv=ours.namesrv) as consumer:
            wait_for(lambda: consumer.printed().count("Receive New Messages") >= SENT_BY_QUICKSTART, "all have arrived")
        for properties in (["-Dtls.enable=true"], []):
            refused = replace(rocketmq, properties=properties)
            with refused.running("example.quickstart.Producer", namesrv=ours.namesrv) as producer:
                wait_for(lambda: "Exception" in producer.printed(), "a send fails")
                producer.kill()  # it would try a thousand times
                assert "SEND_OK" not in producer.printed()
        assert len(read(ours.namesrv, "TopicTest", access=access)) == SENT_BY_QUICKSTART
        with pytest.raises(Unreachable, match="demands TLS"), Producer(ours.namesrv, access=Access()) as producer:
            producer.send(Message("TopicTest", b"plain"))


def test_our_clients_on_rocketmqs_servers(rocketmq: RocketMQ, authority: Authority, tmp_path: Path) -> None:
    """A name server in RocketMQ's test mode, whose certificate nobody can verify, and a broker with one of ours: both
    demand TLS, and messages large and small go through; verified is what can be."""
    cert, key = authority.issue(key_type="RSA")
    enforcing = ["-Dtls.server.mode=enforcing", "-Dtls.enable=true"]
    certified = ["-Dtls.test.mode.enable=false", f"-Dtls.server.certPath={cert}", f"-Dtls.server.keyPath={key}"]
    blind, trusting = Access(tls=Tls(auth_server=False)), Access(tls=Tls(authority.path))
    names = replace(rocketmq, properties=enforcing, access=blind)
    brokers = replace(rocketmq, properties=[*enforcing, *certified], access=blind)
    with names.name_server() as namesrv, brokers.broker(tmp_path / "store", namesrv) as broker:
        with AdminClient(namesrv, access=blind) as admin:
            admin.create_topic("encrypted", queues=1)
        bodies = [b"%d" % number * (LARGE // 4 if number % 10 == 0 else 1) for number in range(50)]
        with Producer(namesrv, access=blind) as producer:
            for body in bodies:
                producer.send(Message("encrypted", body))
        assert [message.body for message in read(namesrv, "encrypted", access=blind)] == bodies

        connection = BlockingConnection(broker.address, access=trusting)
        assert connection.call(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=60_000).code == 0
        connection.close()
        with pytest.raises(HandshakeFailed, match="not trusted|another host"):
            BlockingConnection(namesrv, access=trusting)
        with pytest.raises(Unreachable, match="demands TLS"):
            BlockingConnection(broker.address).call(RequestCode.GET_BROKER_RUNTIME_INFO, timeout_ms=60_000)
        broker.kill()
