"""The other brokers of a cluster, by a name server, and the connections to them."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.registration import Registration
from rmqspark.namesrv.server import NameServer
from rmqspark.namesrv.speaker import Speaker
from rmqspark.protocol.codes import RequestCode
from rmqspark.txn.coordinator.peers import Peers

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter


async def hang_up(reader: StreamReader, writer: StreamWriter) -> None:
    """As a broker that stops as soon as it is asked something."""
    await reader.read(1)
    writer.close()


def test_nothing_is_kept_of_brokers_that_are_gone() -> None:
    """Machines get a new name each time they start, and who registers brokers may invent some."""

    async def main() -> None:
        broker = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        host, port = broker.sockets[0].getsockname()[:2]
        address, speaker = f"{host}:{port}", Speaker(1)
        async with broker, NameServer(NamesrvConfig(listen_port=0), clock=SystemClock()) as name_server:
            peers, table = Peers("broker-z", [name_server.address]), name_server._table
            for number in range(5):
                table.register(Registration("c", f"broker-{number}", 0, address, speaker), 0)
                with suppress(RmqError):
                    await peers.call(f"broker-{number}", RequestCode.RMQ_CAPABILITIES, timeout_ms=60_000)
                table.unregister(f"broker-{number}", address, speaker)
            await peers.refresh()
            kept = {name: value for name, value in vars(peers).items() if isinstance(value, dict)}
            assert kept == {"_addresses": {}, "_connections": {}}
            await peers.close()

    asyncio.run(main())
