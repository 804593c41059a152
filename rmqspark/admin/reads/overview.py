"""The first look at a cluster: what comes and goes, what is in doubt, what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from rmqspark.admin.reads import cluster, dead_letters, transactions
from rmqspark.admin.schemas.overview import OverviewView
from rmqspark.client.administration.groups_described import describe_group
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.cluster.user_topics import user_topics
from rmqspark.errors import NotFound, RmqError
from rmqspark.protocol.names import HALF_TOPIC

if TYPE_CHECKING:
    from rmqspark.admin.schemas.dead_letters import DeadLetterCountView
    from rmqspark.client.administration.descriptions import GroupDescription
    from rmqspark.client.cluster.cluster_client import ClusterClient

_AT_ONCE: Final = 5
_HALF_GROUP: Final = "CID_RMQ_SYS_TRANS"
_T = TypeVar("_T")


def overview(client: ClusterClient) -> OverviewView:
    """Unreachable where no name server answers; of brokers that do not, what they know is in no figure. All is asked at
    once, so that a broker that hangs is waited for once."""
    silence = Silence()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="overview") as pool:
        there = pool.submit(cluster.cluster, client)
        topics = pool.submit(_known, lambda: len(user_topics(client)))
        half = pool.submit(_known, lambda: half_messages(client, silence))
        open_ = pool.submit(_known, lambda: sum(view.open for view in transactions.transactions(client, silence)))
        letters = pool.submit(_known, lambda: _waiting(dead_letters.counts(client, silence)))
    return OverviewView(
        cluster=there.result(),
        topic_count=topics.result(),
        half_messages=half.result(),
        open_transactions=open_.result(),
        dead_letters=letters.result(),
        silent=silence.reasons,
    )


def half_messages(client: ClusterClient, silence: Silence) -> int | None:
    """Those that no broker has swept up yet: decided ones stay among them for a moment. None where nothing is known."""
    try:
        group = describe_group(client, _HALF_GROUP, on_silent=silence)
    except NotFound:
        return 0
    return undecided(group)


def undecided(group: GroupDescription) -> int | None:
    """Of the group that goes through half messages: those that it has before it."""
    lags = [queue.lag for queue in group.queues if queue.queue.topic == HALF_TOPIC]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known or not (lags or group.silent) else None


def _waiting(counts: list[DeadLetterCountView]) -> int | None:
    """None where of no group anything is known."""
    known = [each.waiting for each in counts if each.waiting is not None]
    return sum(known) if known or not counts else None


def _known(read: Callable[[], _T]) -> _T | None:
    try:
        return read()
    except RmqError:
        return None
