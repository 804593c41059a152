"""A slave asks one master at a time for its tables, whatever name servers say meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing, suppress
from errno import EIO
from typing import TYPE_CHECKING

import msgspec
import pytest

from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.replica.table_sync import TableSync
from rmqspark.broker.tables import BrokerTables
from rmqspark.protocol.bodies.admin import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from rmqspark.protocol.bodies.route import KVTable, TopicConfig, TopicConfigTable
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.commands.command import decode_command, split_frame
from rmqspark.protocol.commands.encoding import encode_response
from rmqspark.protocol.commands.frame import FrameDecoder
from rmqspark.protocol.names import CHECK_GROUP, HALF_TOPIC, TXN_LEDGER_TOPIC
from rmqspark.remoting.access import OPEN
from rmqspark.testing.disk_faults import ProcessDied
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.memory_files import MemoryFileSystem

from ..replication.pair import until
from ..store.store_bench import StoreBench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from rmqspark.remoting.response import Response

    Offsets = dict[str, dict[int, int]]
    Told = Callable[..., Awaitable[tuple[int | None, int | None]]]

TABLES = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigTable({"orders": TopicConfig(topicName="orders")}).encode(),
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetTable({}).encode(),
    RequestCode.GET_ALL_DELAY_OFFSET: b"",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupTable().encode(),
    RequestCode.GET_BROKER_CONFIG: b"brokerRole=SYNC_MASTER\n",
}

_FIGURES = KVTable({"commitLogMinOffset": "0", "commitLogMaxOffset": "0"}).encode()


class Master:
    """Answers a slave from TABLES. `heard` is what was asked, `on_ask` is told of it before that is answered."""

    def __init__(self) -> None:
        self.address = ""
        self.heard: list[int] = []
        self.connections = 0
        self.on_ask: Callable[[int], None] = lambda code: None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        frames = FrameDecoder()
        with closing(writer):
            while chunk := await reader.read(1 << 16):
                for frame in frames.feed(chunk):
                    command = decode_command(split_frame(frame))
                    self.heard.append(command.code)
                    self.on_ask(command.code)
                    body = TABLES.get(RequestCode(command.code))
                    code = ResponseCode.SUCCESS if body is not None else ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                    writer.writelines(encode_response(command.opaque, code, body=body or b""))
        self.connections -= 1


@asynccontextmanager
async def a_master() -> AsyncIterator[Master]:
    master = Master()
    async with await asyncio.start_server(master.serve, "127.0.0.1", 0) as server:
        master.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield master


class Passwords:
    """In the place of the users: asks once."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    async def take(
        self, ask: Callable[[RequestCode, msgspec.Struct | None], asyncio.Future[Response]], master: str
    ) -> None:
        self.checked.append(master)
        await ask(RequestCode.RMQ_ACCOUNTS, None)


def sync_of(
    accounts: Passwords | None = None, *, store: StoreBench | None = None, copies: list[bool] | None = None
) -> tuple[TableSync, BrokerTables]:
    """With a `store` that is the copy of the master's, as long as `copies` begins so."""
    clock, bench = ManualClock(), store or StoreBench()
    tables = BrokerTables(BrokerConfig(), MemoryFileSystem(), clock)
    is_copy = [store is not None] if copies is None else copies
    sync = TableSync("broker-a", tables, bench.store, lambda: is_copy[0], clock, OPEN, accounts)  # type: ignore[arg-type]
    return sync, tables


def topics(*names: str) -> bytes:
    return TopicConfigTable({name: TopicConfig(topicName=name) for name in names}).encode()


def groups(*names: str) -> bytes:
    return SubscriptionGroupTable({name: SubscriptionGroupConfig(groupName=name) for name in names}).encode()


def halves_ended(offset: int, log_end: int, others: Offsets | None = None) -> dict[RequestCode, bytes]:
    """What a master says whose half messages before this offset have ended, and whose log ends there."""
    ended = {f"{HALF_TOPIC}@{CHECK_GROUP}": {0: offset}, "orders@billing": {0: offset}}
    offsets = ConsumerOffsetTable(ended | (others or {}))
    figures = KVTable({"commitLogMinOffset": "0", "commitLogMaxOffset": str(log_end)})
    return {
        RequestCode.GET_ALL_CONSUMER_OFFSET: offsets.encode(),
        RequestCode.GET_BROKER_RUNTIME_INFO: figures.encode(),
    }


