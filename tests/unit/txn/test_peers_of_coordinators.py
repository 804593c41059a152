"""The other brokers of a cluster, by a name server, and the connections to them."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import pytest

from rmqspark.clock import SystemClock
from rmqspark.errors import RmqError, Unreachable
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.registration import Registration
from rmqspark.namesrv.server import NameServer
from rmqspark.namesrv.speaker import Speaker
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.txn import TxnCompleteRequestHeader, TxnOutcome
from rmqspark.testing.scripted_peer import ScriptedPeer, answer, expect, wait_for_close
from rmqspark.txn.coordinator.peers import Peers

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from rmqspark.testing.scripted_peer import Step


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


@pytest.mark.parametrize(
    ("who", "is_told"),
    [
        (answer(body=CapabilitiesBody(brokerName="broker-b").encode()), True),
        (answer(body=CapabilitiesBody(brokerName="broker-c").encode()), False),
        (answer(body=CapabilitiesBody().encode()), True),
        (answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED), True),
    ],
    ids=["it", "another", "one of an earlier version", "a stock broker"],
)
def test_who_listens_where_another_broker_was_is_told_nothing(who: Step, *, is_told: bool) -> None:
    """It may have completed its part of a version, and would be taken for the other, whose rows nobody would complete
    any more."""
    complete = TxnCompleteRequestHeader("T", 1, 0, TxnOutcome.COMMIT, durable=True)

    async def main(address: str) -> None:
        async with NameServer(NamesrvConfig(listen_port=0), clock=SystemClock()) as name_server:
            name_server._table.register(Registration("c", "broker-b", 0, address, Speaker(1)), 0)
            peers = Peers("broker-a", [name_server.address])
            with nullcontext() if is_told else pytest.raises(Unreachable, match="'broker-c' answers where 'broker-b'"):
                await peers.call("broker-b", RequestCode.RMQ_TXN_COMPLETE, complete, timeout_ms=60_000)
            await peers.close()

    told: list[Step] = [expect(RequestCode.RMQ_TXN_COMPLETE), answer()] if is_told else []
    with ScriptedPeer([expect(RequestCode.RMQ_CAPABILITIES), who, *told, wait_for_close()]) as peer:
        asyncio.run(main(peer.address))
