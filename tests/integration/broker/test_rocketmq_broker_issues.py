"""Bugs that Apache RocketMQ had in a single broker, beyond its store, under their numbers: here they must not happen.

Each docstring begins with what failed there. docs/reliability.md has the table; those of transactions are in
test_check_back.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rmqspark.broker.registration import BrokerIdentity, Registrar
from rmqspark.protocol.bodies.route import RegisterBrokerBody
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.remoting.limits import Limits
from rmqspark.remoting.router import Reply, Route, Router
from rmqspark.remoting.server import RemotingServer
from rmqspark.testing.memory_files import MemoryFileSystem

pytestmark = pytest.mark.integration
IDENTITY = BrokerIdentity("broker-a", 0, "DefaultCluster", "127.0.0.1:10911", "127.0.0.1:10912")


@pytest.mark.parametrize("topic", ["../../../fuzz2019", "..", "a/b", "..\\x", "/etc/x"])
def test_1637_a_topic_that_is_a_path(on_broker, topic: str) -> None:
    """CVE-2019-17572: a send to a topic like ../../x made a directory there, since topics are created by themselves."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await client.send("orders", b"made by itself")).code == 0
        before = everything(files)
        assert (await client.send(topic, b"x")).code == ResponseCode.INVALID_PARAMETER
        assert everything(files) == before

    on_broker(talk, files=files, auto_create_topic_enable=True)


def test_3407_a_thousand_new_topics_and_a_busy_name_server() -> None:
    """Every topic that came into being by itself had all topics sent to the name servers, at once, which took their
    memory. Here one registration is under way at a time, and one more tells of all that came meanwhile."""
    waiting: list[Any] = []
    come = asyncio.Event()
    bodies = 0

    def register(request: Any) -> None:
        waiting.append(request)
        come.set()

    def describe() -> RegisterBrokerBody:
        nonlocal bodies
        bodies += 1
        return RegisterBrokerBody()

    async def answer() -> None:
        await come.wait()
        come.clear()
        waiting.pop().answer(Reply())

    async def scenario() -> None:
        routes = {
            RequestCode.REGISTER_BROKER: Route(None, register),
            RequestCode.UNREGISTER_BROKER: Route(None, lambda _: Reply()),
        }
        async with RemotingServer(Router([routes]), host="127.0.0.1", port=0, limits=Limits()) as server:
            registrar = Registrar([server.address], lambda: IDENTITY, describe, period_ms=600_000, timeout_ms=60_000)
            async with asyncio.TaskGroup() as tasks:
                starting = tasks.create_task(registrar.start(tasks))
                await answer()
                await starting
                registrar.hurry()
                await come.wait()
                for _ in range(1_000):
                    registrar.hurry()
                    await asyncio.sleep(0)
                assert (len(waiting), bodies) == (1, 2)
                await answer()
                await answer()
                await registrar.stop()

    asyncio.run(scenario())
    assert bodies == 3


def everything(files: MemoryFileSystem, directory: str = "") -> set[str]:
    """All paths there are."""
    paths = {f"{directory}/{name}".lstrip("/") for name in files.listdir(directory)}
    return paths.union(*(everything(files, path) for path in paths if files.is_directory(path)))
