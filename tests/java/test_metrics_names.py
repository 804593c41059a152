"""The same work done with RocketMQ's broker and with ours: its exporter and ours tell the same of it."""

from __future__ import annotations

import re
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from ours import name_server
from prometheus_client.parser import text_string_to_metric_families
from rocketmq import free_port, wait_for

from rmqspark import AdminClient, Message, Producer, PushConsumer, TransactionProducer, TransactionState
from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.metrics.families import FAMILIES
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.clock import SystemClock
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.testing import cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketmq import RocketMQ

pytestmark = [pytest.mark.java, pytest.mark.integration]

# What RocketMQ's broker has and ours lacks (POP), or tells of its own machinery.
NOT_OURS = re.compile(r"rocketmq_(pop_|rocksdb_|tiered_store_)|target_info|otel_scope_info")
HISTOGRAM_PARTS = re.compile(r"_(bucket|count|sum)$")


class Told(NamedTuple):
    """What an exporter answers: label names by metric, and values by metric and labels."""

    text: str

    @property
    def labels(self) -> dict[str, set[frozenset[str]]]:
        found: dict[str, set[frozenset[str]]] = {}
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).add(frozenset(sample.labels))
        return found

    def value(self, name: str, **labels: str) -> float:
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )


class Listener:
    def execute(self, message: Any, arg: Any) -> TransactionState:
        return arg

    def check(self, message: Any) -> TransactionState:
        return TransactionState.UNKNOWN


class Both(NamedTuple):
    ours: Told
    theirs: Told


@pytest.fixture(scope="module")
def both(rocketmq: RocketMQ, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """After the same work on either, once both have counted all of it."""
    told = []
    for serve in (ours, theirs):
        directory = tmp_path_factory.mktemp(serve.__name__)
        port = free_port()
        with serve(directory, port, rocketmq) as namesrv:
            told.append(worked(namesrv, port))
    return Both(*told)


def scraped(port: int) -> Told:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        return Told(response.read().decode())


def worked(namesrv: str, port: int) -> Told:
    """7 messages and 2 with a sharding key, 5 read by a group; a commit, a rollback, a transaction in doubt; a message
    that waits for tomorrow, and one that is due; a dead letter; topics and a group made by request."""
    with AdminClient(namesrv) as admin:
        for topic in ("orders", "paid", "timed"):
            admin.create_topic(topic, 1)
    ask(namesrv, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, SubscriptionGroupConfig("made").encode())
    with (
        PushConsumer(namesrv, group="billing", listener=lambda _: None, consume_from="earliest") as consumer,
        Producer(namesrv, group="shop") as producer,
        TransactionProducer(namesrv, group="tills", listener=Listener()) as till,
    ):
        consumer.subscribe("orders")
        receipts = [producer.send(Message("orders", b"x" * 100)) for _ in range(7)]
        for _ in range(2):
            producer.send(Message("orders", b"x" * 2000), shard="customer-7")
        for state in (TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN):
            till.send(Message("paid", b"y"), arg=state)
        producer.send(Message("orders", b"tomorrow", deliver_time_ms=SystemClock().now_ms() + 80_000_000))
        producer.send(Message("orders", b"later", delay_level=1))
        producer.send(Message("timed", b"soon", deliver_time_ms=SystemClock().now_ms() + 2_000))
        wait_for(lambda: scraped(port).value("rocketmq_half_messages", topic="paid") == 1, "one is in doubt")
        give_up(namesrv, receipts[0].offset_msg_id)
        wait_for(lambda: is_done(scraped(port)), "all is counted", timeout_s=90)
        return scraped(port)


def give_up(namesrv: str, offset_msg_id: str) -> None:
    _, physical_offset = parse_offset_msg_id(offset_msg_id)
    header = ConsumerSendMsgBackRequestHeader(
        physical_offset, "billing", -1, originTopic="orders", maxReconsumeTimes=16
    )
    ask(namesrv, RequestCode.CONSUMER_SEND_MSG_BACK, header)


def ask(namesrv: str, code: RequestCode, header: Any = None, body: bytes = b"") -> None:
    with ClusterClient(namesrv) as client:
        client.broker("broker-a").call(code, header, body, timeout_ms=60_000)


def is_done(now: Told) -> bool:
    return (
        now.value("rocketmq_messages_out_total", topic="orders", consumer_group="billing") == 10
        and now.value("rocketmq_consumer_lag_messages", topic="orders", consumer_group="billing") == 0
        and now.value("rocketmq_timing_messages", topic="orders") == 1
        and now.value("rocketmq_timer_dequeue_total", topic="timed") == 1
        and now.value("rocketmq_messages_in_total", topic="orders", message_type="delay") == 1
        and now.value("rocketmq_consumer_connections", consumer_group="billing") == 1
    )


@contextmanager
def ours(directory: Path, port: int, rocketmq: RocketMQ) -> Iterator[str]:
    del rocketmq
    config = BrokerConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=port)
    with cluster(broker_config=config) as running:
        yield running.namesrv


