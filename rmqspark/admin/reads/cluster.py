"""The cluster, its brokers and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.cluster import BrokerView, ClusterView, SettingView
from rmqspark.client.broker_admin import BrokerAdmin
from rmqspark.client.cluster_status import look, problems
from rmqspark.errors import BrokerNotRegistered
from rmqspark.settings import SettingInfo, snake_case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.client.cluster_client import ClusterClient


def cluster(client: ClusterClient) -> ClusterView:
    """Everybody, each asked how it is. Unreachable where no name server answers."""
    status = look(client)
    return ClusterView.of(status, problems(status), client.clock.now_ms())


def brokers(client: ClusterClient) -> list[BrokerView]:
    return cluster(client).brokers


def broker(client: ClusterClient, name: str) -> BrokerView:
    """BrokerNotRegistered."""
    for each in brokers(client):
        if each.broker_name == name:
            return each
    raise BrokerNotRegistered(f"No name server knows a broker {name!r}.", hint="rmq cluster info shows those it knows.")


def settings(client: ClusterClient, broker_name: str, known: Mapping[str, SettingInfo]) -> list[SettingView]:
    """As the broker lists them; what they mean is told of those that are known, by name in snake_case."""
    found = []
    for name, value in BrokerAdmin(client.broker(broker_name)).config().items():
        info = known.get(snake_case(name))
        default = None if info is None or info.default in (None, "") else str(info.default)
        found.append(
            SettingView(
                setting=snake_case(name),
                rocketmq_name=name,
                value=value,
                default=default.lower() if default is not None and info is not None and info.kind is bool else default,
                unit=(info.unit or None) if info else None,
                live=info.live if info else None,
                meaning=info.meaning if info else None,
            )
        )
    return found
