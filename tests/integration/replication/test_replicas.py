"""A master and its slave as servers: what is sent to the one is read from the other."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import time
from contextlib import contextmanager
from dataclasses import replace
from random import randbytes
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.broker.config import BrokerConfig
from rmqspark.client.administration.broker_facts import metrics_of
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.pull_request import PullStatus
from rmqspark.client.sending.outgoing import SendConfig
from rmqspark.errors import Busy, FlushSlaveTimeout, NotWritable, RmqError, Unreachable
from rmqspark.model import MessageQueue, SendStatus
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.protocol.bodies.client import CapabilitiesBody
from rmqspark.protocol.bodies.replication import HaRuntimeInfo
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.headers.produce import SendMessageRequestHeader
from rmqspark.protocol.records.record import encode_record
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.remoting.address import parse_address
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.replication.registered import RegisteredSlaves
from rmqspark.replication.stream import report
from rmqspark.sink.sends.bulk_send import BulkSend
from rmqspark.testing import LocalCluster, cluster
from rmqspark.testing.in_process import TEST_STORE
from rmqspark.testing.manual_clock import ManualClock
from rmqspark.testing.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rmqspark.protocol.headers.types import Header
    from rmqspark.remoting.response import Response

pytestmark = pytest.mark.integration
QUICK = BrokerConfig(ha_send_heartbeat_interval=200, slave_sync_interval=100, ha_send_whole_log=True)
SYNC = replace(QUICK, broker_role="SYNC_MASTER")
SMALL_LOG = replace(TEST_STORE, mapped_file_size_commit_log=1 << 20)
PATIENCE_S = 60
ONE_TRY = SendConfig(retry_times_when_send_failed=0)


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came to this: {what}"
        time.sleep(0.01)


def ask(address: str, code: RequestCode, header: Header | None = None, body: bytes = b"") -> Response:
    """The answer of this very broker, whatever it is. Raises what the answer says went wrong."""
    connection = BlockingConnection(address)
    try:
        return connection.call(code, header, body, timeout_ms=10_000).raise_for_code()
    finally:
        connection.close()


def end_offset(address: str) -> int:
    """Of a broker's log."""
    answer = ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
    return int(json.loads(bytes(answer.body))["table"]["commitLogMaxOffset"])


def wait_until_copied(mq: LocalCluster) -> None:
    brokers = mq.brokers
    wait_until(lambda: end_offset(brokers["broker-a-1"]) == end_offset(brokers["broker-a"]), "the slave has it all")


def log_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (directory / "commitlog").iterdir()}


def send(mq: LocalCluster, count: int, topic: str = "orders", size: int = 100) -> list[SendStatus]:
    with Producer(mq.namesrv, config=ONE_TRY) as producer:
        return [
            producer.send(Message(topic, b"%d " % n + randbytes(size), keys=[f"k{n}"])).status for n in range(count)
        ]


