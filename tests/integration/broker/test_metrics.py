"""What a broker tells of itself to Prometheus: RocketMQ's names and labels, and figures that move by what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rmqspark import AdminClient, Message, Producer, PullConsumer, PushConsumer, TransactionProducer, TransactionState
from rmqspark.broker.config import BrokerConfig
from rmqspark.broker.metrics.families import FAMILIES, FOLLOWING, SLAVE_BEHIND, Family
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.clock import SystemClock
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable, SubscriptionGroupConfig
from rmqspark.protocol.bodies.queries import QueryLag, QueryQueue, QueryReport
from rmqspark.protocol.bodies.route import TopicConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import BulkReadRequestHeader
from rmqspark.protocol.headers.consume import ConsumerSendMsgBackRequestHeader, PullFlag
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.testing import cluster
from rmqspark.testing.in_process import TEST_STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqspark.testing.in_process import LocalCluster

pytestmark = pytest.mark.integration

PATIENCE_MS = 60_000
COMMON = {"cluster": "Night", "node_type": "broker", "node_id": "broker-a", "zone": "east"}
OF_REPLICAS = (SLAVE_BEHIND, FOLLOWING)  # told where there is a slave: replication/test_slaves_seen.py
OTEL = {"otel_scope_name": "broker-meter"}
COMMITTING = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)


class Told(NamedTuple):
    """An exposition, read by Prometheus' own parser."""

    text: str

    @property
    def samples(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Values by name and labels, those apart that all have."""
        found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items() - (COMMON | OTEL).items())
                assert key not in found, f"{key} is there twice"
                found[key] = sample.value
        return found

    def value(self, name: str, **labels: str) -> float:
        """The sum of the series with these labels."""
        wanted = labels.items()
        return sum(value for (other, found), value in self.samples.items() if other == name and wanted <= found)

    def labels_of(self, name: str) -> list[set[str]]:
        """The names of all labels, of each series."""
        return [
            set(sample.labels)
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name
        ]


class Listener:
    """Ends transactions as their messages say."""

    def execute(self, message: Any, arg: Any) -> TransactionState:
        return arg

    def check(self, message: Any) -> TransactionState:
        return TransactionState.UNKNOWN


class Watched(NamedTuple):
    """A broker, before and after all kinds of things were done with it."""

    before: Told
    after: Told

    def moved(self, name: str, **labels: str) -> float:
        return self.after.value(name, **labels) - self.before.value(name, **labels)


def told(mq: LocalCluster) -> Told:
    with AdminClient(mq.namesrv) as admin:
        return Told(admin.metrics("broker-a"))


def wait_until(mq: LocalCluster, condition: Callable[[Told], bool]) -> Told:
    clock, found = SystemClock(), told(mq)
    deadline_ms = clock.monotonic_ms() + PATIENCE_MS
    while not condition(found):
        assert clock.monotonic_ms() < deadline_ms, found.text
        clock.sleep_ms(50)
        found = told(mq)
    return found


@pytest.fixture(scope="module")
def mq() -> Iterator[LocalCluster]:
    config = BrokerConfig(broker_cluster_name="Night", metrics_label="zone:east")
    with cluster(broker_config=config) as running:
        yield running


@pytest.fixture(scope="module")
def watched(mq: LocalCluster) -> Watched:
    """10 messages, 3 with a sharding key, 4 in a batch, one delayed, one timed for now and one for tomorrow; 2 commits,
    a rollback and a transaction in doubt; 5 messages consumed of those that were there, 4 read in bulk; a dead letter;
    a report of a query."""
    with AdminClient(mq.namesrv) as admin:
        for topic in ("orders", "paid"):
            admin.create_topic(topic, 1)
    call(mq, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, SubscriptionGroupConfig(groupName="made").encode())
    before = told(mq)
    with (
        Producer(mq.namesrv, group="shop") as producer,
        PullConsumer(mq.namesrv, group="billing", max_poll_messages=5) as consumer,
        TransactionProducer(mq.namesrv, group="tills", listener=Listener()) as till,
        PushConsumer(mq.namesrv, group="watchers", listener=print) as watcher,
    ):
        watcher.subscribe("paid", "none-of-them")
        receipts = [producer.send(Message("orders", b"x" * 100)) for _ in range(10)]
        for _ in range(3):
            producer.send(Message("orders", b"x" * 2000), shard="customer-7")
        producer.send_batch([Message("orders", b"b") for _ in range(4)])
        consumer.assign(consumer.queues("orders"))
        assert len(consumer.poll(timeout_ms=PATIENCE_MS)) == 5
        consumer.commit()
        now_ms = SystemClock().now_ms()
        producer.send(Message("orders", b"later", delay_level=1))
        producer.send(Message("orders", b"soon", deliver_time_ms=now_ms + 1500))
        producer.send(Message("orders", b"tomorrow", deliver_time_ms=now_ms + 80_000_000))
        for state in (TransactionState.COMMIT, TransactionState.COMMIT, TransactionState.ROLLBACK):
            till.send(Message("paid", b"y"), arg=state)
        till.send(Message("paid", b"y"), arg=TransactionState.UNKNOWN)
        send_back(mq, receipts[0].offset_msg_id)
        read_in_bulk(mq, "auditors", 4)
        report_query(mq)
        with pytest.raises(InvalidArgument), ClusterClient(mq.namesrv) as client:
            BrokerAdmin(client.broker("broker-a")).put_topic(TopicConfig(topicName="SELF_TEST_TOPIC"))
        after = wait_until(mq, is_done)
    return Watched(before, after)


def is_done(now: Told) -> bool:
    return (
        now.value("rocketmq_messages_in_total", topic="orders", message_type="delay") == 2
        and now.value("rocketmq_half_messages", topic="paid") == 1
        and now.value("rocketmq_consumer_connections", consumer_group="watchers") == 1
        and now.value("rocketmq_timing_messages", topic="orders") == 1
        and now.value("rocketmq_consumer_lag_messages", topic="orders", consumer_group="billing") == 14
    )


def send_back(mq: LocalCluster, offset_msg_id: str) -> None:
    """As a consumer does that gives a message up."""
    _, physical_offset = parse_offset_msg_id(offset_msg_id)
    header = ConsumerSendMsgBackRequestHeader(physical_offset, "billing", -1, maxReconsumeTimes=16)
    call(mq, RequestCode.CONSUMER_SEND_MSG_BACK, header)


def read_in_bulk(mq: LocalCluster, group: str, count: int) -> None:
    """As Spark's tasks do."""
    header = BulkReadRequestHeader("orders", 0, 0, count, 1000, 1 << 20, group=group)
    call(mq, RequestCode.RMQ_BULK_READ, header)


def report_query(mq: LocalCluster) -> None:
    report = QueryReport(
        queryId="q-1",
        name="totals",
        durationMs={"triggerExecution": 1500},
        lag=QueryLag(maxMsBehindLatest=4000),
        queues=[
            QueryQueue("spark-1", "orders", "broker-a", 0, 0, 3, 10),
            QueryQueue("spark-1", "orders", "broker-a", 0, 0, 4, 10),
            QueryQueue("spark-1", "paid", "broker-a", 0, 0, 1, 2),
            QueryQueue("spark-2", "paid", "broker-a", 0, 0, 1, 2),
            QueryQueue("spark-2", "paid", "broker-b", 0, 0, 1),
        ],
    )
    call(mq, RequestCode.RMQ_QUERY_REPORT, None, report.encode(standard=True))


def call(mq: LocalCluster, code: RequestCode, header: Any = None, body: bytes = b"") -> None:
    with ClusterClient(mq.namesrv) as client:
        client.broker("broker-a").call(code, header, body, timeout_ms=PATIENCE_MS)


@pytest.mark.parametrize("family", [each for each in FAMILIES if each not in OF_REPLICAS], ids=lambda each: each.name)
def test_every_metric_is_there_with_its_labels_and_its_type(watched: Watched, family: Family) -> None:
    """Under the name that is on the wire, and where RocketMQ's docs say another, under that, too."""
    text = watched.after.text
    own = set(COMMON) | (set() if family.is_ours else set(OTEL))
    for name in filter(None, (family.exposed, family.alias)):
        kind = f"# TYPE {name} {family.kind}\n"
        assert text.count(kind) == 1
        parts = [f"{name}_count", f"{name}_sum"] if family.kind == "histogram" else [name]
        for part in parts:
            labels = watched.after.labels_of(part)
            assert labels, part
            assert all(found == own | set(family.labels) for found in labels), part
    if family.bounds:
        bounds = {dict(labels)["le"] for name, labels in watched.after.samples if name == f"{family.name}_bucket"}
        assert sorted(map(float, bounds)) == [*family.bounds, float("inf")]


def test_there_is_nothing_else(watched: Watched) -> None:
    """No name that no table says, and no series of when another was made."""
    known = {name for family in FAMILIES for name in (family.exposed, family.alias)}
    assert {line.split(" ")[2] for line in watched.after.text.splitlines() if line.startswith("# TYPE")} <= known
    assert "_created" not in watched.after.text


def test_all_series_say_which_broker_they_are_of(watched: Watched) -> None:
    """Cluster, broker, and what the settings add."""
    for family in text_string_to_metric_families(watched.after.text):
        for sample in family.samples:
            assert sample.labels.items() >= COMMON.items(), sample


@pytest.mark.parametrize(
    ("message_type", "topic", "messages"),
    [
        ("normal", "orders", 14),
        ("fifo", "orders", 3),
        ("delay", "orders", 2),
        ("delay", "SCHEDULE_TOPIC_XXXX", 1),
        ("delay", "rmq_sys_wheel_timer", 2),
        ("transaction", "RMQ_SYS_TRANS_HALF_TOPIC", 4),
        ("transaction", "paid", 2),
    ],
)
def test_what_comes_in_is_counted_by_topic_and_type(
    watched: Watched, message_type: str, topic: str, messages: int
) -> None:
    """Messages, and how large each was."""
    labels = {"topic": topic, "message_type": message_type}
    is_system = "false" if topic in ("orders", "paid") else "true"
    assert watched.moved("rocketmq_messages_in_total", **labels, is_system=is_system) == messages
    assert watched.moved("rocketmq_message_size_count", **labels, is_system=is_system) == messages
    bytes_in = watched.moved("rocketmq_throughput_in_total", **labels)
    assert watched.moved("rocketmq_message_size_sum", **labels) == bytes_in > 100 * messages


def test_sizes_are_those_of_records(watched: Watched) -> None:
    """A body of 100 bytes makes a record below 1 KiB, one of 2,000 one below 4."""
    sizes = {"topic": "orders", "message_type": "fifo"}
    assert watched.moved("rocketmq_message_size_bucket", **sizes, le="1024.0") == 0
    assert watched.moved("rocketmq_message_size_bucket", **sizes, le="4096.0") == 3
    assert watched.moved("rocketmq_message_size_bucket", topic="orders", message_type="normal", le="1024.0") == 14


def test_nothing_else_counts_as_come_in(watched: Watched) -> None:
    """Neither dead letters and retries, nor what a broker writes for itself."""
    topics = {dict(labels)["topic"] for name, labels in watched.after.samples if name == "rocketmq_messages_in_total"}
    system = {"SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"}
    assert topics == {"orders", "paid", *system}


def test_what_goes_out_is_counted_by_topic_and_group(watched: Watched) -> None:
    """All that a pull brought, asked for by the consumer or read ahead, and all that was read in bulk."""
    labels = {"topic": "orders", "consumer_group": "billing", "is_system": "false"}
    messages = watched.moved("rocketmq_messages_out_total", **labels)
    assert messages >= 5
    assert watched.moved("rocketmq_throughput_out_total", **labels) > 100 * messages
    labels["consumer_group"] = "auditors"
    assert watched.moved("rocketmq_messages_out_total", **labels) == 4


def test_groups_are_as_far_behind_as_they_are(watched: Watched) -> None:
    """In messages, and in the time since the first of them was stored."""
    labels = {"topic": "orders", "consumer_group": "billing", "is_retry": "false", "is_system": "false"}
    after = watched.after
    assert after.value("rocketmq_consumer_lag_messages", **labels) == 14  # 17 sent and 2 delivered late, 5 consumed
    behind_ms = after.value("rocketmq_consumer_lag_latency_milliseconds", **labels)
    assert 1 <= behind_ms < PATIENCE_MS
    assert after.value("rocketmq_consumer_lag_latency", **labels) == behind_ms
    inflight, ready = (after.value(f"rocketmq_consumer_{what}_messages", **labels) for what in ("inflight", "ready"))
    assert inflight + ready == 14


def test_transactions_are_counted_by_how_they_end(watched: Watched) -> None:
    """And those that did not are open."""
    assert watched.moved("rocketmq_commit_messages_total", topic="paid") == 2
    assert watched.moved("rocketmq_rollback_messages_total", topic="paid") == 1
    assert watched.moved("rocketmq_half_messages", topic="paid") == 1
    assert watched.moved("rmqspark_open_half_messages") == 1
    assert watched.moved("rocketmq_finish_message_latency_milliseconds_count", topic="paid") == 2


def test_dead_letters_are_counted_where_they_come_from(watched: Watched) -> None:
    """By the group that gave them up, and the topic that they were read of."""
    labels = {"consumer_group": "billing", "topic": "orders", "is_system": "false"}
    assert watched.moved("rocketmq_send_to_dlq_messages_total", **labels) == 1


def test_timers_are_counted(watched: Watched) -> None:
    """Two were set, one went off, one is due within a day."""
    assert watched.moved("rocketmq_timer_enqueue_total", topic="orders") == 2
    assert watched.moved("rocketmq_timer_dequeue_total", topic="orders") == 1
    assert watched.moved("rocketmq_timer_dequeue_lag") == 1
    assert watched.moved("rocketmq_timer_message_snapshot", timer_bound_s="86400") == 1
    assert watched.moved("rocketmq_timer_message_snapshot") == 1
    assert watched.moved("rocketmq_delay_message_latency_seconds_bucket", topic="orders", le="60.0") == 1
    assert watched.moved("rocketmq_delay_message_latency_seconds_count", topic="orders") == 2


def test_clients_are_counted_by_language_and_version(watched: Watched) -> None:
    """In RocketMQ's spelling."""
    labels = {"language": "python", "version": "v5_3_3", "protocol_type": "remoting"}
    assert watched.after.value("rocketmq_producer_connections", **labels) >= 2
    consumers = {**labels, "consumer_group": "watchers", "consume_mode": "push", "is_system": "false"}
    assert watched.after.value("rocketmq_consumer_connections", **consumers) == 1


def test_requests_are_timed_by_code_and_outcome(watched: Watched) -> None:
    """Single sends, which are handled many at once, and all others."""
    name, success = "rocketmq_rpc_latency_milliseconds_count", {"response_code": "success", "result": "success"}
    assert watched.moved(name, request_code="send_message_v2", **success) == 20
    assert watched.moved(name, request_code="send_batch_message", **success) == 1
    assert watched.moved(name, request_code="rmq_query_report", **success, is_long_polling="false") == 1
    assert watched.moved(name, request_code="end_transaction") >= 3
    assert watched.after.value(name, request_code="update_and_create_topic", **success) == 2


def test_queries_say_how_far_they_are_behind(watched: Watched) -> None:
    """As their listeners told the broker; a queue that two sources read counts where the slower is, and where one is
    not known of there is no figure."""
    query = {"query": "totals", "query_id": "q-1"}
    assert watched.after.value("rmqspark_query_offsets_behind", **query, source="spark-1") == 7 + 1
    assert 'source="spark-2"' not in watched.after.text
    assert watched.after.value("rmqspark_query_seconds_behind", **query) == 4.0
    assert watched.after.value("rmqspark_query_batch_duration_seconds", **query) == 1.5


def test_topics_and_groups_are_counted(mq: LocalCluster, watched: Watched) -> None:
    """As many as there are, the broker's own included, and how long it took to make them."""
    with AdminClient(mq.namesrv) as admin:
        groups = admin.groups(system=True)
    assert watched.after.value("rocketmq_consumer_group_number") == len(groups)
    assert watched.moved("rocketmq_topic_number") == 2  # of dead letters and retries
    created = {"invocation_status": "success", "is_system": "false"}
    assert watched.after.value("rocketmq_topic_create_execution_time_milliseconds_count", **created) == 2
    refused = {"invocation_status": "failure", "is_system": "true"}
    assert watched.moved("rocketmq_topic_create_execution_time_milliseconds_count", **refused) == 1
    groups_made = "rocketmq_consumer_group_create_execution_time_milliseconds_count"
    assert watched.after.value(groups_made, invocation_status="success") == 1


def test_sends_that_wait_for_the_disk_are_timed_when_it_is_done() -> None:
    """With SYNC_FLUSH, each once."""
    with cluster(store_config=replace(TEST_STORE, flush_disk_type="SYNC_FLUSH")) as mq:
        with Producer(mq.namesrv, group="shop") as producer:
            for _ in range(5):
                producer.send(Message("orders", b"paid"))
        found = told(mq)
        labels = {"request_code": "send_message_v2", "response_code": "success", "result": "success"}
        assert found.value("rocketmq_rpc_latency_milliseconds_count", **labels) == 5
        assert found.value("rocketmq_messages_in_total", topic="orders") == 5


# Studio's MetricProfileService "rocketmq5-native": name, and what its panels sum by.
STUDIO = {
    "rocketmq_messages_in_total": {"cluster", "node_id", "topic"},
    "rocketmq_messages_out_total": {"cluster", "node_id", "topic", "consumer_group"},
    "rocketmq_throughput_in_total": {"cluster", "node_id", "topic"},
    "rocketmq_throughput_out_total": {"cluster", "node_id", "topic", "consumer_group"},
    "rocketmq_consumer_lag_messages": {"cluster", "node_id", "topic", "consumer_group"},
    "rocketmq_consumer_lag_latency_milliseconds": {"cluster", "node_id", "topic", "consumer_group"},
    "rocketmq_topic_number": {"cluster", "node_id"},
    "rocketmq_consumer_group_number": {"cluster", "node_id"},
}


@pytest.mark.parametrize("name", STUDIO)
def test_the_panels_of_rocketmq_studio_find_their_series(watched: Watched, name: str) -> None:
    """With every label that they sum by."""
    labels = watched.after.labels_of(name)
    assert labels
    assert all(found >= STUDIO[name] for found in labels)


def test_the_brokers_own_topics_are_system_topics_wherever_they_are_told(on_broker: Callable[..., Any]) -> None:
    """Those that are called like it and its cluster, too."""

    async def talk(bench: Any) -> str:
        client = await bench.connect()
        await client.send("DefaultCluster")
        await client.pull("DefaultCluster", sysFlag=COMMITTING)
        return b"".join([piece async for piece in bench.broker._metrics.text()]).decode()

    told = Told(on_broker(talk))
    series = [(name, dict(labels)) for name, labels in told.samples if ("topic", "DefaultCluster") in labels]
    assert {"rocketmq_messages_out_total", "rocketmq_consumer_lag_messages"} <= {name for name, _ in series}
    assert {labels["is_system"] for _, labels in series} == {"true"}


def test_a_queue_that_gets_no_more_messages_counts_until_it_is_read(on_broker: Callable[..., Any]) -> None:
    """Who takes queues away has them run dry first, and looks at the lag for that (RocketMQ #7951)."""

    async def talk(bench: Any) -> str:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        await client.send("orders", e=1)
        await client.pull("orders", queueId=1, consumerGroup="billing", sysFlag=COMMITTING)
        await client.create_topic("orders", 2, writeQueueNums=1)
        return b"".join([piece async for piece in bench.broker._metrics.text()]).decode()

    told = Told(on_broker(talk))
    for figure in ("lag", "inflight"):
        assert told.value(f"rocketmq_consumer_{figure}_messages", topic="orders", consumer_group="billing") == 1


def test_an_offset_that_is_none_keeps_nothing_from_being_told(on_broker: Callable[..., Any]) -> None:
    """A slave takes over what its master says, and one of RocketMQ's stores what it is told. Such a group has consumed
    nothing; it was an error for whoever asked for any figure, once the queue was empty."""

    async def talk(bench: Any) -> str:
        client = await bench.connect()
        await client.create_topic("orders", 2)
        await client.send("orders", e=1)
        offsets = bench.broker._metrics._lags._offsets
        offsets.follow(ConsumerOffsetTable({"orders@billing": {0: -1, 1: -(2**63)}}))
        return b"".join([piece async for piece in bench.broker._metrics.text()]).decode()

    told = Told(on_broker(talk))
    assert told.value("rocketmq_consumer_lag_messages", topic="orders", consumer_group="billing") == 1
