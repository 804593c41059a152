"""Who may change one group: these rights are enough, and to see all other groups it takes none."""

from __future__ import annotations

import asyncio

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.client.producer import Producer
from rmqspark.client.pull_consumer import PullConsumer
from rmqspark.errors import GroupNotFound, NoPermission
from rmqspark.model import Message
from rmqspark.remoting.access import Access, Credentials
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration

ANN = Credentials("ann", "ann-secret")


def test_who_may_change_a_group_need_not_see_the_others(guarded) -> None:
    """Update and Get of the group and its topics set it back, by a topic or by those that it has; Delete deletes it."""

    def read(namesrv: str, root: Access) -> None:
        with Producer(namesrv, access=root) as producer:
            receipt = producer.send(Message("orders", b"hello"))
        with PullConsumer(namesrv, group="billing", access=root) as consumer:
            consumer.assign([receipt.queue])
            consumer.poll(timeout_ms=60_000)
            consumer.commit()

    def use(namesrv: str, root: Access) -> None:
        with AdminClient(namesrv, access=root) as admin:
            admin.create_topic("orders", queues=1)
            admin.create_user(ANN.access_key, ANN.secret_key)
            admin.create_acl("ann", ["Topic:orders", "Group:bill*"], ["Update", "Get"])
            read(namesrv, root)
            with AdminClient(namesrv, access=Access(ANN)) as ann:
                with pytest.raises(NoPermission):
                    ann.groups()
                assert [each.read_again for each in ann.reset_group("billing", "earliest", topic="orders")] == [1]
                assert [each.read_again for each in ann.reset_group("billing", "latest")] == [-1]
                with pytest.raises(GroupNotFound):
                    ann.reset_group("bills", "earliest", topic="orders")
                admin.create_acl("ann", ["Group:billing"], ["Update", "Get", "Delete"])
                ann.delete_group("billing")
            assert admin.groups() == []

    async def talk(cluster) -> None:
        await asyncio.to_thread(use, cluster.namesrv.address, Access(cluster.root_user))

    guarded(talk, names=MemoryFileSystem())
