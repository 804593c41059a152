"""Dead letters: what a group consumed in vain as often as it allows. Sending them again is in `dead_letter_resends`.

Each broker keeps those of its own messages in `%DLQ%` and the group's name. How far they were sent again is the group's
committed offset there, which nothing else uses. Spec: semantics, section 8.9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.admin_topics import masters, queue_bounds
from rmqspark.client.broker_admin import BrokerAdmin
from rmqspark.client.broker_client import NO_GROUP
from rmqspark.client.pull_request import PullStatus
from rmqspark.client.received import received
from rmqspark.errors import GroupNotFound, InvalidArgument, TopicNotFound
from rmqspark.model import ReceivedMessage
from rmqspark.protocol.names import DLQ_PREFIX, check_group, dead_letter_topic
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.descriptions import QueueDescription
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
    from rmqspark.protocol.records.record import Record

CHUNK: Final = 32  # letters at a time; RocketMQ's brokers answer no pull with more
RETRIES: Final = 16  # RocketMQ's retryMaxTimes, where a group is not known any more


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """The dead letters of one group. `waiting` are those that were not sent again, the first of them since
    `waiting_since_ms`; times are None where there are none."""

    group: str
    count: int
    waiting: int
    oldest_ms: int | None
    newest_ms: int | None
    waiting_since_ms: int | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`message` is as it lies in the dead letter topic; `topic` and `origin_msg_id` say where it was consumed in vain,
    None where nothing says so. `tries` is how often it was consumed."""

    message: ReceivedMessage
    topic: str | None
    origin_msg_id: str | None
    tries: int
    reason: str
    is_resent: bool


class DeadLetterQueue(NamedTuple):
    """One broker's dead letters of a group. Those before `settled` were sent again."""

    bounds: QueueDescription
    settled: int

    @property
    def queue(self) -> MessageQueue:
        return self.bounds.queue


def count_dead_letters(cluster: ClusterClient) -> list[DeadLetterCount]:
    """The groups that have dead letters, by name."""
    groups = [topic.removeprefix(DLQ_PREFIX) for topic in cluster.topics() if topic.startswith(DLQ_PREFIX)]
    counts = (_count(cluster, group) for group in groups)
    return [count for count in counts if count.count]


def newest_dead_letters(cluster: ClusterClient, group: str, max_count: int) -> list[DeadLetter]:
    """The newest dead letters of a group, oldest first. GroupNotFound where there is neither a group nor a letter."""
    if max_count < 1:
        raise InvalidArgument(f"max_count is 1 or more, not {max_count}.")
    queues = dead_letter_queues(cluster, group)
    retries = _retries(cluster, group)
    letters = [
        dead_letter(record, held.queue.broker_name, retries, is_resent=record.queue_offset < held.settled)
        for held in queues
        for records in read_chunks(
            cluster, held.queue, max(held.bounds.min_offset, held.bounds.max_offset - max_count), held.bounds.max_offset
        )
        for record in records
    ]
    letters.sort(key=lambda letter: (letter.message.store_timestamp_ms, letter.message.queue))
    return letters[-max_count:]


def dead_letter_queues(cluster: ClusterClient, group: str) -> list[DeadLetterQueue]:
    """Those of each broker; none where the group has no dead letters. GroupNotFound where there is no such group,
    either."""
    topic = dead_letter_topic(check_group(group))
    cluster.expire_route(topic)
    try:
        brokers = sorted(cluster.route(topic).brokers)
    except TopicNotFound:
        if not any(group in _groups_of(cluster, name) for name in masters(cluster)):
            hint = "rmq dlq list shows those that have dead letters, rmq group list all."
            raise GroupNotFound(group, hint=hint) from None
        return []
    return [
        DeadLetterQueue(
            bounds, _settled(bounds, cluster.broker(name).query_offset(group, topic, bounds.queue.queue_id))
        )
        for name in brokers
        for bounds in queue_bounds(cluster, topic, name)
    ]


def read_chunks(cluster: ClusterClient, queue: MessageQueue, start: int, end: int) -> Iterator[list[Record]]:
    """The records of [start, end), in the portions in which the broker gives them; what has expired is left out."""
    at = start
    while at < end:
        records = [
            record for record in _next_records(cluster, queue, at, min(CHUNK, end - at)) if record.queue_offset < end
        ]
        if not records:
            return
        yield records
        at = records[-1].queue_offset + 1


def dead_letter(record: Record, broker_name: str, retries: int, *, is_resent: bool) -> DeadLetter:
    """What a record of a dead letter queue says. Pure."""
    properties = record.property_map()
    is_used_up = record.reconsume_times > retries
    return DeadLetter(
        received(record, broker_name),
        origin_topic(properties),
        properties.get(Property.ORIGIN_MESSAGE_ID) or properties.get(Property.DLQ_ORIGIN_MESSAGE_ID),
        record.reconsume_times,
        "all retries used up" if is_used_up else "given up by its consumer",
        is_resent,
    )


def origin_topic(properties: dict[str, str]) -> str | None:
    """The topic that a dead letter was consumed from, as brokers or, with the second name, proxies say."""
    return properties.get(Property.RETRY_TOPIC) or properties.get(Property.DLQ_ORIGIN_TOPIC)


def _count(cluster: ClusterClient, group: str) -> DeadLetterCount:
    filled = [held for held in dead_letter_queues(cluster, group) if held.bounds.min_offset < held.bounds.max_offset]
    return DeadLetterCount(
        group,
        sum(held.bounds.max_offset - held.bounds.min_offset for held in filled),
        sum(held.bounds.max_offset - held.settled for held in filled),
        _first_stored_ms(cluster, {held.queue: held.bounds.min_offset for held in filled}),
        max((held.bounds.last_stored_ms for held in filled), default=None),
        _first_stored_ms(cluster, {held.queue: held.settled for held in filled}),
    )


def _first_stored_ms(cluster: ClusterClient, starts: dict[MessageQueue, int]) -> int | None:
    """When the first message from there on was stored, of all these queues."""
    found = [
        record.store_timestamp_ms
        for queue, start in starts.items()
        for record in _next_records(cluster, queue, start, 1)
    ]
    return min(found, default=None)


def _settled(bounds: QueueDescription, committed: int | None) -> int:
    """An offset beyond the end is of a queue that was there before this one."""
    if committed is None or committed > bounds.max_offset:
        return bounds.min_offset
    return max(bounds.min_offset, committed)


def _retries(cluster: ClusterClient, group: str) -> int:
    """How often the group's messages come again."""
    configs = (_groups_of(cluster, name).get(group) for name in masters(cluster))
    return next((config.retryMaxTimes for config in configs if config is not None), RETRIES)


def _groups_of(cluster: ClusterClient, broker_name: str) -> dict[str, SubscriptionGroupConfig]:
    return BrokerAdmin(cluster.broker(broker_name)).groups()


def _next_records(cluster: ClusterClient, queue: MessageQueue, start: int, max_count: int) -> list[Record]:
    """The next records at `start` or behind it; none at the end of the queue."""
    broker = cluster.broker(queue.broker_name)
    result = broker.pull(queue, start, group=NO_GROUP, max_count=max_count)
    if result.status is not PullStatus.FOUND and result.next_offset > start:
        result = broker.pull(queue, result.next_offset, group=NO_GROUP, max_count=max_count)
    records, at = [], 0
    while at < len(result.records):
        record = decode_record(result.records, at)
        records.append(record)
        at += record.size
    return records
