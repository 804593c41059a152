"""The first look at a cluster: what comes and goes, what is behind, what is in doubt, what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from rmqspark.admin.reads import cluster, dead_letters, groups, transactions
from rmqspark.admin.schemas.overview import OverviewView
from rmqspark.client.admin_groups import describe_group, list_groups
from rmqspark.client.user_topics import user_topics
from rmqspark.errors import NotFound, RmqError
from rmqspark.protocol.names import HALF_TOPIC

if TYPE_CHECKING:
    from rmqspark.admin.schemas.groups import GroupSummary
    from rmqspark.client.cluster_client import ClusterClient

MOST_GROUPS: Final = 200  # that are looked at
_SHOWN_GROUPS: Final = 8
_HALF_GROUP: Final = "CID_RMQ_SYS_TRANS"
_T = TypeVar("_T")


def overview(client: ClusterClient) -> OverviewView:
    """Unreachable where no name server answers; of brokers that do not, what they know is unknown."""
    there = cluster.cluster(client)
    names = _known(lambda: list_groups(client, system=False)) or []
    behind = _known(lambda: groups.groups(client, MOST_GROUPS, None).items) or []
    open_, silent = _open_transactions(client)
    letters = _known(lambda: dead_letters.counts(client))
    return OverviewView(
        cluster=there,
        topic_count=len(_known(lambda: user_topics(client)) or []),
        group_count=len(names),
        groups=sorted(behind, key=_behind, reverse=True)[:_SHOWN_GROUPS],
        half_messages=_known(lambda: half_messages(client)),
        open_transactions=open_,
        silent=silent,
        dead_letters=None if letters is None else sum(each.waiting for each in letters),
    )


def half_messages(client: ClusterClient) -> int | None:
    """Those that no broker has swept up yet: decided ones stay among them for a moment. None where nothing is known."""
    try:
        group = describe_group(client, _HALF_GROUP)
    except NotFound:
        return 0
    return sum(queue.lag or 0 for queue in group.queues if queue.queue.topic == HALF_TOPIC)


def _open_transactions(client: ClusterClient) -> tuple[int | None, dict[str, str]]:
    found = _known(lambda: transactions.transactions(client))
    if found is None:
        return None, {}
    views, silent = found
    return sum(view.open for view in views), silent


def _behind(group: GroupSummary) -> tuple[bool, int]:
    return group.lag is not None, group.lag or 0


def _known(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except RmqError:
        return None
