"""What a broker can be told. Names are RocketMQ's BrokerConfig in snake_case; those marked (ours) it does not have."""

from __future__ import annotations

from dataclasses import dataclass

from rmqspark.auth.config import AuthConfig
from rmqspark.broker.metrics.settings import exports, labels_of
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.names import check_broker_name
from rmqspark.remoting.access import Access, Credentials
from rmqspark.remoting.address import is_loopback
from rmqspark.remoting.tls.settings import TlsClientSettings, TlsServerSettings
from rmqspark.replication.stream import MOST_TRANSFER_BYTES
from rmqspark.settings import check_bounds, setting

_MASTERS = ("ASYNC_MASTER", "SYNC_MASTER")
_SLAVE = "SLAVE"


@dataclass(frozen=True)
class BrokerConfig(TlsClientSettings, TlsServerSettings, AuthConfig):
    """Identity, limits and habits of one broker. Files and flushing are `StoreConfig`'s, connections `Limits`'."""

    broker_name: str = setting("broker-a", "Name of this broker and its replicas: a word, a host, or room@name.")
    broker_cluster_name: str = setting("DefaultCluster", "Cluster this broker belongs to.")
    broker_id: int = setting(0, "0 is the master of a broker name, its slaves have others.", at_least=0)
    broker_role: str = setting(
        "ASYNC_MASTER", "SYNC_MASTER answers a send when slaves have it, ASYNC_MASTER at once; or SLAVE."
    )
    bind_address: str = setting("127.0.0.1", "Address the broker listens on.")
    listen_port: int = setting(
        10911, "Port for clients; listen port - 2 is opened too. 0 takes a free pair.", at_least=0, at_most=65_535
    )
    broker_ip1: str = setting("", "Host that clients are told; empty means the address the broker listens on.")
    namesrv_addr: str = setting("", "Name servers to register with: h1:9876;h2:9876. Empty registers nowhere.")
    register_name_server_period: int = setting(30_000, "Time between registrations.", unit="ms")
    register_broker_timeout_mills: int = setting(24_000, "Time allowed for one registration.", unit="ms")
    insecure: bool = setting(False, "(ours) Listen beyond loopback although there is no authentication.")

    ha_listen_port: int | None = setting(
        None,
        "Port for slaves, 0 for any. Not set: listen port + 1, or any where that is in use.",
        at_least=0,
        at_most=65_535,
    )
    ha_master_address: str = setting(
        "", "host:port where a slave gets its master's log; empty: the name servers say it."
    )
    in_sync_replicas: int = setting(
        2, "Copies that a send waits for as SYNC_MASTER, the master's among them (1 in RocketMQ 5)."
    )
    slave_timeout: int = setting(3000, "How long a send may wait for slaves.", unit="ms")
    ha_max_gap_not_in_sync: int = setting(256 << 20, "A slave that is further behind is not waited for.", unit="bytes")
    ha_send_heartbeat_interval: int = setting(5000, "Time after which master and slave say that they live.", unit="ms")
    ha_housekeeping_interval: int = setting(20_000, "Silence after which they hang up.", unit="ms")
    ha_transfer_batch_size: int = setting(
        32_768, "Bytes of the log sent to a slave at a time.", unit="bytes", at_most=MOST_TRANSFER_BYTES
    )
    ha_send_whole_log: bool = setting(False, "(ours) An empty slave gets all of the log, not only its newest file.")
    ha_cut_tail: bool = setting(
        False, "(ours) A slave cuts off what even a SYNC_MASTER does not have any more; an ASYNC_MASTER's always."
    )
    ha_tls_enable: bool = setting(
        True,
        "(ours) The log goes over TLS where tls_server_mode, a slave's tls_enable, say so; false for RocketMQ's.",
    )
    ha_authentication_enabled: bool = setting(
        True, "(ours) Where users are on, master and slave prove to each other who they are; false for RocketMQ's."
    )
    slave_sync_interval: int = setting(
        10_000, "(ours) Time between two looks of a slave at its master's tables.", unit="ms"
    )

    auto_create_topic_enable: bool | None = setting(
        None, "Sending to an unknown topic creates it. Not set: only while the broker listens on loopback."
    )
    auto_create_subscription_group: bool = setting(True, "A consumer group exists from its first use.")
    default_topic_queue_nums: int = setting(8, "Queues of the template TBW102, the most an auto-created topic gets.")
    cluster_topic_enable: bool = setting(True, "The topic named like the cluster may be read and written.")
    broker_topic_enable: bool = setting(True, "The topic named like the broker may be read and written.")
    trace_topic_enable: bool = setting(True, "Clients may send message traces to RMQ_SYS_TRACE_TOPIC.")
    max_topic_nums: int = setting(20_000, "(ours) Topics this broker holds at most, retry topics included.")
    max_group_nums: int = setting(
        10_000, "(ours) Consumer groups, and producer groups at a time, at most. Online one address makes half of them."
    )
    max_queue_nums: int = setting(1024, "(ours) Queues a topic may have at most.", at_most=65_536)
    enable_mixed_message_type: bool = setting(False, "Topics may be for MIXED messages, of all kinds.")

    enable_property_filter: bool = setting(True, "Consumers may filter by SQL92 (off in RocketMQ).")
    long_polling_enable: bool = setting(True, "Pulls at the end of a queue wait for messages.", live=True)
    short_polling_time_mills: int = setting(
        1000, "How long they wait with long polling off.", unit="ms", at_least=0, live=True
    )
    max_parked_pulls: int = setting(
        100_000, "(ours) Pulls held at a time, half of them for one address; more are answered busy.", at_least=0
    )
    max_transfer_bytes_on_message_in_memory: int = setting(
        262_144,
        "Bytes one pull answers at most, and never more than the 16 MiB that clients take.",
        unit="bytes",
        live=True,
    )
    max_transfer_count_on_message_in_memory: int = setting(32, "Messages one pull answers at most.", live=True)
    max_bulk_read_bytes: int = setting(
        8 << 20, "(ours) Bytes of records one bulk read answers at most, and never more than 15 MiB.", unit="bytes"
    )
    default_query_max_num: int = setting(32, "Messages a query by unique key answers at most.")

    timer_max_delay_sec: int = setting(
        259_200, "How far ahead a message may be given a time to be delivered at.", unit="s"
    )

    recall_message_enable: bool = setting(True, "Messages that wait for a time can be recalled (off in RocketMQ).")

    transaction_time_out: int = setting(
        6000, "Age at which producers are first asked about a half message.", unit="ms", at_least=0
    )
    transaction_check_interval: int = setting(60_000, "Time between two questions about one half message.", unit="ms")
    transaction_check_max: int = setting(15, "Questions after which a half message is set aside.", at_least=0)
    reject_transaction_message: bool = setting(False, "Transactional messages are refused.")
    max_half_messages: int = setting(
        500_000, "(ours) Half messages open at a time; more are answered busy.", at_least=0
    )
    max_half_batches: int = setting(
        200_000, "(ours) Half batches of Spark held at a time; more are answered busy.", at_least=0
    )
    max_half_batch_bytes: int = setting(
        100 << 30, "(ours) Bytes in them; more are answered busy.", unit="bytes", at_least=0
    )

    consume_group_lock_live_time: int = setting(60_000, "Lease of a queue lock of orderly consumers.", unit="ms")
    client_expired_time: int = setting(120_000, "Clients without heartbeat for longer are dropped.", unit="ms")
    flush_consumer_offset_interval: int = setting(5000, "Time between writes of changed offsets.", unit="ms")
    use_server_side_reset_offset: bool = setting(True, "Offset resets are kept here and told to the next pull.")
    transaction_max_open: int = setting(
        60, "(ours) A Spark batch of which no task began for so long is given up, and written again.", unit="min"
    )
    transactional_id_expiration: int = setting(
        90, "(ours) A transactional id that nobody has used while the broker ran for so long is forgotten.", unit="d"
    )
    retired_brokers: str = setting(
        "", "(ours) Brokers gone for good: their transactional ids may be adopted, no lease waits for their word: a;b."
    )
    store_reply_message_enable: bool = setting(True, "Replies to requests of producers go into the log, too.")
    region_id: str = setting("DefaultRegion", "Region written into messages (MSG_REGION).")
    trace_on: bool = setting(True, "Tells clients that traces are welcome (TRACE_ON).")

    metrics_exporter_type: str = setting("DISABLE", "PROM opens a port for Prometheus; DISABLE does not.")
    metrics_prom_exporter_host: str = setting("", "Its address; empty means the address the broker listens on.")
    metrics_prom_exporter_port: int = setting(
        5557, "Its port; 0 takes a free one, which the log names.", at_least=0, at_most=65_535
    )
    metrics_label: str = setting("", "What all series are labelled with besides: name:value,name:value.")
    metrics_in_delta: bool = setting(False, "Labels all series aggregation=delta, and does nothing else.")
    metrics_otel_cardinality_limit: int = setting(50_000, "Series of one metric that are counted by topic and group.")
    enable_stats_metrics: bool = setting(True, "Metrics tell how many topics and groups there are.")
    enable_request_metrics: bool = setting(True, "They tell messages and bytes in and out.")
    enable_connection_metrics: bool = setting(True, "They tell who is connected.")
    enable_lag_and_dlq_metrics: bool = setting(True, "They tell how far groups are behind, and dead letters.")
    enable_transaction_metrics: bool = setting(True, "They tell of half messages.")
    enable_remoting_metrics: bool = setting(True, "They tell how long requests take.")
    enable_message_store_metrics: bool = setting(True, "They tell of the store and its timers.")
    enable_pop_metrics: bool = setting(True, "Without meaning: this broker has no POP.")

    def __post_init__(self) -> None:
        check_bounds(self)
        self.check_auth()
        _ = self.tls_serving  # whether it goes together
        exports(self.metrics_exporter_type)
        labels_of(self.metrics_label)
        for name in (self.broker_name, self.broker_cluster_name):
            check_broker_name(name)
        self._check_role()
        if 0 < self.listen_port < 3:
            raise InvalidArgument(
                f"listen_port is {self.listen_port}, but must be 3 to 65535, or 0 for a free pair.",
                hint="Listen port - 2 is opened too.",
            )
        if not 1 <= self.default_topic_queue_nums <= self.max_queue_nums:
            raise InvalidArgument(
                f"default_topic_queue_nums is {self.default_topic_queue_nums}, but must be 1 to {self.max_queue_nums}."
            )

    def _check_role(self) -> None:
        if self.broker_role not in (*_MASTERS, _SLAVE):
            raise InvalidArgument(
                f"broker_role is {self.broker_role!r}, but must be ASYNC_MASTER, SYNC_MASTER or SLAVE."
            )
        if self.is_slave != (self.broker_id > 0):
            raise InvalidArgument(
                f"broker_role {self.broker_role} does not go with broker_id {self.broker_id}.",
                hint="A master has id 0, a slave of the same broker_name another one.",
            )
        if self.is_slave and not (self.namesrv_addr or self.ha_master_address):
            raise InvalidArgument(
                "A slave finds its master by the name servers, and none is named.",
                hint="Set namesrv_addr (--namesrv), or ha_master_address.",
            )

    @property
    def is_slave(self) -> bool:
        return self.broker_role == _SLAVE

    @property
    def waits_for_slaves(self) -> bool:
        """Whether sends are answered when slaves have them."""
        return self.broker_role == "SYNC_MASTER" and self.in_sync_replicas > 1

    @property
    def retired(self) -> tuple[str, ...]:
        """The brokers that are gone for good."""
        return tuple(name.strip() for name in self.retired_brokers.split(";") if name.strip())

    @property
    def access(self) -> Access:
        """To name servers and other brokers."""
        return Access(self.inner_credentials, self.tls_client)

    @property
    def peer_credentials(self) -> Credentials | None:
        """By which master and slave prove who they are; None where they need not."""
        return self.inner_credentials if self.authentication_enabled and self.ha_authentication_enabled else None

    @property
    def exports_metrics(self) -> bool:
        return exports(self.metrics_exporter_type)

    @property
    def auto_creates_topics(self) -> bool:
        enable = self.auto_create_topic_enable
        return is_loopback(self.bind_address) if enable is None else enable