@asynccontextmanager
async def a_copy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[StoreBench, BrokerTables, Told]]:
    """A slave's store, its tables, and a round that asks a master whose half messages had ended as told."""
    async with a_master() as master:
        bench = StoreBench()
        sync, tables = sync_of(store=bench)
        sync.master = master.address

        async def told(offset: int, log_end: int, others: Offsets | None = None) -> tuple[int | None, int | None]:
            for code, body in halves_ended(offset, log_end, others).items():
                monkeypatch.setitem(TABLES, code, body)
            await sync.run_round()
            committed = tables.offsets.committed
            return committed(CHECK_GROUP, HALF_TOPIC, 0), committed("billing", "orders", 0)

        yield bench, tables, told
        await sync.close()


def test_topics_outlive_a_kill() -> None:
    """Right after they were taken: a start would make them anew, with the queues in which it finds messages, and those
    that come for another are not readable before the master's table is seen again."""
    files, clock = MemoryFileSystem(), ManualClock()

    async def look() -> None:
        async with a_master() as master:
            tables = BrokerTables(BrokerConfig(), files, clock)
            sync = TableSync("broker-a", tables, StoreBench().store, lambda: False, clock, OPEN)
            sync.master = master.address
            await sync.run_round()
            await sync.close()

    asyncio.run(look())
    assert BrokerTables(BrokerConfig(), files, clock).topics.get("orders") == TopicConfig(topicName="orders")


@pytest.mark.parametrize(("name", "are_taken"), [("broker-a", True), ("broker-b", False), (None, True)])
def test_nothing_is_taken_of_another_broker(
    monkeypatch: pytest.MonkeyPatch, name: str | None, *, are_taken: bool
) -> None:
    """It may have the address of a master that is gone. Made the master, the slave would know its topics, and groups go
    on where they are there, behind messages that nobody has read. A stock master does not say who it is."""
    told = TopicConfigTable({"orders": TopicConfig(topicName="orders")}, brokerName=name)
    monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, told.encode())
    offsets = ConsumerOffsetTable({"orders@billing": {0: 7}})
    monkeypatch.setitem(TABLES, RequestCode.GET_ALL_CONSUMER_OFFSET, offsets.encode())

    async def talk() -> None:
        async with a_master() as master:
            sync, tables = sync_of()
            sync.master = master.address
            await sync.run_round()
            assert (tables.topics.get("orders") is not None) == are_taken
            assert tables.offsets.committed("billing", "orders", 0) == (7 if are_taken else None)
            await sync.close()

    asyncio.run(talk())


def test_delays_that_were_delivered_where_the_log_has_not_come_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stock master, too, which does not say where its log was then."""

    async def talk() -> None:
        async with a_copy(monkeypatch) as (bench, tables, told):
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_DELAY_OFFSET, DelayOffsetTable({3: 7}).encode())
            await told(0, 100)
            assert tables.delays.next_offsets == {}
            bench.send("orders", 0, b"what the master had then")
            await told(0, 100)
            assert tables.delays.next_offsets == {3: 7}

    asyncio.run(talk())


def test_delays_that_were_delivered_in_another_log_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave's tail may not be its master's. As long as it is there, what the master has delivered in its place is not
    here: made the master, the slave would pass over these messages."""

    async def talk() -> None:
        async with a_master() as master:
            bench, clock = StoreBench(), ManualClock()
            bench.send("orders", 0, b"what this slave alone has")
            told = DelayOffsetTable({3: 7}, logOffset=bench.store.end_offset)
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_DELAY_OFFSET, told.encode())
            tables = BrokerTables(BrokerConfig(), MemoryFileSystem(), clock)
            copies = [False, True]
            sync = TableSync("broker-a", tables, bench.store, lambda: copies[0], clock, OPEN)
            sync.master = master.address
            await sync.run_round()
            assert tables.delays.next_offsets == {}
            del copies[0]
            await sync.run_round()
            assert tables.delays.next_offsets == {3: 7}
            await sync.close()

    asyncio.run(talk())


def test_half_messages_whose_ends_have_not_come_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave that takes its master's place would pass over those that ended where its log has not come to."""

    async def talk() -> None:
        async with a_copy(monkeypatch) as (bench, _, told):
            assert await told(6, 100) == (None, 6)
            bench.send("orders", 0, b"what the master had then")
            assert bench.store.end_offset >= 100
            assert await told(7, 1000) == (6, 7), "the first word holds by now"
            assert await told(8, bench.store.end_offset) == (8, 8)

    asyncio.run(talk())


