"""The names of all that can be looked at, for who searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.administration.admin_groups import list_groups
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.client.spark.queries import name_of, seen_queries

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import Silence


class Name(NamedTuple):
    """`kind` is topic, group, query or broker. A query is named by its id, and may have a name that its user gave."""

    kind: str
    name: str
    given: str = ""

    @property
    def shown(self) -> str:
        return self.given or self.name


def all_names(client: ClusterClient, silence: Silence) -> list[Name]:
    """Of the users' topics and groups, of the queries that were heard of, and of brokers. `silence` hears of those that
    do not answer."""
    return [
        *(Name("topic", name) for name in user_topics(client)),
        *(Name("group", name) for name in list_groups(client, system=False, on_silent=silence)),
        *(Name("query", seen.known.queryId, name_of(seen.known)) for seen in seen_queries(client, on_silent=silence)),
        *(Name("broker", name) for name in sorted(client.cluster_info().brokerAddrTable)),
    ]
