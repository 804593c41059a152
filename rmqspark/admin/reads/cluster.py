"""The cluster, its brokers and their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.cluster import BrokerView, ClusterView, SettingView
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.cluster_problems import problems
from rmqspark.client.administration.cluster_status import look
from rmqspark.errors import BrokerNotRegistered
from rmqspark.settings import SettingInfo, snake_case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.client.administration.cluster_status import ClusterStatus
    from rmqspark.client.cluster.cluster_client import ClusterClient


def cluster(client: ClusterClient) -> ClusterView:
    """Everybody, each asked how it is. Unreachable where no name server answers."""
    return _view(look(client))


def servers(client: ClusterClient) -> ClusterView:
    """The same but for topics and queues, of which it counts none: at any number of them it costs as little."""
    return _view(look(client, with_routes=False))


def brokers(client: ClusterClient) -> list[BrokerView]:
    return cluster(client).brokers


def broker(client: ClusterClient, name: str) -> BrokerView:
    """No other one is asked. BrokerNotRegistered."""
    for each in _view(look(client, name)).brokers:
        return each
    raise BrokerNotRegistered(f"No name server knows a broker {name!r}.", hint="rmq cluster info shows those it knows.")


def _view(status: ClusterStatus) -> ClusterView:
    return ClusterView.of(status, problems(status))


def settings(client: ClusterClient, broker_name: str, known: Mapping[str, SettingInfo]) -> list[SettingView]:
    """As the broker lists them; what they mean is told of those that are known, by name in snake_case."""
    found = []
    for name, value in BrokerAdmin(client.broker(broker_name)).config().items():
        info = known.get(snake_case(name))
        found.append(
            SettingView(
                setting=snake_case(name),
                rocketmq_name=name,
                value=value,
                default=info.default_text if info else None,
                unit=(info.unit or None) if info else None,
                live=info.live if info else None,
                meaning=info.meaning if info else None,
            )
        )
    return found