def test_the_word_of_a_master_ends_with_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been started again without the end of its log: what had ended there is open once more."""

    async def talk() -> None:
        async with a_copy(monkeypatch) as (bench, _, told):
            assert await told(6, 100) == (None, 6)
            with monkeypatch.context() as unheard:
                unheard.delitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG)
                await told(6, 100)
            bench.send("orders", 0, b"what came in the place of that")
            assert bench.store.end_offset >= 100
            assert await told(2, bench.store.end_offset) == (2, 2)

    asyncio.run(talk())


def test_nothing_is_left_of_topics_and_groups_that_the_master_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave's tables do not grow with all names that there ever were. What a group committed here stays."""

    async def talk() -> None:
        async with a_copy(monkeypatch) as (bench, tables, told):
            tables.offsets.commit("mine", "orders", 0, 5)
            bench.send(TXN_LEDGER_TOPIC, 0, b"what is in no table")
            for number in range(30):
                name = f"run{number}"
                monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, topics("orders", f"%RETRY%{name}", name))
                monkeypatch.setitem(TABLES, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups(name))
                bench.send(name, 0, name.encode() * 50)
                await told(1, 0, {f"{name}@{name}": {0: 7}, f"orders@{name}": {0: 8}})
                assert tables.offsets.committed(name, "orders", 0) == 8
            assert sorted(tables.offsets.pairs()) == [
                (HALF_TOPIC, CHECK_GROUP),
                ("orders", "billing"),
                ("orders", "mine"),
                ("orders", "run29"),
                ("run29", "run29"),
            ]
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups())
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, topics("orders"))
            await told(1, 0)
            assert len(bench.store.queues.topics()) == 31, "their messages are there still"
            bench.expire()
            await told(1, 0)
            assert bench.store.queues.topics() == [TXN_LEDGER_TOPIC, "run29"]
            assert [config.topicName for config in tables.topics] == ["orders"]

    asyncio.run(talk())


def deleted(where: int, *names: str) -> bytes:
    """A master's topics of these names, which it deleted when its log ended there, and made anew."""
    table = TopicConfigTable({name: TopicConfig(topicName=name) for name in names})
    return msgspec.structs.replace(table, deletions={name: (where, 1000, True) for name in names}).encode()


def test_what_the_master_deleted_goes_with_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues, and what groups had committed; what the next topic of the name has got meanwhile stays, also after a
    start as the master."""

    async def talk() -> None:
        async with a_copy(monkeypatch) as (bench, tables, told):
            bench.send("orders", 0, b"a", b"b")
            bench.send("others", 0, b"c")
            where = bench.store.end_offset
            bench.send("orders", 1, b"of the next topic")
            tables.offsets.commit("mine", "orders", 0, 2)
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, deleted(where, "orders", "unknown"))
            await told(1, bench.store.end_offset)
            assert tables.offsets.pairs() == [("orders", "billing"), (HALF_TOPIC, CHECK_GROUP)]
            assert bench.store.deletions.deleted_ms("orders") == tables.known_deletion_ms == 1000
            for store in (bench.store, bench.kill()):
                assert [store.queues.bounds("orders", queue_id) for queue_id in (0, 1)] == [(0, 0), (0, 1)]
                assert store.queues.bounds("others", 0) == (0, 1)

    asyncio.run(talk())


def test_a_deletion_waits_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master may lose the end of its log, and have the next topic's messages where the last one's were."""

    async def talk() -> None:
        async with a_copy(monkeypatch) as (bench, _, told):
            bench.send("orders", 0, b"a")
            where = bench.store.end_offset
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, deleted(where + 1, "orders"))
            await told(1, where)
            assert bench.store.queues.bounds("orders", 0) == (0, 1)
            assert bench.store.deletions.newest_ms == 0
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, deleted(where, "orders"))
            bench.send("orders", 1, b"of the next topic")
            await told(1, where)
            assert [bench.store.queues.bounds("orders", queue_id) for queue_id in (0, 1)] == [(0, 0), (0, 1)]

    asyncio.run(talk())


