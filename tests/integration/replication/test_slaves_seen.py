"""Slaves as operators see them: in commands, REST, the console's documents and metrics."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from rmqspark import AdminClient, Message, Producer, PullConsumer
from rmqspark.admin.reads import cluster as reads
from rmqspark.broker.config import BrokerConfig
from rmqspark.cli.verbs import app
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.cluster_status import look
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.watching.rates import rates
from rmqspark.client.watching.snapshots import take
from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.blocking import BlockingConnection
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.client.administration.replicas import Replicas
    from rmqspark.testing import LocalCluster

pytestmark = pytest.mark.integration
SYNC = BrokerConfig(broker_role="SYNC_MASTER", ha_send_heartbeat_interval=200, slave_sync_interval=100)
PATIENCE_S = 60


def wait_until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came to this: {what}"
        time.sleep(0.01)


def in_sync(replicas: Replicas) -> bool:
    """As the master sees it, and as the slave does: the two need not know it at once."""
    return replicas.in_sync == 1 and all(slave.is_in_sync for slave in replicas.slaves)


@contextmanager
def replicated(config: BrokerConfig = SYNC) -> Iterator[LocalCluster]:
    """A master and a slave that follows it."""
    with cluster(broker_config=config) as mq:
        mq.start_slave()
        with AdminClient(mq.namesrv) as admin:
            wait_until(lambda: in_sync(admin.cluster_status().brokers[0].replicas), "the slave is in sync")
        yield mq


def rmq(mq: LocalCluster, *words: str) -> tuple[int, str]:
    outcome = CliRunner(env={"RMQ_NAMESRV": mq.namesrv, "COLUMNS": "200"}).invoke(app, words)
    return outcome.exit_code, outcome.stdout


def test_a_slave_that_keeps_up_is_shown_everywhere() -> None:
    """Address, id, role, how far behind, in sync; nothing is wrong."""
    with replicated() as mq:
        address = mq.brokers["broker-a-1"]
        slave = {"brokerId": 1, "address": address, "role": "SLAVE", "connected": True, "behindBytes": 0}
        slave |= {"inSync": True, "state": "ok"}
        code, told = rmq(mq, "cluster", "info", "--json")
        (broker,) = json.loads(told)["brokers"]
        assert (code, broker["slaves"]) == (0, [slave])
        assert (broker["role"], broker["slavesInSync"], broker["slavesWanted"]) == ("SYNC_MASTER", 1, 1)
        row = next(line for line in rmq(mq, "cluster", "info")[1].splitlines() if address in line)
        assert row.split() == ["broker-a", "1", address, "SLAVE", "0", "bytes", "yes", "ok"]
        assert rmq(mq, "cluster", "health")[0] == 0
        assert rmq(mq, "check", "cluster")[1].startswith("OK: 1 name server, 1 broker, 1 slave, ")
        assert address in rmq(mq, "top", "--once")[1]
        with ClusterClient(mq.namesrv) as client:
            shown = reads.broker(client, "broker-a").model_dump(by_alias=True)
            assert (shown["slaves"], shown["slavesInSync"]) == ([slave], 1)
            (seen,) = rates(None, take(client)).brokers[0].slaves
            assert (seen.address, seen.is_in_sync) == (address, True)


def figures_of(mq: LocalCluster, broker: str) -> dict[str, Any]:
    """Ours of the broker at that address, by name."""
    with ClusterClient(mq.namesrv) as client:
        text = BrokerAdmin(client.broker_at("broker-a", mq.brokers[broker])).metrics()
    families = text_string_to_metric_families(text)
    return {sample.name: sample for family in families for sample in family.samples}


def test_metrics_of_master_and_slave() -> None:
    """The master says how far slaves are, a slave whether it follows."""
    with replicated() as mq:
        wait_until(lambda: figures_of(mq, "broker-a")["rmqspark_slaves_in_sync"].value, "it has confirmed")
        master, slave = figures_of(mq, "broker-a"), figures_of(mq, "broker-a-1")
        told = [master[f"rmqspark_slaves{what}"].value for what in ("", "_in_sync", "_wanted")]
        assert told == [1, 1, 1]
        common = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
        assert master["rmqspark_slave_behind_bytes"].labels == {**common, "slave": "127.0.0.1"}
        assert master["rmqspark_slave_behind_bytes"].value == 0
        assert slave["rmqspark_following_master"].value == 1
        assert "rmqspark_following_master" not in master
        assert "rmqspark_slaves" not in slave


def test_a_slave_that_has_gone() -> None:
    """Sends wait in vain: a warning of health and check, with exit code 1."""
    with replicated() as mq:
        mq.stop_slave()
        code, told = rmq(mq, "check", "cluster")
        assert (code, told) == (1, "WARNING: broker-a: a send waits for 1 slave in sync, and there is none\n")
        code, told = rmq(mq, "cluster", "health")
        assert (code, told) == (1, "warning   broker-a: a send waits for 1 slave in sync, and there is none\n")


def test_a_slave_that_is_registered_and_follows_nobody() -> None:
    """Pointed at an address where no master is, it is not connected: a warning that names it."""
    nowhere = replace(SYNC, broker_role="ASYNC_MASTER", ha_master_address="127.0.0.1:1")
    with cluster(broker_config=nowhere) as mq:
        mq.start_slave()
        code, told = rmq(mq, "check", "cluster", "--json")
        (problem,) = json.loads(told)["problems"]
        assert (code, problem["subject"]) == (1, "slave 1 of broker-a")
        assert problem["problem"] == "does not follow its master"
        assert rmq(mq, "cluster", "health")[0] == 1


def test_groups_and_messages_are_seen_while_only_a_slave_is_there() -> None:
    """How far groups are, and what is found by its id, the slave says, too: nobody is told that there is nothing."""
    with replicated() as mq:
        queue = MessageQueue("orders", "broker-a", 0)
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", queues=1)
        with Producer(mq.namesrv) as producer:
            sent = producer.send(Message("orders", b"one"))
        with PullConsumer(mq.namesrv, group="billing") as consumer:
            consumer.assign([queue])
            consumer.commit({queue: 0})
        slave = mq.brokers["broker-a-1"]
        wait_until(lambda: committed_at(slave, "billing", queue) == 0, "the slave has heard of the group")
        mq.stop_broker("broker-a")
        code, told = rmq(mq, "group", "list", "--json")
        (group,) = json.loads(told)
        assert (code, group["group"], group["lag"]) == (0, "billing", 1)
        assert rmq(mq, "check", "lag", "--warn", "1", "--crit", "9")[0] == 1
        code, told = rmq(mq, "group", "describe", "billing")
        assert (code, "broker-a" in told) == (0, True)
        assert rmq(mq, "message", "get", sent.msg_id)[0] == 0
        assert rmq(mq, "group", "delete", "billing", "--yes")[0] == 1


def committed_at(address: str, group: str, queue: MessageQueue) -> int | None:
    """What this very broker knows."""
    connection = BlockingConnection(address)
    try:
        answer = connection.call(RequestCode.GET_ALL_CONSUMER_OFFSET, timeout_ms=10_000).raise_for_code()
    finally:
        connection.close()
    return ConsumerOffsetTable.decode(answer.body).offsetTable.get(f"{queue.topic}@{group}", {}).get(queue.queue_id)


def test_one_broker_is_asked_alone() -> None:
    """What is shown of it is the same; the others, and the topics, may be asked about or not."""
    with cluster(brokers=2) as mq, ClusterClient(mq.namesrv) as client:
        with AdminClient(mq.namesrv) as admin:
            admin.create_topic("orders", 4)
        (alone,) = look(client, "broker-b").brokers
        beside = look(client).brokers[1]
        assert (alone.name, alone.topics, alone.queues) == (beside.name, beside.topics, beside.queues)
        assert (alone.name, alone.topics, alone.queues) == ("broker-b", 1, 4)
        assert look(client, "broker-c").brokers == []
        assert [each.broker_name for each in reads.servers(client).brokers] == ["broker-a", "broker-b"]
        assert reads.servers(client).state == "ok"