def read(namesrv: str, topic: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with PullConsumer(namesrv) as consumer:
        consumer.assign(consumer.queues(topic))
        consumer.seek_to_beginning()
        wait_until(lambda: found.extend(m.body for m in consumer.poll(500)) or len(found) >= count, f"{count} are read")
    return found


def create(mq: LocalCluster, topic: str = "orders", queues: int = 2) -> None:
    with AdminClient(mq.namesrv) as admin:
        admin.create_topic(topic, queues=queues)


def test_a_slave_has_the_log_and_serves_it_while_its_master_is_away() -> None:
    """Clients read on from the slave, sends fail with an error, and the two logs are the same bytes."""
    with cluster(broker_config=QUICK, store_config=SMALL_LOG) as mq:
        create(mq)
        send(mq, 300, size=5_000)
        mq.start_slave()
        send(mq, 100)
        wait_until_copied(mq)
        assert len(log_of(mq.store_dir("broker-a"))) > 1
        before = sorted(read(mq.namesrv, "orders", 400))
        wait_until(lambda: has_topic(mq.brokers["broker-a-1"], "orders"), "the slave has the topic")
        assert [came_in(mq.brokers[name]) for name in ("broker-a", "broker-a-1")] == [400, 0]
        mq.stop_broker("broker-a")
        assert log_of(mq.store_dir("broker-a-1")) == log_of(mq.store_dir("broker-a"))
        assert sorted(read(mq.namesrv, "orders", 400)) == before
        with pytest.raises(RmqError):
            send(mq, 1)
        mq.start_broker("broker-a")
        assert send(mq, 50) == [SendStatus.OK] * 50
        wait_until_copied(mq)


def came_in(address: str) -> int:
    """Messages of "orders" that a broker counts as its own, as Prometheus hears it."""
    text = metrics_of(ask(address, RequestCode.RMQ_METRICS))
    lines = re.findall(r'^rocketmq_messages_in_total\{.*topic="orders".*\} (\S+)$', text, re.MULTILINE)
    return int(sum(map(float, lines)))


def has_topic(address: str, topic: str) -> bool:
    return b'"%s"' % topic.encode() in bytes(ask(address, RequestCode.GET_ALL_TOPIC_CONFIG).body)


def test_a_slave_refuses_messages() -> None:
    """Whoever sends to a slave by its address is told where to send to, and nothing is stored."""
    with cluster(broker_config=QUICK) as mq:
        create(mq)
        address = mq.start_slave()
        wait_until(lambda: has_topic(address, "orders"), "the slave has the topic")
        wait_until(lambda: identity(address) is not None, "the slave has heard from its master")
        end = end_offset(address)
        with ClusterClient(mq.namesrv) as client:
            addresses = client.cluster_info().brokerAddrTable["broker-a"].brokerAddrs
        assert addresses == {0: mq.brokers["broker-a"], 1: address}
        assert [capabilities(each).slave for each in addresses.values()] == [False, True]
        mq.stop_broker("broker-a")
        with AdminClient(mq.namesrv) as admin, pytest.raises(Unreachable, match="No master"):
            admin.create_topic("new", queues=1)
        with pytest.raises(NotWritable, match="slave"):
            ask(address, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic="orders"))
        with pytest.raises(NotWritable, match="slave"):
            ask(address, RequestCode.SEND_MESSAGE, A_SEND, b"body")
        assert end_offset(address) == end


A_SEND = SendMessageRequestHeader(
    producerGroup="g",
    topic="orders",
    defaultTopic="TBW102",
    defaultTopicQueueNums=4,
    queueId=0,
    sysFlag=0,
    bornTimestamp=0,
    flag=0,
)


def test_a_slave_takes_over_how_far_groups_are() -> None:
    """A consumer that goes on with the slave begins where its group was."""
    with cluster(broker_config=QUICK) as mq:
        create(mq)
        send(mq, 10)
        address = mq.start_slave()
        queue = MessageQueue("orders", "broker-a", 0)
        with PullConsumer(mq.namesrv, group="billing") as consumer:
            consumer.assign([queue])
            consumer.commit({queue: 3})
        wait_until(lambda: committed(address).get("orders@billing") == {0: 3}, "the slave knows the offset")
        mq.stop_broker("broker-a")
        with PullConsumer(mq.namesrv, group="billing") as consumer:
            assert consumer.committed(queue) == 3


def committed(address: str) -> dict[str, dict[int, int]]:
    return ConsumerOffsetTable.decode(ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET).body).offsetTable


