"""The metrics of a broker: their names as they are on the wire, labels and meanings, each once.

What is exposed, docs/operations.md and the tests all go by these tables. RocketMQ's names are those that its Prometheus
exporter shows from 5.1.4 on (BrokerMetricsConstant, DefaultStoreMetricsConstant, RemotingMetricsConstant, with the
units that OpenTelemetry appends). Where RocketMQ's docs say a name without its unit, that is there as well (`alias`).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram"]


class Family(NamedTuple):
    """One metric. `name` is without the `_total` of a counter. Beside `labels` each sample has those of the broker."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    switch: str = ""
    """The setting enable_…_metrics without which it is not told; "" for what always is."""
    alias: str = ""
    bounds: tuple[float, ...] = ()
    """Of a histogram: the upper bounds of its buckets but for the last, which has none."""

    @property
    def exposed(self) -> str:
        """The name that samples have; of a histogram without `_bucket`, `_sum`, `_count`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def is_ours(self) -> bool:
        return self.name.startswith("rmqspark_")


_LAG: Final = ("consumer_group", "topic", "is_retry", "is_system")
_STORAGE: Final = ("storage_type", "storage_medium")
LOCAL_DISK: Final = ("local", "disk")
"""What `_STORAGE` always is."""
_CREATION_MS: Final = (10.0, 100.0, 1000.0, 3000.0, 5000.0)
_STATS: Final = "enable_stats_metrics"
_REQUEST: Final = "enable_request_metrics"
_CONNECTION: Final = "enable_connection_metrics"
_LAG_AND_DLQ: Final = "enable_lag_and_dlq_metrics"
_TRANSACTION: Final = "enable_transaction_metrics"
_REMOTING: Final = "enable_remoting_metrics"
_STORE: Final = "enable_message_store_metrics"

WATERMARK: Final = Family(
    "rocketmq_processor_watermark", "gauge", ("processor",), "Requests that wait for a thread; none ever do", _STATS
)
PERMISSION: Final = Family("rocketmq_broker_permission", "gauge", (), "6: may be read and written", _STATS)
TOPIC_NUMBER: Final = Family("rocketmq_topic_number", "gauge", (), "Topics, the broker's own included", _STATS)
GROUP_NUMBER: Final = Family(
    "rocketmq_consumer_group_number", "gauge", (), "Consumer groups, predefined ones included", _STATS
)

_IN: Final = ("topic", "message_type", "is_system")
_OUT: Final = ("topic", "consumer_group", "is_system")
MESSAGES_IN: Final = Family("rocketmq_messages_in", "counter", _IN, "Messages stored", _REQUEST)
THROUGHPUT_IN: Final = Family("rocketmq_throughput_in", "counter", _IN, "Bytes of their records", _REQUEST)
MESSAGE_SIZE: Final = Family(
    "rocketmq_message_size",
    "histogram",
    _IN,
    "How large their records are, bytes",
    _REQUEST,
    bounds=(1024.0, 4096.0, 524288.0, 1048576.0, 2097152.0, 4194304.0),
)
MESSAGES_OUT: Final = Family("rocketmq_messages_out", "counter", _OUT, "Messages handed out", _REQUEST)
THROUGHPUT_OUT: Final = Family("rocketmq_throughput_out", "counter", _OUT, "Bytes of their records", _REQUEST)
TOPIC_CREATION: Final = Family(
    "rocketmq_topic_create_execution_time_milliseconds",
    "histogram",
    ("invocation_status", "is_system"),
    "How long requests to create or change topics took",
    _REQUEST,
    bounds=_CREATION_MS,
)
GROUP_CREATION: Final = Family(
    "rocketmq_consumer_group_create_execution_time_milliseconds",
    "histogram",
    ("invocation_status",),
    "How long requests to create or change groups took",
    _REQUEST,
    bounds=_CREATION_MS,
)

PRODUCERS: Final = Family(
    "rocketmq_producer_connections",
    "gauge",
    ("language", "version", "protocol_type"),
    "Producers that are connected",
    _CONNECTION,
)
CONSUMERS: Final = Family(
    "rocketmq_consumer_connections",
    "gauge",
    ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
    "Consumers that are connected",
    _CONNECTION,
)

LAG: Final = Family(
    "rocketmq_consumer_lag_messages", "gauge", _LAG, "Messages that the group has not consumed", _LAG_AND_DLQ
)
LAG_LATENCY: Final = Family(
    "rocketmq_consumer_lag_latency_milliseconds",
    "gauge",
    _LAG,
    "For how long the first message that the group has not consumed has been stored; 0: there is none",
    _LAG_AND_DLQ,
    "rocketmq_consumer_lag_latency",
)
INFLIGHT: Final = Family(
    "rocketmq_consumer_inflight_messages", "gauge", _LAG, "Messages pulled and not committed", _LAG_AND_DLQ
)
QUEUEING_LATENCY: Final = Family(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "gauge",
    _LAG,
    "For how long the first message that nobody pulled has been stored; 0: there is none",
    _LAG_AND_DLQ,
    "rocketmq_consumer_queueing_latency",
)
READY: Final = Family(
    "rocketmq_consumer_ready_messages", "gauge", _LAG, "Messages that the group has not pulled", _LAG_AND_DLQ
)
SENT_TO_DLQ: Final = Family(
    "rocketmq_send_to_dlq_messages",
    "counter",
    ("consumer_group", "topic", "is_system"),
    "Messages that became dead letters, by the topic they came from",
    _LAG_AND_DLQ,
)

HALF: Final = Family("rocketmq_half_messages", "gauge", ("topic",), "Half messages that are open", _TRANSACTION)
COMMITS: Final = Family("rocketmq_commit_messages", "counter", ("topic",), "Half messages committed", _TRANSACTION)
ROLLBACKS: Final = Family(
    "rocketmq_rollback_messages", "counter", ("topic",), "Half messages rolled back", _TRANSACTION
)
FINISH_LATENCY: Final = Family(
    "rocketmq_finish_message_latency_milliseconds",
    "histogram",
    ("topic",),
    "Seconds, as in RocketMQ and whatever the name says, from a half message's birth to its commit",
    _TRANSACTION,
    bounds=(5.0, 60.0, 600.0, 3600.0, 43200.0, 86400.0),
)

STORAGE_SIZE: Final = Family(
    "rocketmq_storage_size_bytes",
    "gauge",
    _STORAGE,
    "Bytes used on the store's file system, by whatever",
    _STORE,
    "rocketmq_storage_size",
)
FLUSH_BEHIND: Final = Family(
    "rocketmq_storage_flush_behind_bytes", "gauge", _STORAGE, "Bytes of the log that are not on disk", _STORE
)
DISPATCH_BEHIND: Final = Family(
    "rocketmq_storage_dispatch_behind_bytes", "gauge", _STORAGE, "Bytes of the log that nobody can read yet", _STORE
)
RESERVE_TIME: Final = Family(
    "rocketmq_storage_message_reserve_time_milliseconds",
    "gauge",
    _STORAGE,
    "For how long the oldest message has been stored",
    _STORE,
    "rocketmq_storage_message_reserve_time",
)
TIMER_ENQUEUE_LAG: Final = Family(
    "rocketmq_timer_enqueue_lag", "gauge", _STORAGE, "Timed messages stored and not looked at yet", _STORE
)
TIMER_ENQUEUE_LATENCY: Final = Family(
    "rocketmq_timer_enqueue_latency_milliseconds",
    "gauge",
    _STORAGE,
    "For how long the first of them has been stored",
    _STORE,
    "rocketmq_timer_enqueue_latency",
)
TIMER_DEQUEUE_LAG: Final = Family(
    "rocketmq_timer_dequeue_lag", "gauge", _STORAGE, "Timed messages that wait for their time, or beyond it", _STORE
)
TIMER_DEQUEUE_LATENCY: Final = Family(
    "rocketmq_timer_dequeue_latency_milliseconds",
    "gauge",
    _STORAGE,
    "Seconds, as in RocketMQ and whatever the name says, by which deliveries are behind the clock",
    _STORE,
    "rocketmq_timer_dequeue_latency",
)
TIMING: Final = Family(
    "rocketmq_timing_messages", "gauge", ("topic", *_STORAGE), "Timed messages that wait, by their topic", _STORE
)
TIMER_ENQUEUE: Final = Family(
    "rocketmq_timer_enqueue", "counter", ("topic", *_STORAGE), "Timed messages taken in", _STORE
)
TIMER_DEQUEUE: Final = Family(
    "rocketmq_timer_dequeue", "counter", ("topic", *_STORAGE), "Timed messages whose time came", _STORE
)
TIMER_SNAPSHOT: Final = Family(
    "rocketmq_timer_message_snapshot",
    "gauge",
    ("timer_bound_s", *_STORAGE),
    "Timed messages due between the bound below and this one, seconds from now",
    _STORE,
)
DELAY_LATENCY: Final = Family(
    "rocketmq_delay_message_latency_seconds",
    "histogram",
    ("topic", *_STORAGE),
    "How long timed messages are to wait",
    _STORE,
    bounds=(60.0, 600.0, 3600.0, 43200.0, 86400.0, 259200.0),
)

RPC_LATENCY: Final = Family(
    "rocketmq_rpc_latency_milliseconds",
    "histogram",
    ("protocol_type", "request_code", "response_code", "is_long_polling", "result"),
    "From a request to its answer",
    _REMOTING,
    bounds=(1.0, 3.0, 5.0, 7.0, 10.0, 100.0, 1000.0, 2000.0, 3000.0),
)

INFO: Final = Family(
    "rmqspark_broker_info",
    "gauge",
    ("version", "flush_disk_type", "store_id"),
    "1; the labels say what the broker is",
)
START_TIME: Final = Family("rmqspark_start_time_seconds", "gauge", (), "When the broker started, since 1970")
INSECURE: Final = Family("rmqspark_insecure", "gauge", (), "1: it may listen beyond loopback without authentication")
INCARNATION: Final = Family(
    "rmqspark_store_incarnation", "gauge", (), "Raised when a recovery cut what may have been read"
)
WRITABLE: Final = Family("rmqspark_store_writable", "gauge", (), "0: the store takes no messages now")
DISK_FREE: Final = Family("rmqspark_disk_free_bytes", "gauge", (), "Free on the store's file system")
DISK_TOTAL: Final = Family("rmqspark_disk_total_bytes", "gauge", (), "Its size")
FAILED_PUTS: Final = Family("rmqspark_failed_sends", "counter", (), "Messages that the store refused")
CONNECTIONS: Final = Family("rmqspark_connections", "gauge", (), "Connections, of clients and others")
HELD_PULLS: Final = Family("rmqspark_held_pulls", "gauge", (), "Pulls that wait for messages")
LEASES: Final = Family("rmqspark_leases", "gauge", (), "Queues locked by consumers or leased to queries")
OPEN_HALVES: Final = Family("rmqspark_open_half_messages", "gauge", (), "Half messages that are open, of all topics")
TRANSACTIONS: Final = Family(
    "rmqspark_transactions",
    "gauge",
    ("state",),
    "Transactional ids coordinated here: new, open, given_up, completing (decided, not readable everywhere), committed",
)
SLAVES: Final = Family("rmqspark_slaves", "gauge", (), "Slaves that are connected to this master")
SLAVES_IN_SYNC: Final = Family("rmqspark_slaves_in_sync", "gauge", (), "Those that are not too far behind")
SLAVES_WANTED: Final = Family("rmqspark_slaves_wanted", "gauge", (), "Slaves that a send waits for; 0: none")
SLAVE_BEHIND: Final = Family(
    "rmqspark_slave_behind_bytes",
    "gauge",
    ("slave",),
    "Bytes of the log that the slave at this host has not confirmed; of several there, the one furthest behind",
)
FOLLOWING: Final = Family("rmqspark_following_master", "gauge", (), "Of a slave alone. 0: not connected to its master")
QUERY_OFFSETS_BEHIND: Final = Family(
    "rmqspark_query_offsets_behind",
    "gauge",
    ("query", "query_id", "source"),
    "Messages that the running Spark query has not read of the source, by its consumer group",
)
QUERY_SECONDS_BEHIND: Final = Family(
    "rmqspark_query_seconds_behind", "gauge", ("query", "query_id"), "Age of its oldest message that is not read"
)
QUERY_BATCH: Final = Family(
    "rmqspark_query_batch_duration_seconds", "gauge", ("query", "query_id"), "How long its last micro-batch took"
)
LEFT_OUT: Final = Family(
    "rmqspark_consumer_lags_left_out",
    "gauge",
    (),
    "Pairs of group and topic of which no lag is told: those least behind, beyond the first 10,000",
)
REFUSED_SLAVES: Final = Family(
    "rmqspark_refused_slaves",
    "counter",
    ("reason",),
    "Connections to the port for slaves that were ended: of a stranger, no_tls, no_proof of who it is, or protocol: it "
    "said what no slave says",
)
UNDELIVERED: Final = Family(
    "rmqspark_undelivered_messages",
    "counter",
    (),
    "Messages whose time came and that can be delivered nowhere; the log names each, and they stay where they waited",
)

FAMILIES: Final[tuple[Family, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All of them, in this order."""
