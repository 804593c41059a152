"""Consumer groups, as an administrator looks at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.admin_topics import masters, queue_bounds
from rmqspark.client.broker_admin import BrokerAdmin
from rmqspark.client.broker_client import NO_GROUP
from rmqspark.client.descriptions import GroupDescription, GroupMember, GroupQueue
from rmqspark.client.futures import then
from rmqspark.errors import GroupNotFound, RmqError, TopicNotFound
from rmqspark.protocol.names import check_group, dead_letter_topic, is_system_group
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.broker_client import BrokerClient
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.descriptions import QueueDescription


def list_groups(cluster: ClusterClient, *, system: bool) -> list[str]:
    """The groups that any master knows."""
    names: set[str] = set()
    for admin in _admins(cluster):
        names.update(admin.groups())
    return sorted(name for name in names if system or not is_system_group(name))


def describe_group(cluster: ClusterClient, group: str) -> GroupDescription:
    """Its members, and how far it is in each queue of each topic it has committed for. GroupNotFound."""
    check_group(group)
    admins = _admins(cluster)
    topics = topics_read(admins, group)
    members = _members(admins, group)
    if not topics and not members and not any(group in admin.groups() for admin in admins):
        raise GroupNotFound(group, hint="rmq group list shows those that exist.")
    queues = [queue for topic in topics for queue in _progress(cluster, group, topic)]
    rate = sum(admin.consumed_per_second(group) for admin in admins) if any(queue.lag for queue in queues) else None
    return GroupDescription(group, members, queues, rate)


def topics_read(admins: list[BrokerAdmin], group: str) -> list[str]:
    """The topics that the group has committed offsets of. In its dead letters, how far they were sent again is kept so:
    nobody waits for those."""
    topics = {topic for admin in admins for topic in admin.group_topics(group)}
    return sorted(topics - {dead_letter_topic(group)})


def delete_group(cluster: ClusterClient, group: str) -> None:
    """From every master, its committed offsets too. GroupNotFound where none has it."""
    holders = [admin for admin in _admins(cluster) if group in admin.groups()]
    if not holders:
        raise GroupNotFound(group, hint="rmq group list shows those that exist.")
    for admin in holders:
        admin.delete_group(group)


def _admins(cluster: ClusterClient) -> list[BrokerAdmin]:
    return [BrokerAdmin(cluster.broker(name)) for name in masters(cluster)]


def _members(admins: list[BrokerAdmin], group: str) -> list[GroupMember]:
    """A consumer is connected to several brokers, and counted once."""
    found = {
        connection.clientId: GroupMember(
            connection.clientId, connection.clientAddr, connection.language, connection.version
        )
        for admin in admins
        for connection in admin.group_members(group)
    }
    return sorted(found.values(), key=lambda member: member.client_id)


def _progress(cluster: ClusterClient, group: str, topic: str) -> list[GroupQueue]:
    try:
        brokers = sorted(cluster.route(topic).brokers)
    except TopicNotFound:
        return []  # offsets outlive their topic until the broker cleans up
    return [
        queue
        for broker_name in brokers
        for queue in _progress_on(cluster.broker(broker_name), group, queue_bounds(cluster, topic, broker_name))
    ]


def _progress_on(broker: BrokerClient, group: str, queues: list[QueueDescription]) -> list[GroupQueue]:
    """Its progress in queues of one broker. What is asked about the lagging ones is under way all at once."""
    progress = []
    for bounds in queues:
        committed = broker.query_offset(group, bounds.queue.topic, bounds.queue.queue_id)
        progress.append((bounds, committed, _ask_waiting_since(broker, bounds, committed)))
    return [
        GroupQueue(bounds.queue, committed, bounds.max_offset, _answer(waiting_since))
        for bounds, committed, waiting_since in progress
    ]


def _ask_waiting_since(
    broker: BrokerClient, bounds: QueueDescription, committed: int | None
) -> Future[int | None] | None:
    """Reads the first message that is still to be consumed, as any consumer would: no request of stock brokers tells
    its store time alone. None where nothing is waiting, or where that is unknown."""
    if committed is None or committed >= bounds.max_offset:
        return None
    first = max(committed, bounds.min_offset)
    pull = broker.submit_pull(bounds.queue, first, group=NO_GROUP, max_count=1)
    return then(pull, lambda result: decode_record(result.records).store_timestamp_ms if result.records else None)


def _answer(waiting_since: Future[int | None] | None) -> int | None:
    """None too where the message cannot be read: the topic may be closed to readers, or it has just expired."""
    try:
        return waiting_since.result() if waiting_since else None
    except RmqError:
        return None