def test_a_sync_master_says_whether_a_slave_has_it() -> None:
    """Without a slave a message is stored and its sender told so; with one it is answered when the slave has it."""
    with cluster(broker_config=SYNC) as mq:
        create(mq)
        assert send(mq, 3) == [SendStatus.SLAVE_NOT_AVAILABLE] * 3
        address = mq.start_slave()
        wait_until(lambda: send(mq, 1) == [SendStatus.OK], "the slave is waited for")
        assert send(mq, 100) == [SendStatus.OK] * 100
        end = end_offset(mq.brokers["broker-a"])
        assert end_offset(address) == end
        master, slave = ha_status(mq.brokers["broker-a"]), ha_status(address)
        assert (master.master, master.inSyncSlaveNums, master.masterCommitLogMaxOffset) == (True, 1, end)
        assert [(each.slaveAckOffset, each.diff, each.inSync) for each in master.haConnectionInfo] == [(end, 0, True)]
        assert (slave.master, slave.haClientRuntimeInfo.activated) == (False, True)
        assert slave.haClientRuntimeInfo.maxOffset == end
        mq.stop_slave()
        wait_until(lambda: send(mq, 1) == [SendStatus.SLAVE_NOT_AVAILABLE], "it is noticed that the slave is gone")


@contextmanager
def hanging_slave(**settings: int) -> Iterator[LocalCluster]:
    """A master with a topic, and a slave that has confirmed once and never does again."""
    with reserved_port() as port:
        config = replace(SYNC, ha_listen_port=port, **settings)
        with cluster(broker_config=config) as mq, socket.create_connection(("127.0.0.1", port)) as hanging:
            create(mq)
            hanging.sendall(report(0) + report(0))
            wait_until(lambda: ha_status(mq.brokers["broker-a"]).inSyncSlaveNums == 1, "it counts as a slave")
            yield mq


def test_a_slave_that_never_confirms_is_given_up() -> None:
    """A slave that hangs costs each sender the time allowed, and the sender is told that it has not confirmed."""
    with hanging_slave(slave_timeout=100) as mq:
        assert send(mq, 3) == [SendStatus.FLUSH_SLAVE_TIMEOUT] * 3
        with ClusterClient(mq.namesrv) as client, pytest.raises(FlushSlaveTimeout):
            send_bulk(client)


def test_who_waits_when_its_broker_stops_is_answered() -> None:
    """A broker that stops in order waits for its slave as long as it would have, and says what came of it."""
    with hanging_slave(slave_timeout=1500) as mq:
        end = end_offset(mq.brokers["broker-a"])
        with Producer(mq.namesrv, config=ONE_TRY) as producer:
            sent = producer.send_async(Message("orders", b"last"))
            wait_until(lambda: end_offset(mq.brokers["broker-a"]) > end, "it is stored")
            mq.stop_broker("broker-a")
            assert sent.result(PATIENCE_S).status is SendStatus.FLUSH_SLAVE_TIMEOUT


def send_bulk(client: ClusterClient) -> None:
    """As Spark's sink sends."""
    queue = MessageQueue("orders", "broker-a", 0)
    records = RecordBatch.scan(bytearray(encode_record(topic="orders", queue_id=0, body=b"row")))
    BulkSend.of(queue, records).submit(client.broker("broker-a")).result()


def ha_status(address: str) -> HaRuntimeInfo:
    return HaRuntimeInfo.decode(ask(address, RequestCode.GET_BROKER_HA_STATUS).body)


def test_slave_and_master_change_places() -> None:
    """An operator makes the slave the master: what was acknowledged is there."""
    with cluster(broker_config=SYNC) as mq:
        create(mq)
        mq.start_slave()
        wait_until(lambda: send(mq, 1) == [SendStatus.OK], "the slave is waited for")
        send(mq, 20)
        addresses = mq.brokers
        before = identity(addresses["broker-a"])
        assert before is not None
        wait_until(lambda: identity(addresses["broker-a-1"]) == before, "the slave's store is known as the master's")
        change_places(mq)
        wait_until(lambda: send(mq, 1) == [SendStatus.OK], "the one that was the master is waited for")
        assert len(read(mq.namesrv, "orders", 22)) >= 22
        wait_until_copied(mq)
        now = identity(mq.brokers["broker-a"])
        assert now is not None
        assert now[0] == before[0]
        assert now[1] > before[1]


