"""Connections to the port for slaves: how many there may be, and how they end."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest
import uvloop

from rmqspark.replication.admission import STRANGER

from ..store.store_bench import StoreBench
from .pair import PATIENCE_S, QUICK, WHOLE, filled, following, on_loop, serving, until

MOST = 64
SILENT = QUICK._replace(heartbeat_s=1000, housekeeping_s=1000)


async def end_of(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(PATIENCE_S):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""


@on_loop
async def test_connections_are_bounded() -> None:
    """One too many is hung up on, and counted; when others have ended there is room again."""
    original, copy = filled(2), StoreBench()
    async with serving(original, WHOLE._replace(housekeeping_s=1000)) as master:
        many = [await asyncio.open_connection("127.0.0.1", master.port) for _ in range(MOST)]
        await until(lambda: len(master.slaves) == MOST)
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        await end_of(reader)
        assert master.admission.refused[STRANGER] == master.admission.refused.total() == 1
        for each in (writer, *(writer for _, writer in many)):
            each.close()
        await until(lambda: not len(master.slaves))
        async with following(copy, master.port):
            await until(lambda: copy.store.end_offset == original.store.end_offset)


@pytest.mark.parametrize("turns", range(6))
def test_a_master_that_stops_hangs_up_on_all(turns: int) -> None:
    """On who is served, and on who connects at that very moment; none of its tasks goes on."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as brokers: asyncio's own loses some of these
        runner.run(connect_while_it_stops(turns))


async def connect_while_it_stops(turns: int) -> None:
    async with serving(filled(1), SILENT) as master:
        reader, writer = await asyncio.open_connection("127.0.0.1", master.port)
        await until(lambda: len(master.slaves) == 1)
        late = socket.create_connection(("127.0.0.1", master.port))
        late.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await end_of(reader)
    late_reader, late_writer = await asyncio.open_connection(sock=late)
    await end_of(late_reader)
    writer.close()
    late_writer.close()