@contextmanager
def theirs(directory: Path, port: int, rocketmq: RocketMQ) -> Iterator[str]:
    settings = {"metricsExporterType": "PROM", "metricsPromExporterHost": "127.0.0.1", "metricsPromExporterPort": port}
    with (
        name_server(directory / "names") as namesrv,
        rocketmq.broker(directory / "store", namesrv, **settings) as broker,
    ):
        yield namesrv
        broker.kill()


def test_every_name_of_rocketmqs_is_ours_with_its_labels(both: Both) -> None:
    """But for what this broker does not have; where it has more labels or fewer, no dashboard would fit."""
    mine, stock = both.ours.labels, both.theirs.labels
    names = {name for name in stock if not NOT_OURS.match(name)}
    assert names - set(mine) == set()
    assert {name: (mine[name], stock[name]) for name in names if mine[name] != stock[name]} == {}


def test_what_we_call_rocketmqs_is_rocketmqs(both: Both) -> None:
    """Under the names on the wire; others are those of its docs."""
    stock = {HISTOGRAM_PARTS.sub("", name) for name in both.theirs.labels}
    assert {family.exposed for family in FAMILIES if not family.is_ours} - stock == set()


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("rocketmq_messages_in_total", {"topic": "orders", "message_type": "normal", "is_system": "false"}),
        ("rocketmq_messages_in_total", {"topic": "orders", "message_type": "fifo", "is_system": "false"}),
        ("rocketmq_messages_in_total", {"topic": "orders", "message_type": "delay", "is_system": "false"}),
        ("rocketmq_messages_in_total", {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "message_type": "transaction"}),
        ("rocketmq_messages_in_total", {"topic": "SCHEDULE_TOPIC_XXXX", "message_type": "delay", "is_system": "true"}),
        ("rocketmq_messages_in_total", {"topic": "rmq_sys_wheel_timer", "message_type": "delay", "is_system": "true"}),
        ("rocketmq_message_size_bucket", {"topic": "orders", "message_type": "normal", "le": "1024.0"}),
        ("rocketmq_message_size_bucket", {"topic": "orders", "message_type": "fifo", "le": "1024.0"}),
        ("rocketmq_message_size_bucket", {"topic": "orders", "message_type": "fifo", "le": "4096.0"}),
        ("rocketmq_messages_out_total", {"topic": "orders", "consumer_group": "billing", "is_system": "false"}),
        ("rocketmq_consumer_lag_messages", {"topic": "orders", "consumer_group": "billing", "is_retry": "false"}),
        ("rocketmq_consumer_ready_messages", {"topic": "orders", "consumer_group": "billing"}),
        ("rocketmq_consumer_connections", {"consumer_group": "billing", "consume_mode": "push", "version": "v5_3_3"}),
        ("rocketmq_send_to_dlq_messages_total", {"consumer_group": "billing", "topic": "orders"}),
        ("rocketmq_commit_messages_total", {"topic": "paid"}),
        ("rocketmq_rollback_messages_total", {"topic": "paid"}),
        ("rocketmq_half_messages", {"topic": "paid"}),
        ("rocketmq_finish_message_latency_milliseconds_bucket", {"topic": "paid", "le": "5.0"}),
        ("rocketmq_timing_messages", {"topic": "orders", "storage_type": "local", "storage_medium": "disk"}),
        ("rocketmq_timer_enqueue_total", {"topic": "orders"}),
        ("rocketmq_timer_dequeue_total", {"topic": "timed"}),
        ("rocketmq_consumer_group_create_execution_time_milliseconds_count", {"invocation_status": "success"}),
        ("rocketmq_delay_message_latency_seconds_bucket", {"topic": "orders", "le": "86400.0"}),
        ("rocketmq_broker_permission", {"node_id": "broker-a", "cluster": "DefaultCluster", "node_type": "broker"}),
        ("rocketmq_storage_dispatch_behind_bytes", {"storage_type": "local"}),
        ("rocketmq_topic_create_execution_time_milliseconds_count", {"invocation_status": "success"}),
        ("rocketmq_rpc_latency_milliseconds_count", {"request_code": "send_message_v2", "response_code": "success"}),
    ],
)
def test_the_same_work_comes_to_the_same_values(both: Both, name: str, labels: dict[str, str]) -> None:
    """Where they do not depend on time, or on what only one of the brokers has."""
    assert both.theirs.value(name, **labels) > 0 or name.endswith(
        ("lag_messages", "ready_messages", "behind_bytes", "bucket")
    )
    assert both.ours.value(name, **labels) == both.theirs.value(name, **labels)
