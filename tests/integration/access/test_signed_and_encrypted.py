"""Both together: keys of users over TLS, between servers and with clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import NoPermission, TopicNotFound
from rmqspark.model import Message
from rmqspark.remoting.access import Access, Credentials, Tls
from rmqspark.testing.memory_files import MemoryFileSystem

if TYPE_CHECKING:
    from tests.certificates import Authority

pytestmark = pytest.mark.integration

ANN = Credentials("ann", "ann-secret")


def test_keys_are_asked_for_over_tls_too(guarded, authority: Authority) -> None:
    """The broker registers by both; clients are served by both, and refused for want of rights as ever."""
    cert, key = authority.issue()
    tls = Tls(authority.path)

    def use(namesrv: str, root: Credentials) -> list[bytes]:
        with AdminClient(namesrv, access=Access(root, tls)) as admin:
            admin.create_topic("hers", queues=1)
            admin.create_topic("theirs", queues=1)
            admin.create_user(ANN.access_key, ANN.secret_key)
            admin.create_acl("ann", ["Topic:hers"], ["Pub", "Sub", "Get"])
            admin.create_acl("ann", ["Topic:theirs"], ["Get"])
            servers = {user.servers for user in admin.user("ann")}
        assert servers == {("broker-a", namesrv)}
        with Producer(namesrv, access=Access(ANN, tls)) as producer:
            receipt = producer.send(Message("hers", b"hello"))
            with pytest.raises(NoPermission, match="User:ann has no permission to access Topic:theirs"):
                producer.send(Message("theirs", b"hello"))
            with pytest.raises((NoPermission, TopicNotFound)):
                producer.send(Message("other", b"hello"))
        with PullConsumer(namesrv, access=Access(ANN, tls)) as consumer:
            consumer.assign([receipt.queue])
            return [message.body for message in consumer.poll(timeout_ms=60_000)]

    async def talk(cluster) -> None:
        assert await asyncio.to_thread(use, cluster.namesrv.address, cluster.root_user) == [b"hello"]

    encrypted = {"tls_server_mode": "enforcing", "tls_server_cert_path": cert, "tls_server_key_path": key}
    to_others = {"tls_enable": True, "tls_client_trust_cert_path": authority.path}
    guarded(talk, names=MemoryFileSystem(), tls=tls, **encrypted, **to_others)


def test_a_name_server_without_a_directory_is_left_out(guarded) -> None:
    """It has the users of its settings; others come by what it lets pass without keys."""

    def use(namesrv: str, root: Credentials) -> tuple[str, ...]:
        with AdminClient(namesrv, access=Access(root)) as admin:
            admin.create_topic("hers", queues=1)
            admin.create_user(ANN.access_key, ANN.secret_key)
            admin.create_acl("ann", ["Topic:hers"], ["Pub"])
            (user,) = admin.user("ann")
        with Producer(namesrv, access=Access(ANN)) as producer:
            producer.send(Message("hers", b"hello"))
        return user.servers

    async def talk(cluster) -> None:
        assert await asyncio.to_thread(use, cluster.namesrv.address, cluster.root_user) == ("broker-a",)

    guarded(talk, authentication_whitelist="105,106", authorization_whitelist="105,106")
