"""Whom a slave follows when name servers tell of masters: one at a time, with its log and its tables."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.flusher import Flusher
from rmqspark.broker.parts import Given
from rmqspark.broker.replicating import SlaveRole
from rmqspark.broker.tables import BrokerTables
from rmqspark.broker.whereabouts import Whereabouts
from rmqspark.clock import SteadyClock
from rmqspark.entropy import SystemEntropy
from rmqspark.protocol.headers.cluster import RegisterBrokerResponseHeader

from ..replication.pair import filled, on_loop, serving, until
from ..store.store_bench import StoreBench

CONFIG = BrokerConfig(
    broker_role="SLAVE",
    broker_id=1,
    namesrv_addr="127.0.0.1:9876",
    ha_send_heartbeat_interval=50,
    ha_send_whole_log=True,
)


def slave_role(config: BrokerConfig) -> SlaveRole:
    bench = StoreBench()
    steady, entropy = SteadyClock(bench.clock), SystemEntropy(1)
    given = Given(config, bench.config, "store", bench.files, bench.clock, steady, entropy, None, Whereabouts(config))
    tables = BrokerTables(config, bench.files, bench.clock)
    return SlaveRole(given, bench.store, Flusher(bench.store, bench.config), tables, None)


def told(clients_port: int, slaves_port: int) -> RegisterBrokerResponseHeader:
    return RegisterBrokerResponseHeader(f"127.0.0.1:{slaves_port}", f"127.0.0.1:{clients_port}")


def whom(role: SlaveRole) -> tuple[str, str]:
    return role.tables.master, role.slave.master


@on_loop
async def test_nothing_is_taken_of_another_master_while_the_log_of_one_comes() -> None:
    """As where one that name servers do not reach any more goes on, and another is started in its place."""
    role = slave_role(CONFIG)
    async with serving(filled()) as master:
        first, other = told(1, master.port), told(2, master.port + 1)
        role.registered(first)
        running = asyncio.create_task(role.slave.run())
        await until(lambda: role.slave.is_connected)
        before = whom(role)
        role.registered(other)
        assert whom(role) == before == (first.masterAddr, first.haServerAddr)
    await until(lambda: not role.slave.is_connected)
    role.registered(other)
    assert whom(role) == (other.masterAddr, other.haServerAddr)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("ha_address", ["", "127.0.0.1:1"])
def test_where_the_log_comes_from_may_be_set(ha_address: str) -> None:
    """Then name servers say who else is asked, and nothing of the log."""
    role = slave_role(replace(CONFIG, ha_master_address=ha_address))
    role.registered(told(2, 3))
    assert whom(role) == ("127.0.0.1:2", ha_address or "127.0.0.1:3")
