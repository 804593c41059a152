"""A broker's life: start, restart, registration, flushing, stop."""

from __future__ import annotations

import asyncio
import copy
import errno
import socket
import threading
from contextlib import suppress

import pytest

from rmqspark.clock import SystemClock
from rmqspark.errors import InvalidArgument, PortInUse, StoreError, StoreLocked
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.protocol.bodies.client import ConsumerData, HeartbeatData
from rmqspark.protocol.bodies.route import TopicConfig, TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.headers.cluster import GetRouteInfoRequestHeader
from rmqspark.protocol.headers.consume import (
    GetMaxOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rmqspark.protocol.names import TXN_LEDGER_TOPIC
from rmqspark.store.json_table import JsonTable
from rmqspark.testing.memory_files import MemoryFile, MemoryFileSystem
from rmqspark.testing.ports import reserved_port

pytestmark = pytest.mark.integration

SYNC = {"flush_disk_type": "SYNC_FLUSH"}


async def route(bench, topic: str, address: str = ""):
    names = await bench.connect(address or bench.namesrv.address)
    return await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic))


async def until(condition) -> None:
    """Waits for what only shows when asked for."""
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - asking is the only way to see it
            await asyncio.sleep(0.005)


def test_a_restart_keeps_topics_messages_groups_and_offsets(on_broker) -> None:
    """All that was acknowledged is there again, and the store says the same id."""
    files = MemoryFileSystem()

    async def before(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders", 3)
        await client.send("orders", b"one", {"KEYS": "k"})
        await client.send("made-by-sending", b"two")
        await client.heartbeat(HeartbeatData("c", [], [ConsumerData("g")]))
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "orders", 0, 1))

    async def after(bench) -> None:
        client = await bench.connect()
        for topic, body in (("orders", b"one"), ("made-by-sending", b"two")):
            assert [record.body for record in bench.records(await client.pull(topic))] == [body]
        query = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "1"
        config = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("orders"))
        assert b'"readQueueNums":3' in bytes(config.body)
        assert (await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader("%RETRY%g"))).code == 0
        assert (await client.send("orders", b"three")).fields["queueOffset"] == "1"

    on_broker(before, files=files)
    on_broker(after, files=files)


def test_a_topic_made_by_a_send_survives_a_crash_right_behind_the_answer(on_broker) -> None:
    """The answer waits until a restart would know the topic: what is acknowledged can be read again."""
    files = MemoryFileSystem()

    async def before(bench) -> None:
        client = await bench.connect()
        assert (await client.send("orders", b"kept")).code == 0
        files.crash()

    async def after(bench) -> None:
        client = await bench.connect()
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"kept"]

    with suppress(StoreError):  # its files are gone: it ends as it can
        on_broker(before, files=files, store=SYNC)
    on_broker(after, files=files, store=SYNC)


def test_a_topic_with_messages_that_the_table_does_not_know_is_there_again(on_broker, monkeypatch) -> None:
    """Its maker waits for the table, but later senders are answered: a kill in between loses nothing of theirs."""
    files, is_open, save = MemoryFileSystem(), threading.Event(), JsonTable.save
    queues = {"orders": 2, "%RETRY%TOOLS_CONSUMER": 0}

    def save_late(table: JsonTable, text: str) -> None:
        assert not table.path.endswith("topics.json") or is_open.wait(60)
        save(table, text)

    async def before(bench) -> MemoryFileSystem:
        maker, client = await bench.connect(), await bench.connect()
        is_open.clear()
        making = [asyncio.create_task(maker.send(topic, b"first")) for topic in queues]
        await until(lambda: have_message(client, queues))
        for topic, queue_id in queues.items():
            assert (await client.send(topic, b"kept", e=queue_id)).code == 0
        left = copy.deepcopy(files)
        assert not any(each.done() for each in making)
        is_open.set()
        await asyncio.gather(*making)
        return left

    async def after(bench) -> None:
        client = await bench.connect()
        for topic, queue_id in queues.items():
            assert bench.records(await client.pull(topic, queueId=queue_id))[-1].body == b"kept"
            config = await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader(topic))
            told = TopicConfig.decode(config.body)
            assert told.readQueueNums == told.writeQueueNums == queue_id + 1
        assert (await client.ask(RequestCode.GET_TOPIC_CONFIG, TopicRequestHeader(TXN_LEDGER_TOPIC))).code != 0

    is_open.set()
    monkeypatch.setattr(JsonTable, "save", save_late)
    left = on_broker(before, files=files)
    left.kill()
    on_broker(after, files=left)


async def have_message(client, topics) -> bool:
    ends = [await client.ask(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic, 0)) for topic in topics]
    return all(end.fields.get("offset") == "1" for end in ends)


def test_offsets_beyond_a_lost_tail_are_moved_back(on_broker) -> None:
    """Else the group would skip the next messages (reliability, G5)."""
    files = MemoryFileSystem()

    async def commit(bench) -> None:
        client = await bench.connect()
        await client.send("orders")
        await client.pull("orders")
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "orders", 0, 50))

    async def ask(bench) -> None:
        client = await bench.connect()
        query = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "1"

    on_broker(commit, files=files)
    on_broker(ask, files=files)


