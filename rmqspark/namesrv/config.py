"""What a name server can be told. Names are RocketMQ's NamesrvConfig in snake_case; (ours) marks those it lacks."""

from __future__ import annotations

from dataclasses import dataclass

from rmqspark.errors import InvalidArgument
from rmqspark.settings import setting


@dataclass(frozen=True)
class NamesrvConfig:
    """Where a name server listens and what it answers. Connections are `Limits`'."""

    bind_address: str = setting("127.0.0.1", "Address the name server listens on.")
    listen_port: int = setting(9876, "Port for clients and brokers; 0 takes any free one.")
    insecure: bool = setting(False, "(ours) Listen beyond loopback although there is no authentication.")

    scan_not_active_broker_interval: int = setting(5_000, "Time between looks for brokers gone silent.", unit="ms")
    order_message_enable: bool = setting(False, "Routes carry the order configuration of their topic.")
    return_order_topic_config_to_broker: bool = setting(
        True, "Brokers are told all order configurations when they register."
    )
    enable_all_topic_list: bool = setting(True, "Clients may list all topics.")
    enable_topic_list: bool = setting(True, "Clients may list the topics of a cluster, of units and of the system.")

    max_brokers: int = setting(4_096, "(ours) Brokers registered at a time, replicas counted.")
    max_topics: int = setting(200_000, "(ours) Topics known at a time, all brokers together.")
    max_kv_configs: int = setting(10_000, "(ours) Key-value configurations, all namespaces together.")

    def __post_init__(self) -> None:
        if not 0 <= self.listen_port <= 65_535:
            raise InvalidArgument(f"listen_port is {self.listen_port}, but must be 1 to 65535, or 0 for any free one.")