def test_a_master_that_comes_back_as_a_slave_shows_nothing_before_it_is_compared() -> None:
    """What it had stored last its successor may have lost, and given its offsets to others."""
    with cluster(broker_config=QUICK) as mq:
        create(mq)
        send(mq, 5)
        mq.stop_broker("broker-a")
        mq.store_dir("broker-a").rename(mq.store_dir("broker-a-1"))
        queue = MessageQueue("orders", "broker-a", 0)
        with ClusterClient(mq.namesrv) as client:
            slave = client.broker_at("broker-a", mq.start_slave())
            pulled = slave.submit_pull(queue, 0, group="g", max_count=32).result()
            assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED, 0)
            assert pulled.topic_deleted_ms is None, "its master would know whether there was another topic of the name"
            for asked in (slave.max_offset, slave.min_offset):
                with pytest.raises(Busy, match="has not been compared"):
                    asked("orders", 0)
            with pytest.raises(Busy, match="has not been compared"):
                slave.bulk_read("orders", 0, 0, 5, max_count=9, max_bytes=1 << 20).result()


def come_back_with_less(mq: LocalCluster) -> None:
    """The master loses what it stored last, which its slave has, and stores other messages there."""
    create(mq)
    mq.start_slave()
    send(mq, 20)
    wait_until_copied(mq)
    mq.stop_broker("broker-a")
    store, backup = mq.store_dir("broker-a"), mq.directory / "backup"
    shutil.copytree(store, backup)
    mq.start_broker("broker-a")
    send(mq, 20)
    wait_until_copied(mq)
    mq.stop_broker("broker-a")
    shutil.rmtree(store)
    backup.rename(store)
    mq.start_broker("broker-a")
    send(mq, 5)


def test_what_an_async_master_lost_is_cut_off_its_slave() -> None:
    """The two logs are the same again, and what was cut off is kept aside."""
    with cluster(broker_config=QUICK) as mq:
        come_back_with_less(mq)
        wait_until_copied(mq)
        mq.stop_broker("broker-a")
        assert log_of(mq.store_dir("broker-a-1")) == log_of(mq.store_dir("broker-a"))
        assert len(list((mq.store_dir("broker-a-1") / "cut").iterdir())) == 1


def test_a_master_that_comes_back_finds_its_port_for_slaves_free() -> None:
    """Nobody is given it meanwhile, be it for the connection of a slave that looks for it there: that would hear
    itself, and take it for another log."""
    with cluster() as mq:
        host, port = parse_address(mq.brokers["broker-a"])
        socket.create_connection((host, port + 1)).close()
        mq.stop_broker("broker-a")
        with socket.socket() as another, pytest.raises(OSError, match="in use"):
            another.bind((host, port + 1))
        mq.start_broker("broker-a")
        socket.create_connection((host, port + 1)).close()


def test_what_a_sync_master_lost_stays_on_its_slave() -> None:
    """It was acknowledged, and the slave has the only copy: it says so, and an operator decides."""
    with capture_logs() as logs, cluster(broker_config=SYNC) as mq:
        come_back_with_less(mq)
        end = end_offset(mq.brokers["broker-a-1"])
        wait_until(lambda: any("It is a SYNC_MASTER" in str(each.get("reason")) for each in logs), "it is told")
        assert end_offset(mq.brokers["broker-a-1"]) == end > end_offset(mq.brokers["broker-a"])


def capabilities(address: str) -> CapabilitiesBody:
    return CapabilitiesBody.decode(ask(address, RequestCode.RMQ_CAPABILITIES).body)


def identity(address: str) -> tuple[str, int] | None:
    """Of a broker's store; None of a slave that does not know whose its store is."""
    try:
        said = capabilities(address)
    except Busy:
        return None
    return said.storeId, said.incarnation