@pytest.mark.parametrize("waits", ["true", "false"])
def test_sends_of_one_moment_share_a_flush(on_broker, waits) -> None:
    """With SYNC_FLUSH a hundred answers cost a few fsyncs; who does not wait is answered and flushed all the same."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        before = fsyncs(files)
        answers = await asyncio.gather(*(client.send("orders", b"x", {"WAIT": waits}) for _ in range(100)))
        assert {answer.code for answer in answers} == {0}
        assert fsyncs(files) - before < 20

        async def readable() -> bool:
            return (await client.pull("orders")).fields["maxOffset"] == "100"

        await until(readable)

    on_broker(talk, files=files, store=SYNC, max_transfer_count_on_message_in_memory=1)


def fsyncs(files: MemoryFileSystem) -> int:
    return sum(operation.name == "fsync" and "commitlog" in operation.path for operation in files.log)


def test_what_is_answered_under_sync_flush_survives_power_loss(on_broker) -> None:
    """Sends, a batch's neighbours and their topic, whatever the disk forgets."""
    files = MemoryFileSystem()

    async def before(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        answers = await asyncio.gather(*(client.send("orders", b"%d" % number) for number in range(30)))
        assert {answer.code for answer in answers} == {0}
        files.crash()

    async def after(bench) -> None:
        client = await bench.connect()
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"%d" % n for n in range(30)]

    with suppress(StoreError):  # its files are gone: it ends as it can
        on_broker(before, files=files, store=SYNC)
    on_broker(after, files=files, store=SYNC)


def test_nothing_is_acknowledged_after_a_failed_fsync(on_broker) -> None:
    """The send that waited and all later ones are refused; what was stored before can still be read."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.send("orders", b"safe")
        files.fail_next("fsync")
        assert (await client.send("orders", b"doubtful")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await client.send("orders", b"late")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        for _ in range(50):  # nor made readable by a later fsync, which would prove nothing
            await client.settle()
        assert [record.body for record in bench.records(await client.pull("orders"))] == [b"safe"]

    on_broker(talk, files=files, store={**SYNC, "flush_interval_commit_log": 1})


def test_a_failed_write_is_told_to_every_send_concerned(on_broker) -> None:
    """Nothing of it is stored, and when the disk is well again sends go on."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        await client.send("orders", b"first")
        files.fail_next("pwrite")
        refused = await asyncio.gather(*(client.send("orders", b"refused") for _ in range(5)))
        assert ResponseCode.SERVICE_NOT_AVAILABLE in {answer.code for answer in refused}
        stored = [b"refused" for answer in refused if answer.code == 0]
        await client.send("orders", b"second")
        records = bench.records(await client.pull("orders"))
        assert [record.body for record in records] == [b"first", *stored, b"second"]

    # No flush comes between, whose checkpoint would be the write that fails.
    on_broker(talk, files=files, store={"flush_interval_commit_log": 60_000})


