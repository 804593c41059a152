"""Whom a slave follows when name servers tell of masters: one at a time, with its log and its tables."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.delays.deliver_times import park_until
from rmqspark.broker.delays.deliveries import Deliveries
from rmqspark.broker.delays.parking import Place
from rmqspark.broker.delays.timed_messages import TimedMessages
from rmqspark.broker.given import Given
from rmqspark.broker.metrics.arrivals import Arrivals
from rmqspark.broker.metrics.timer_counts import TimerCounts
from rmqspark.broker.replica.replicating import MasterRole, SlaveRole
from rmqspark.broker.safekeeping.flusher import Flusher
from rmqspark.broker.state.lost_topics import LostTopics
from rmqspark.broker.tables import BrokerTables
from rmqspark.broker.whereabouts import Whereabouts
from rmqspark.clock import SteadyClock
from rmqspark.entropy import SystemEntropy
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import TimerTable
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.headers.cluster import RegisterBrokerResponseHeader
from rmqspark.protocol.names import CHECK_GROUP, HALF_TOPIC
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.draft import Draft

from ..replication.pair import filled, on_loop, serving, until
from ..store.store_bench import StoreBench, properties_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rmqspark.store.draft import Appended

CONFIG = BrokerConfig(
    broker_role="SLAVE",
    broker_id=1,
    namesrv_addr="127.0.0.1:9876",
    ha_send_heartbeat_interval=50,
    ha_send_whole_log=True,
)


def given(config: BrokerConfig, bench: StoreBench) -> Given:
    steady, entropy = SteadyClock(bench.clock), SystemEntropy(1)
    return Given(config, bench.config, "store", bench.files, bench.clock, steady, entropy, None, Whereabouts(config))


def slave_role(config: BrokerConfig, bench: StoreBench | None = None, tables: BrokerTables | None = None) -> SlaveRole:
    bench = bench or StoreBench()
    tables = tables or tables_of(bench)
    return SlaveRole(given(config, bench), bench.store, Flusher(bench.store, bench.config), tables, None)


def tables_of(bench: StoreBench) -> BrokerTables:
    return BrokerTables(BrokerConfig(), bench.files, bench.clock)


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


def with_a_timed_message() -> StoreBench:
    """One that is due in ten seconds."""
    bench = StoreBench()
    parked = park_until(Place("orders", 0), properties_for(b"timed"), bench.clock.now_ms() + 10_000)
    record = encode_record(topic=parked.topic, body=b"timed", properties=parked.properties)
    bench.store.append([Draft(parked.topic, 0, record)])
    return bench


@asynccontextmanager
async def follows(role: SlaveRole, bench: StoreBench) -> AsyncIterator[None]:
    """It has the log of this one's store sent to it meanwhile."""
    async with serving(bench) as master:
        role.registered(told(1, master.port))
        running = asyncio.create_task(role.slave.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def be_master(bench: StoreBench) -> None:
    """Delivers what is due, stops and notes how far that is."""
    tables = tables_of(bench)
    tables.topics.put(TopicConfig(topicName="orders", readQueueNums=1, writeQueueNums=1, perm=6), 0)

    def append(drafts: Sequence[Draft], *, makes_room: bool = False) -> list[Appended]:
        return bench.store.append(drafts, together=True, makes_room=makes_room)

    lost = LostTopics(BrokerConfig(), bench.store, tables.topics, tables.groups, bench.clock)
    deliveries = Deliveries(bench.store, append, lost.find, Arrivals(bench.store.queues))
    timed = TimedMessages(bench.store, deliveries, tables.timer, bench.clock, TimerCounts())
    timed.recover()
    await timed.run_round()
    timed.finish()
    await tables.save()


@on_loop
async def test_timed_messages_come_once_though_a_tail_of_the_first_masters_log_is_cut_off() -> None:
    """What it had noted of them is about that log: its slave, which has less, delivers where the tail was. Then the
    two change places once more."""
    first, second = with_a_timed_message(), with_a_timed_message()
    shared = first.store.end_offset
    first.send("orders", 0, *(b"%d" % number for number in range(20)))
    await be_master(first)

    for bench in (first, second):
        bench.clock.advance(ms=11_000)
    await be_master(second)
    assert second.bodies("orders", 0) == [b"timed"]
    first.reopen()
    role = slave_role(replace(CONFIG, ha_cut_tail=True), first)
    async with follows(role, second):
        await until(lambda: first.store.end_offset == second.store.end_offset > shared)

    first.reopen()
    first.store.lineage.end_following()
    await be_master(first)
    assert first.bodies("orders", 0) == [b"timed"]


@on_loop
async def test_what_is_noted_of_timed_messages_stays_where_nothing_is_cut_off() -> None:
    """It says of those that RocketMQ delivered, too, of which the log does not tell."""
    bench, master = with_a_timed_message(), with_a_timed_message()
    tables = tables_of(bench)
    noted = TimerTable(bench.clock.now_ms() + 11_000, 1, 1, bench.store.end_offset)
    tables.timer.note(noted)
    master.send("orders", 0, b"more")
    role = slave_role(CONFIG, bench, tables)
    async with follows(role, master):
        await until(lambda: bench.store.end_offset == master.store.end_offset)
    assert tables.timer.known == noted


@on_loop
async def test_what_has_ended_and_was_delivered_is_forgotten_before_a_tail_is_cut_off() -> None:
    """A master may have said so in the meantime of what it has lost since; a kill may come before it says anything."""
    bench, master = with_a_timed_message(), with_a_timed_message()
    bench.send("orders", 0, *(b"%d" % number for number in range(20)))
    master.send("orders", 0, *(b"other %d" % number for number in range(20)))
    tables = tables_of(bench)
    role = slave_role(replace(CONFIG, ha_cut_tail=True), bench, tables)
    tables.offsets.commit(CHECK_GROUP, HALF_TOPIC, 0, 6)
    tables.delays.put({3: 7}, bench.store.end_offset, 0)
    await tables.save()
    async with follows(role, master):
        await until(lambda: role.slave.is_connected)
    for each in (tables, tables_of(bench)):
        assert each.offsets.committed(CHECK_GROUP, HALF_TOPIC, 0) is None
        assert (each.delays.next_offsets, each.delays.log_offset) == ({}, 0)


def test_a_slave_forgets_which_half_messages_have_ended() -> None:
    """By its own word, or a master's of before: the log that says so may be cut. Groups are where they were."""
    tables = tables_of(bench := StoreBench())
    tables.offsets.commit(CHECK_GROUP, HALF_TOPIC, 0, 6)
    tables.offsets.commit("billing", "orders", 0, 7)
    slave_role(CONFIG, bench, tables)
    assert tables.offsets.committed(CHECK_GROUP, HALF_TOPIC, 0) is None
    assert tables.offsets.committed("billing", "orders", 0) == 7


def test_the_first_look_at_a_masters_tables_comes_soon() -> None:
    """Made the master before it, a slave would know neither topics nor groups; after a start it has those of before."""
    role = slave_role(CONFIG, bench := StoreBench())
    assert role.look_interval_ms == 1_000
    bench.store.lineage.adopt("a" * 32, 1)
    assert role.look_interval_ms == 10_000
    bench.reopen()
    assert slave_role(CONFIG, bench).look_interval_ms == 10_000
    assert slave_role(replace(CONFIG, slave_sync_interval=100)).look_interval_ms == 100


@pytest.mark.parametrize(("was_told", "levels"), [(True, ["warning"]), (False, ["warning", "error"])])
def test_a_slave_that_never_heard_its_masters_tables_and_is_made_the_master_says_so(
    was_told: bool, levels: list[str]
) -> None:
    """Its log is there, and topics and offsets that only the tables tell of are not."""
    bench = StoreBench()
    bench.store.replica.open_for_master()
    if was_told:
        bench.store.lineage.adopt("a" * 32, 1)
    bench.reopen()
    with capture_logs() as logs:
        MasterRole(given(BrokerConfig(), bench), bench.store, tables_of(bench), None)
    assert [entry["log_level"] for entry in logs] == levels


@on_loop
async def test_what_a_master_leased_counts_no_more_once_another_was_the_master() -> None:
    """That one leased the queues to others, who have read on: the first one's leases, and runs that it numbered, are of
    no use when it is the master again, nor what it still has on disk of them when it is killed at once."""
    bench, queue = StoreBench(), MessageQueue("orders", "broker-a", 0)
    tables = tables_of(bench)
    run = tables.locks.begin_run()
    leases = tables.locks.take("billing", "a query", [queue], 0, run)
    await tables.save()
    slave_role(CONFIG, bench, tables)
    for _ in range(2):
        tables = tables_of(bench)
        MasterRole(given(BrokerConfig(), bench), bench.store, tables, None)
        assert tables.locks.keep("billing", "a query", leases, 0, run) == []
        assert tables.locks.begin_run() > 1 << 40, "no number is given out twice"
        bench.kill()
    await tables.save()
    before = tables.locks.take("billing", "another query", [queue], 0, tables.locks.begin_run())
    MasterRole(given(BrokerConfig(), bench), bench.store, tables, None)
    assert tables.locks.keep("billing", "another query", before, 0, tables.locks.begin_run()) == [queue]