def test_a_deletion_that_the_disk_refused_is_finished_by_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever operation fails: nothing of the topic is left, nor of what groups had committed to it here."""

    async def talk(failing: int) -> bool:
        async with a_copy(monkeypatch) as (bench, tables, told):
            bench.send("orders", 0, b"a")
            bench.send("orders", 1, b"b")
            tables.offsets.commit("mine", "orders", 0, 1)
            where = bench.store.end_offset
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, deleted(where, "orders"))
            bench.disk.fail_at(failing, OSError(EIO, "refused"))
            with suppress(OSError):
                await told(1, where)
            has_failed = bench.disk.failed is not None
            bench.disk.heal()
            await told(1, where)
            assert bench.store.queues.queue_ids("orders") == []
            assert ("orders", "mine") not in tables.offsets.pairs()
            return has_failed

    failing = 1
    while asyncio.run(talk(failing)):
        failing += 1
    assert failing > 5


def test_a_slave_that_dies_as_it_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At any operation, in a power loss or without: the topic is there as it was, or is gone."""

    async def talk(dying: int, *, with_power: bool) -> bool:
        async with a_copy(monkeypatch) as (bench, _, told):
            bench.send("orders", 0, b"a", b"b")
            bench.send("others", 0, b"c")
            where = bench.store.end_offset
            bench.send("orders", 1, b"of the next topic")
            bench.store.checkpoint()
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, deleted(where, "orders"))
            bench.disk.stop_at(dying)
            with suppress(ProcessDied):
                await told(1, where)
            has_died = bench.disk.has_died
            store = bench.kill() if with_power else bench.lose_power(dying)
            found = [store.queues.bounds("orders", queue_id) for queue_id in (0, 1)]
            assert found == [(0, 0 if store.deletions.newest_ms else 2), (0, 1)]
            assert store.queues.bounds("others", 0) == (0, 1)
            return has_died

    for with_power in (True, False):
        dying = 1
        while asyncio.run(talk(dying, with_power=with_power)):
            dying += 1
        assert dying > 5


def test_another_master_whose_tables_are_empty_takes_no_offsets_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of one that begins anew is not what groups go by: not before the log is known to be the same."""

    async def talk() -> None:
        async with a_master() as master:
            sync, tables = sync_of()
            sync.master = master.address
            for body in (ConsumerOffsetTable({"orders@billing": {0: 7}}), ConsumerOffsetTable({})):
                monkeypatch.setitem(TABLES, RequestCode.GET_ALL_CONSUMER_OFFSET, body.encode())
                await sync.run_round()
            assert tables.offsets.committed("billing", "orders", 0) == 7
            await sync.close()

    asyncio.run(talk())


def test_nothing_is_taken_of_a_master_whose_log_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes back without its disk has neither topics nor groups, and users of its settings alone: this slave,
    which is to take its place, would be without them, too."""

    async def talk() -> None:
        async with a_master() as master:
            bench = StoreBench()
            bench.send("orders", 0, b"what this slave has")
            monkeypatch.setitem(TABLES, RequestCode.GET_BROKER_RUNTIME_INFO, _FIGURES)
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups("billing"))
            sync, tables = sync_of(passwords := Passwords(), store=bench, copies=(copies := [True]))
            sync.master = master.address
            await sync.run_round()
            copies[0] = False
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_TOPIC_CONFIG, topics("audit"))
            monkeypatch.setitem(TABLES, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups("auditors"))
            await sync.run_round()
            assert {"orders", "audit"} & {config.topicName for config in tables.topics} == {"orders"}
            assert {"billing", "auditors"} & {config.groupName for config in tables.groups} == {"billing"}
            assert len(passwords.checked) == 1
            await sync.close()

    asyncio.run(talk())


def test_a_round_is_about_one_master() -> None:
    """Another that is named in the middle of it is asked from the next round on: half of the tables of each would be
    nobody's, and whether passwords may be asked for was looked at for the first."""

    async def talk() -> None:
        async with a_master() as first, a_master() as second:
            sync, tables = sync_of(passwords := Passwords())

            def another(code: int) -> None:
                sync.master = second.address

            sync.master, first.on_ask = first.address, another
            await sync.run_round()
            assert [config.topicName for config in tables.topics] == ["orders"]
            assert first.heard[-1] == RequestCode.RMQ_ACCOUNTS
            assert passwords.checked == [first.address]
            assert not second.heard
            await sync.run_round()
            assert second.heard == first.heard
            await until(lambda: first.connections == 0)
            await sync.close()

    asyncio.run(talk())


def test_no_connection_is_left_behind() -> None:
    """What a master's role is may be asked while a round begins."""

    async def talk() -> None:
        async with a_master() as master:
            sync, _ = sync_of()
            sync.master = master.address
            _, role = await asyncio.gather(sync.run_round(), sync.master_role())
            assert role == "SYNC_MASTER"
            await sync.close()
            await until(lambda: master.connections == 0)

    asyncio.run(talk())