def test_a_flush_that_takes_too_long_is_admitted(on_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code 10 with the receipt: stored, and perhaps not on disk."""
    is_free = threading.Event()
    is_free.set()
    fsync = MemoryFile.fsync
    monkeypatch.setattr(MemoryFile, "fsync", lambda file: is_free.wait(60) and fsync(file))

    async def talk(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        is_free.clear()
        answer = await client.send("orders", b"x")
        is_free.set()
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert answer.fields["queueOffset"] == "0"
        assert len(answer.fields["msgId"]) == 32

    on_broker(talk, store={**SYNC, "sync_flush_timeout": 1})


@pytest.mark.parametrize("error", [OSError(errno.EIO, "planned by the test"), MemoryError()], ids=["disk", "memory"])
def test_a_table_that_could_not_be_written_is_written_in_the_next_round(on_broker, error) -> None:
    """A disk that fails once, or memory that runs out, costs no offsets: the broker goes on, and a crash later finds
    what was committed."""
    files = MemoryFileSystem()

    async def commit(bench) -> None:
        client = await bench.connect()
        await client.create_topic("orders")
        for _ in range(8):
            await client.send("orders")
        await client.pull("orders")
        files.fail_next("rename", error)
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader("g", "orders", 0, 7))

        async def written() -> bool:
            return files.within("store").exists("config/consumerOffset.json")

        await until(written)
        files.kill()

    async def ask(bench) -> None:
        client = await bench.connect()
        query = QueryConsumerOffsetRequestHeader("g", "orders", 0)
        assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "7"

    with suppress(StoreError):  # its files are gone: it ends as it can
        on_broker(commit, files=files, flush_consumer_offset_interval=10)
    on_broker(ask, files=files)


def test_a_topic_is_there_to_stay_when_its_creation_is_answered(on_broker) -> None:
    """A full disk is told, in words and as an error that may pass; the same request again makes good for it."""
    files = MemoryFileSystem()

    def is_on_disk() -> bool:
        file = files.within("store").open("config/topics.json", read_only=True)
        return b'"orders"' in file.pread(file.size(), 0)

    async def talk(bench) -> None:
        client = await bench.connect()
        files.fail_next("rename", OSError(errno.ENOSPC, "No space left on device"))
        refused = await client.create_topic("orders")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "config/topics.json cannot be written" in refused.remark
        assert "No space left on device" in refused.remark
        assert not is_on_disk()
        assert (await client.create_topic("orders")).code == ResponseCode.SUCCESS
        assert is_on_disk()

    on_broker(talk, files=files)


# --- registration ---------------------------------------------------------------------------------------------------


def test_topics_are_known_to_the_name_server_when_their_making_is_answered(on_broker) -> None:
    """The next client asks for the route right away."""

    async def talk(bench) -> None:
        client = await bench.connect()
        assert (await route(bench, "TBW102")).code == 0
        await client.create_topic("orders", 2)
        found = TopicRouteData.decode((await route(bench, "orders")).body)
        assert found.brokerDatas[0].brokerAddrs == {0: bench.broker.address}
        assert (found.queueDatas[0].writeQueueNums, found.queueDatas[0].perm) == (2, 6)
        await client.send("made-by-sending")

        async def known() -> bool:
            return (await route(bench, "made-by-sending")).code == 0

        await until(known)

    on_broker(talk, namesrv=True)


def test_a_stopped_broker_is_no_longer_in_routes(on_broker) -> None:
    """It unregisters, so clients do not have to find out by failing."""

    async def talk(bench) -> None:
        assert (await route(bench, "TBW102")).code == 0
        await bench.broker.__aexit__(None, None, None)
        assert (await route(bench, "TBW102")).code == ResponseCode.TOPIC_NOT_EXIST

    on_broker(talk, namesrv=True)


def test_a_name_server_that_comes_back_learns_of_the_broker_again(on_broker) -> None:
    """A broker starts without one, and registers when it appears; when it was restarted empty, at once again."""

    async def talk(bench, port: int) -> None:
        for _ in range(2):
            async with NameServer(NamesrvConfig(listen_port=port), clock=SystemClock()) as names:

                async def known(address: str = names.address) -> bool:
                    return (await route(bench, "TBW102", address)).code == 0

                await until(known)

    with reserved_port() as port:
        on_broker(lambda bench: talk(bench, port), namesrv_addr=f"127.0.0.1:{port}")


def test_a_name_server_that_hangs_up_is_not_called_without_a_pause(on_broker) -> None:
    """Each try that fails is followed by a rest, whatever the way in which it failed."""
    calls: list[float] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls.append(asyncio.get_running_loop().time())
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]

            async def talk(bench) -> None:
                async def called_thrice() -> bool:
                    return len(calls) >= 3

                await until(called_thrice)

            await asyncio.to_thread(on_broker, talk, namesrv_addr=f"127.0.0.1:{port}")

    asyncio.run(main())
    assert calls[2] - calls[0] > 0.7  # half a second and a second; a busy machine may note a call late


# --- start and stop -------------------------------------------------------------------------------------------------


def test_old_clients_find_the_broker_two_ports_below(on_broker) -> None:
    """The VIP channel leads to the same broker."""

    async def talk(bench) -> None:
        client = await bench.connect(f"127.0.0.1:{bench.broker.port - 2}")
        assert (await client.send("orders")).code == 0

    on_broker(talk)


def test_a_port_in_use_is_named(on_broker) -> None:
    """The error says which and how to choose another, and the store is free again afterwards."""
    files = MemoryFileSystem()

    async def nothing(bench) -> None:
        return

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(PortInUse, match="--broker-port"):
            on_broker(nothing, files=files, listen_port=taken.getsockname()[1])
    on_broker(nothing, files=files)


def test_a_store_has_one_broker(on_broker) -> None:
    """A second one is refused before it listens."""
    files = MemoryFileSystem()

    async def talk(bench) -> None:
        del bench
        with pytest.raises(StoreLocked):
            await asyncio.to_thread(on_broker, nothing, files=files)

    async def nothing(bench) -> None:
        return

    on_broker(talk, files=files)


@pytest.mark.parametrize(
    "settings",
    [
        {"bind_address": "0.0.0.0", "broker_ip1": "127.0.0.1"},  # without insecure
        {"bind_address": "0.0.0.0", "insecure": True},  # which host is to be told to clients?
        {"namesrv_addr": "nowhere"},
    ],
)
def test_a_broker_that_nobody_could_reach_does_not_start(on_broker, settings) -> None:
    """What is missing is said at the start, not found out by clients."""

    async def nothing(bench) -> None:
        return

    with pytest.raises(InvalidArgument):
        on_broker(nothing, **settings)


def test_an_error_beside_a_broker_stays_what_it_is(on_broker) -> None:
    """Whoever runs a broker sees his own exceptions, not groups of them."""

    async def fail(bench) -> None:
        raise KeyError("mine")

    for namesrv in (False, True):
        with pytest.raises(KeyError, match="mine"):
            on_broker(fail, namesrv=namesrv)