def test_a_slave_tells_of_no_store_before_it_has_heard_of_its_masters() -> None:
    """Its own would be another one to who reads there while the master is away, and from the master afterwards."""
    with cluster(broker_config=QUICK) as mq:
        masters = identity(mq.brokers["broker-a"])
        mq.stop_broker("broker-a")
        mq.start_slave()
        assert identity(mq.brokers["broker-a-1"]) is None
        mq.start_broker("broker-a")
        wait_until(lambda: identity(mq.brokers["broker-a-1"]) == masters, "the slave has heard from its master")
        mq.stop_broker("broker-a")
        mq.stop_slave()
        mq.start_slave()
        assert identity(mq.brokers["broker-a-1"]) == masters


def test_a_reader_hears_which_store_a_slave_is_a_copy_of_by_now() -> None:
    """Its master has lost the end of its store and is there again; to who goes by what the slave said before, on the
    connection that he has to it, the master's store would be a later one than the slave's."""
    with cluster(broker_config=QUICK) as mq, ClusterClient(mq.namesrv, clock=(clock := ManualClock())) as client:
        mq.start_slave()
        address = mq.brokers["broker-a-1"]
        wait_until(lambda: identity(address) is not None, "the slave has heard from its master")
        slave = client.broker_at("broker-a", address)
        before = slave.capabilities()
        mq.stop_broker("broker-a")
        (mq.store_dir("broker-a") / "abort").touch()  # as if its machine had lost its power
        mq.start_broker("broker-a")
        wait_until(lambda: identity(address) == (before.store_id, before.incarnation + 1), "the slave has heard of it")
        clock.advance(seconds=2)
        assert slave.capabilities().incarnation == before.incarnation + 1


def test_delayed_messages_are_delivered_once_whoever_is_master() -> None:
    """What waited when its master went is delivered by the slave that takes its place, what was delivered is not."""
    with cluster(broker_config=SYNC) as mq:
        create(mq)
        mq.start_slave()
        wait_until(lambda: send(mq, 1, "probes") == [SendStatus.OK], "the slave is waited for")
        with Producer(mq.namesrv) as producer:
            producer.send(Message("orders", b"early", delay_level=1))
            assert read(mq.namesrv, "orders", 1) == [b"early"]
            producer.send(Message("orders", b"late", delay_level=2))
        wait_until_copied(mq)
        mq.stop_broker("broker-a")
        mq.stop_slave()
        mq.store_dir("broker-a").rename(mq.directory / "gone")
        mq.store_dir("broker-a-1").rename(mq.store_dir("broker-a"))
        mq.start_broker("broker-a")
        assert sorted(read(mq.namesrv, "orders", 2)) == [b"early", b"late"]


def change_places(mq: LocalCluster) -> None:
    """The slave's store is the master's from here on, and what was the master's its slave's."""
    mq.stop_broker("broker-a")
    mq.stop_slave()
    old, new, aside = mq.store_dir("broker-a"), mq.store_dir("broker-a-1"), mq.directory / "aside"
    old.rename(aside)
    new.rename(old)
    aside.rename(new)
    mq.start_broker("broker-a")
    mq.start_slave()


def topic_names(address: str) -> set[str]:
    """Of topics that a test made."""
    answer = json.loads(bytes(ask(address, RequestCode.GET_ALL_TOPIC_CONFIG).body))
    return {name for name in answer["topicConfigTable"] if name.startswith(("gone", "orders", "remade"))}


