"""Somebody else says he is a broker that is alive: over real sockets, from another address of this machine."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from rmqspark.clock import SystemClock
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_request
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.headers.cluster import RegisterBrokerRequestHeader, UnregisterBrokerRequestHeader
from rmqspark.protocol.signature import signer

from ..access.conftest import GUARDED, INNER, ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import msgspec

    from rmqspark.protocol.commands.command import Command
    from rmqspark.remoting.access import Credentials

pytestmark = pytest.mark.integration
ADDRESS = "10.0.0.1:10911"
TOPICS = {name: TopicConfig(topicName=name) for name in ("orders", "bills")}
BODY = RegisterBrokerBody(TopicConfigTable(TOPICS, DataVersion(1, 0, 1))).encode()
HERE, ELSEWHERE = "127.0.0.1", "127.0.0.2"
DENIED = ResponseCode.NO_PERMISSION
GOODBYE = UnregisterBrokerRequestHeader(
    brokerName="broker-a", brokerAddr=ADDRESS, clusterName="DefaultCluster", brokerId=0
)


class Speaker:
    """A connection from one of this machine's addresses, in somebody's name or in nobody's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: Credentials | None) -> None:
        self._reader = reader
        self._writer = writer
        self._sign = None if user is None else signer(*user)
        self._frames = FrameDecoder()

    async def ask(self, code: RequestCode, header: msgspec.Struct | None = None, body: bytes = b"") -> Command:
        self._writer.writelines(encode_request(code, 1, header, body, sign=self._sign))
        while not (frames := self._frames.feed(await self._reader.read(1 << 16))):
            pass
        return decode_command(split_frame(frames[0]))

    async def register(self, ha_address: str = "10.0.0.1:10912") -> Command:
        header = RegisterBrokerRequestHeader(
            brokerName="broker-a",
            brokerAddr=ADDRESS,
            clusterName="DefaultCluster",
            haServerAddr=ha_address,
            brokerId=0,
        )
        return await self.ask(RequestCode.REGISTER_BROKER, header, BODY)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def speaker(names: NameServer, host: str, user: Credentials | None = None) -> AsyncIterator[Speaker]:
    streams = await asyncio.open_connection("127.0.0.1", names.port, local_addr=(host, 0))
    said = Speaker(*streams, user)
    yield said
    await said.close()


def name_server(**settings: object) -> NameServer:
    return NameServer(NamesrvConfig(listen_port=0, **settings), clock=SystemClock())  # type: ignore[arg-type]


def test_a_broker_that_is_alive_is_not_taken_over_from_another_host() -> None:
    """It is not registered with another port for slaves, nor taken off; it itself comes again over a new connection."""

    async def main() -> None:
        async with name_server() as names, speaker(names, HERE) as broker, speaker(names, ELSEWHERE) as forger:
            assert (await broker.register()).code == 0
            for forged in (forger.register("6.6.6.6:10912"), forger.ask(RequestCode.UNREGISTER_BROKER, GOODBYE)):
                answer = await forged
                assert answer.code == DENIED
                assert "is alive, and was registered from 127.0.0.1" in (answer.remark or "")
            async with speaker(names, HERE) as again:
                assert (await again.register()).code == 0
                assert (await again.ask(RequestCode.UNREGISTER_BROKER, GOODBYE)).code == 0
            assert (await forger.register()).code == 0  # there is none any more

    asyncio.run(main())


def test_where_users_are_on_a_living_broker_is_its_users() -> None:
    """Another user of the same machine cannot take it over, be it a super user; its own comes from anywhere."""

    async def main() -> None:
        async with (
            name_server(**GUARDED) as names,
            speaker(names, HERE, INNER) as broker,
            speaker(names, HERE, ROOT) as other,
            speaker(names, HERE) as nobody,
            speaker(names, ELSEWHERE, INNER) as moved,
        ):
            assert (await broker.register()).code == 0
            assert (await other.register()).code == DENIED
            assert (await other.ask(RequestCode.UNREGISTER_BROKER, GOODBYE)).code == DENIED
            assert (await nobody.register()).code == DENIED
            assert (await moved.register()).code == 0

    asyncio.run(main())
