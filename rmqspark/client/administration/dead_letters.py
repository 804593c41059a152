"""Dead letters: what a group consumed in vain as often as it allows. Going through them is in `dead_letter_walk`,
sending them again in `dead_letter_plan` and `dead_letter_resends`.

Each broker keeps those of its own messages in `%DLQ%` and the group's name. How far they were sent again is the group's
committed offset there, which nothing else uses. Spec: semantics, section 8.9.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.administration.admin_topics import readable
from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.topics_described import bounds_in
from rmqspark.client.cluster.broker_client import NO_GROUP
from rmqspark.client.cluster.pull_request import PullStatus
from rmqspark.client.cluster.silence import RollCall
from rmqspark.client.pulling.received import received
from rmqspark.errors import GroupNotFound, TopicNotFound
from rmqspark.model import ReceivedMessage
from rmqspark.protocol.names import DLQ_PREFIX, check_group, dead_letter_topic
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import decode_record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from rmqspark.client.administration.descriptions import QueueDescription
    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.records.record import Record

CHUNK: Final = 32  # letters at a time; RocketMQ's brokers answer no pull with more
RETRIES: Final = 16  # RocketMQ's retryMaxTimes, where a group is not known any more


@dataclass(frozen=True, slots=True)
class DeadLetterCount:
    """The dead letters of one group. `waiting` are those that were not sent again, the first of them since
    `waiting_since_ms`; times are None where there are none. `silent` are brokers that do not answer, and why: what they
    have is in no figure, and where all are that have any, `count` and `waiting` are None: unknown."""

    group: str
    count: int | None
    waiting: int | None
    oldest_ms: int | None
    newest_ms: int | None
    waiting_since_ms: int | None
    silent: dict[str, str] = field(default_factory=dict)


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


def count_dead_letters(cluster: ClusterClient, *, on_silent: OnSilent | None = None) -> list[DeadLetterCount]:
    """The groups that have dead letters, by name. A broker that does not answer is told to `on_silent` and left out,
    unless none does; without that it is an error."""
    groups = [topic.removeprefix(DLQ_PREFIX) for topic in cluster.topics() if topic.startswith(DLQ_PREFIX)]
    roll = RollCall(cluster, on_silent)
    places = _places(cluster, groups)
    held = _held(roll, places)
    roll.insist_on_any()
    counts = (_count(cluster, roll, group, places[group], held[group]) for group in groups if group in places)
    return [count for count in counts if count.count != 0]


def dead_letter_queues(cluster: ClusterClient, group: str) -> list[DeadLetterQueue]:
    """Those of each broker; none where the group has no dead letters. GroupNotFound where there is no such group,
    either."""
    return queues_of(cluster, RollCall(cluster), group)


def queues_of(cluster: ClusterClient, roll: RollCall, group: str) -> list[DeadLetterQueue]:
    """The same for who asks more than that of the brokers in `roll`."""
    places = _places(cluster, [check_group(group)])
    if places:
        found = _held(roll, places)[group]
        roll.insist_on_one(places[group])
        return found
    if not _is_known(cluster, roll, group):
        roll.insist()
        raise GroupNotFound(group, hint="rmq dlq list shows those that have dead letters, rmq group list all.")
    return []


def _is_known(cluster: ClusterClient, roll: RollCall, group: str) -> bool:
    """Whether any broker knows the group: the first that does is enough."""
    for name in readable(cluster):
        with roll.hears(name):
            if BrokerAdmin(cluster.broker(name)).has_group(group):
                return True
    return False


def _places(cluster: ClusterClient, groups: Sequence[str]) -> dict[str, list[str]]:
    """The brokers that have dead letters of each group, or had; without groups that have none."""
    topics = {group: dead_letter_topic(group) for group in groups}
    for topic in topics.values():
        cluster.expire_route(topic)
    cluster.look_up(list(topics.values()))
    places = {}
    for group, topic in topics.items():
        try:
            places[group] = sorted(cluster.route(topic).brokers)
        except TopicNotFound:
            continue
    return places


def _held(roll: RollCall, places: dict[str, list[str]]) -> defaultdict[str, list[DeadLetterQueue]]:
    """What each broker that answers has of each group."""
    pairs = [(broker_name, group) for group, broker_names in places.items() for broker_name in broker_names]
    tables = roll.ask(pairs, lambda broker, group: BrokerAdmin(broker).submit_topic_stats(dead_letter_topic(group)))
    bounds = [(name, (group, each)) for (name, group), table in tables.items() for each in bounds_in(table)]
    held: defaultdict[str, list[DeadLetterQueue]] = defaultdict(list)
    for (_, (group, each)), committed in roll.ask(bounds, _submit_settled).items():
        held[group].append(DeadLetterQueue(each, _settled(each, committed)))
    return held


def _submit_settled(broker: BrokerClient, of: tuple[str, QueueDescription]) -> Future[int | None]:
    group, bounds = of
    return broker.submit_query_offset(group, bounds.queue.topic, bounds.queue.queue_id)


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


def _count(
    cluster: ClusterClient, roll: RollCall, group: str, broker_names: Sequence[str], held: Sequence[DeadLetterQueue]
) -> DeadLetterCount:
    filled = [each for each in held if each.bounds.min_offset < each.bounds.max_offset]
    oldest_ms = _first_stored_ms(cluster, roll, {each.queue: each.bounds.min_offset for each in filled})
    since_ms = _first_stored_ms(cluster, roll, {each.queue: each.settled for each in filled})
    silent = {name: roll.silent[name] for name in broker_names if roll.is_silent(name)}
    is_known = bool(held) or not silent
    return DeadLetterCount(
        group,
        sum(each.bounds.max_offset - each.bounds.min_offset for each in filled) if is_known else None,
        sum(each.bounds.max_offset - each.settled for each in filled) if is_known else None,
        oldest_ms,
        max((each.bounds.last_stored_ms for each in filled), default=None),
        since_ms,
        silent,
    )


def _first_stored_ms(cluster: ClusterClient, roll: RollCall, starts: dict[MessageQueue, int]) -> int | None:
    """When the first message from there on was stored, of all these queues."""
    found: list[int] = []
    for queue, start in starts.items():
        with roll.hears(queue.broker_name):
            found += [record.store_timestamp_ms for record in _next_records(cluster, queue, start, 1)]
    return min(found, default=None)


def _settled(bounds: QueueDescription, committed: int | None) -> int:
    """An offset beyond the end is of a queue that was there before this one."""
    if committed is None or committed > bounds.max_offset:
        return bounds.min_offset
    return max(bounds.min_offset, committed)


def retries_of(roll: RollCall, broker_names: Sequence[str], group: str) -> int:
    """How often the group's messages come again."""
    asked = ((name, None) for name in broker_names)
    known = roll.ask(asked, lambda broker, _: BrokerAdmin(broker).submit_groups())
    configs = (groups.get(group) for groups in known.values())
    return next((config.retryMaxTimes for config in configs if config is not None), RETRIES)


def _next_records(cluster: ClusterClient, queue: MessageQueue, start: int, max_count: int) -> list[Record]:
    """The next records at `start` or behind it; none at the end of the queue."""
    broker = cluster.broker(queue.broker_name)
    result = broker.pull(queue, start, group=NO_GROUP, max_count=max_count)
    while result.status is not PullStatus.FOUND and result.next_offset > start:
        start = result.next_offset
        result = broker.pull(queue, start, group=NO_GROUP, max_count=max_count)
    records, at = [], 0
    while at < len(result.records):
        record = decode_record(result.records, at)
        records.append(record)
        at += record.size
    return records
