"""What a name server can be told. Names are RocketMQ's NamesrvConfig in snake_case; (ours) marks those it lacks."""

from __future__ import annotations

from dataclasses import dataclass

from rmqspark.auth.config import AuthConfig
from rmqspark.remoting.tls.settings import TlsServerSettings
from rmqspark.settings import check_bounds, setting


@dataclass(frozen=True)
class NamesrvConfig(TlsServerSettings, AuthConfig):
    """Where a name server listens and what it answers. Connections are `Limits`'."""

    bind_address: str = setting("127.0.0.1", "Address the name server listens on.")
    listen_port: int = setting(9876, "Port for clients and brokers; 0 takes any free one.", at_least=0, at_most=65_535)
    insecure: bool = setting(False, "(ours) Listen beyond loopback although there is no authentication.")

    scan_not_active_broker_interval: int = setting(5_000, "Time between looks for brokers gone silent.", unit="ms")
    order_message_enable: bool = setting(False, "Routes carry the order configuration of their topic.")
    return_order_topic_config_to_broker: bool = setting(
        True, "Brokers are told all order configurations when they register."
    )
    enable_all_topic_list: bool = setting(True, "Clients may list all topics.")
    enable_topic_list: bool = setting(True, "Clients may list the topics of a cluster, of units and of the system.")

    auth_config_path: str = setting(
        "", "(ours) Directory for its users, who are others than a broker's. Empty: it has those of its settings alone."
    )

    max_brokers: int = setting(
        4_096, "(ours) Brokers registered at a time, replicas counted; from one host half of them."
    )
    max_topics: int = setting(200_000, "(ours) Topics known at a time, each on 20 brokers on average.")
    max_kv_configs: int = setting(10_000, "(ours) Key-value configurations, all namespaces together.", at_least=0)

    def __post_init__(self) -> None:
        check_bounds(self)
        self.check_auth()
        _ = self.tls_serving  # whether it goes together