def test_a_topic_that_was_deleted_does_not_come_back_with_another_master() -> None:
    """Whether its slave was there or away then, and also where the old master comes back, which had it, too."""
    with cluster(broker_config=SYNC) as mq, AdminClient(mq.namesrv) as admin:
        for topic in ("gone", "gone-meanwhile", "gone-later", "remade", "orders"):
            create(mq, topic)
        mq.start_slave()
        wait_until(lambda: send(mq, 1, "orders") == [SendStatus.OK], "the slave is waited for")
        for topic in ("gone", "gone-meanwhile", "gone-later", "remade"):
            send(mq, 6, topic)
        wait_until(lambda: has_topic(mq.brokers["broker-a-1"], "gone-later"), "the slave has the topics")
        admin.delete_topic("gone")
        wait_until(lambda: not has_topic(mq.brokers["broker-a-1"], "gone"), "the slave has heard of it")
        mq.stop_slave()
        admin.delete_topic("gone-meanwhile")
        admin.delete_topic("remade")
        create(mq, "remade")
        mq.start_slave()
        wait_until(lambda: send(mq, 1, "remade") == [SendStatus.OK], "the slave is waited for")
        wait_until(lambda: not has_topic(mq.brokers["broker-a-1"], "gone-meanwhile"), "the slave has heard of it")
        change_places(mq)
        wait_until(lambda: send(mq, 1, "orders") == [SendStatus.OK], "the one that was the master is waited for")
        assert topic_names(mq.brokers["broker-a"]) == {"gone-later", "remade", "orders"}
        assert sorted(bounds(mq, "remade", queue_id) for queue_id in (0, 1)) == [(0, 0), (0, 1)]
        admin.delete_topic("gone-later")
        wait_until(lambda: not has_topic(mq.brokers["broker-a-1"], "gone-later"), "the slave has heard of it")
        change_places(mq)
        assert topic_names(mq.brokers["broker-a"]) == {"remade", "orders"}


def bounds(mq: LocalCluster, topic: str, queue_id: int) -> tuple[int, int]:
    """On the master."""
    with ClusterClient(mq.namesrv) as client:
        broker = client.broker_at("broker-a", mq.brokers["broker-a"])
        return broker.min_offset(topic, queue_id), broker.max_offset(topic, queue_id)


def test_who_is_registered_as_a_slave() -> None:
    """The port for slaves asks the name servers who they are."""
    with cluster(broker_config=QUICK) as mq:
        registered = RegisteredSlaves("broker-a", ("127.0.0.1:1", *mq.namesrv.split(";")))
        assert asyncio.run(registered.count_at("127.0.0.1")) == 0
        mq.start_slave()
        assert asyncio.run(registered.count_at("127.0.0.1")) == 1
        assert asyncio.run(registered.count_at("127.0.0.2")) == 0
        assert asyncio.run(RegisteredSlaves("broker-b", mq.namesrv.split(";")).count_at("127.0.0.1")) == 0
        mq.start_slave(broker_id=2)
        assert asyncio.run(registered.count_at("127.0.0.1")) == 2


def test_one_slave_with_two_connections_is_one_copy() -> None:
    """Who wants three copies is not told that there are when one slave has connected twice; two slaves are two."""
    with reserved_port() as port, cluster(broker_config=replace(SYNC, in_sync_replicas=3, ha_listen_port=port)) as mq:
        create(mq)
        mq.start_slave()
        wait_until(lambda: ha_status(mq.brokers["broker-a"]).inSyncSlaveNums == 1, "the slave is in step")
        with socket.create_connection(("127.0.0.1", port)) as again:
            again.sendall(report(0) + report(0))
            wait_until(lambda: connections_in_step(mq) == 2, "both connections have confirmed")
            assert ha_status(mq.brokers["broker-a"]).inSyncSlaveNums == 1
            assert send(mq, 3) == [SendStatus.SLAVE_NOT_AVAILABLE] * 3
        mq.start_slave(broker_id=2)
        wait_until(lambda: send(mq, 1) == [SendStatus.OK], "two slaves are waited for")


def connections_in_step(mq: LocalCluster) -> int:
    return sum(each.slaveAckOffset >= 0 for each in ha_status(mq.brokers["broker-a"]).haConnectionInfo)
