"""Setting a consumer group to another place: first the plan, queue by queue, then the move.

What is planned are offsets, and exactly those are set (INVOKE_BROKER_TO_RESET_OFFSET with a queue and an offset): a
preview that a user has said yes to is what happens. Whoever reads for the group learns of it from the broker: stock
consumers with their next pull, a streaming query with its next micro-batch. RocketMQ: resetOffsetByTime; spec:
requests, section 7.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.groups_described import read_by
from rmqspark.client.administration.in_turn import in_turn
from rmqspark.client.administration.topics_described import queue_bounds
from rmqspark.errors import Conflict, GroupNotFound, InvalidArgument, InvalidQueue, TopicNotFound
from rmqspark.message_queue import MessageQueue
from rmqspark.options import Moment, moment
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.names import check_group
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.client.administration.descriptions import QueueDescription
    from rmqspark.client.cluster.cluster_client import ClusterClient

_MOST_OFFSET_DIGITS = 11  # a longer number is a time: milliseconds had twelve digits in 1973
_ACCEPTED = "earliest, latest, a time (2026-01-31T12:00, or milliseconds), -10m, an offset, or group:NAME is accepted."
_OFFSETS_TAKEN = "Say earliest or latest for either end of what a queue holds."


@dataclass(frozen=True, slots=True)
class ResetTarget:
    """Where a group is to go: exactly one of these is set."""

    name: str | None = None  # "earliest" or "latest"
    moment: Moment | None = None
    offset: int | None = None
    group: str | None = None

    @classmethod
    def parse(cls, text: str) -> ResetTarget:
        """Reads `earliest`, `latest`, a time, `-10m`, an offset (up to 11 digits) or `group:NAME`."""
        word = text.strip()
        if word in ("earliest", "latest"):
            return cls(name=word)
        if word.startswith("group:"):
            return cls(group=check_group(word.removeprefix("group:")))
        if re.fullmatch(rf"[0-9]{{1,{_MOST_OFFSET_DIGITS}}}", word):
            return cls(offset=int(word))
        try:
            return cls(moment=moment(word))
        except ValueError:
            raise InvalidArgument(f"A group cannot be reset to {text!r}.", hint=_ACCEPTED) from None


@dataclass(frozen=True, slots=True)
class QueueReset:
    """One queue of the plan: from `committed` (None: never) to `target`, of what lies at [min_offset, max_offset)."""

    queue: MessageQueue
    committed: int | None
    target: int
    min_offset: int
    max_offset: int

    @property
    def read_again(self) -> int:
        """Messages that will be consumed once more; below 0: messages that will not be consumed. 0 if unknown. Those
        that have expired are neither, nor those that a queue had before it was made anew."""
        if self.committed is None:
            return 0
        return min(max(self.committed, self.min_offset), self.max_offset) - self.target


def plan_reset(
    cluster: ClusterClient,
    group: str,
    to: ResetTarget,
    *,
    topic: str | None,
    queue_ids: Collection[int] | None,
    create: bool = False,
) -> list[QueueReset]:
    """What a reset would do, now. Without `topic` it is about every topic that the group has committed offsets of, or,
    where it has none and follows another group, that one. With `create` the group of a `topic` need not be there yet.

    GroupNotFound, TopicNotFound; Conflict for a queue that is not there, an offset outside of a queue, or where
    nothing would be set at all.
    """
    check_group(group)
    if queue_ids is not None and not queue_ids:
        raise InvalidArgument("No queue is named.", hint="Leave queues out for all of them.")
    brokers = [BrokerAdmin(cluster.broker(name)) for name in sorted(cluster.cluster_info().brokerAddrTable)]
    if topic is None or not create:
        _require(group, brokers)
    topics = [topic] if topic is not None else _topics_of(cluster, group, brokers)
    if not topics and to.group is not None:
        topics = _topics_of(cluster, to.group, brokers)
    plan = [
        reset
        for each in topics
        for bounds in _queues(cluster, each, queue_ids)
        if (reset := _plan_queue(cluster, group, to, bounds, is_named=queue_ids is not None)) is not None
    ]
    if not plan:
        what = f"no offset of {', '.join(topics)}" if topics else "no offset"
        story = f"Group {to.group!r} has committed {what}" if to.group else f"Group {group!r} has committed nothing"
        hint = "rmq group list shows the groups there are." if to.group else "Name a topic: --topic."
        raise Conflict(f"{story}, so there is nothing to set.", hint=hint)
    return plan


def carry_out(cluster: ClusterClient, group: str, plan: Collection[QueueReset], *, create: bool = False) -> None:
    """Moves the group to where the plan says; with `create` it is made where it is not there yet. GroupNotFound. An
    error says where it was moved before that."""
    if not isinstance(plan, Collection) or not all(isinstance(reset, QueueReset) for reset in plan):
        raise InvalidArgument(f"{plan!r:.80} is no plan.", hint="reset_group(..., dry_run=True) returns one.")
    if create:
        _make(group, [BrokerAdmin(cluster.broker(name)) for name in sorted({each.queue.broker_name for each in plan})])

    def move(reset: QueueReset) -> None:
        BrokerAdmin(cluster.broker(reset.queue.broker_name)).reset_offset(group, reset.queue, reset.target)

    in_turn(plan, move, lambda reset: f"queue {reset.queue}")


def _make(group: str, brokers: list[BrokerAdmin]) -> None:
    for admin in brokers:
        if not admin.has_group(group):
            admin.put_group(SubscriptionGroupConfig(group))


def _require(group: str, brokers: list[BrokerAdmin]) -> None:
    """No broker resets a group that it does not know; that is said before anything is planned and shown."""
    if not any(admin.has_group(group) for admin in brokers):
        raise GroupNotFound(
            group,
            hint="rmq group list shows those there are. One comes into being when something first reads for it, or is "
            "made with --create, for a --topic.",
        )


def _topics_of(cluster: ClusterClient, group: str, brokers: list[BrokerAdmin]) -> list[str]:
    topics = {topic for admin in brokers for topic in admin.group_topics(group)}
    return [topic for topic in read_by(group, topics) if _exists(cluster, topic)]


def _exists(cluster: ClusterClient, topic: str) -> bool:
    try:
        cluster.route(topic)
    except TopicNotFound:
        return False  # offsets outlive their topic until the broker cleans up
    return True


def _queues(cluster: ClusterClient, topic: str, queue_ids: Collection[int] | None) -> list[QueueDescription]:
    bounds = [each for name in sorted(cluster.route(topic).brokers) for each in queue_bounds(cluster, topic, name)]
    missing = set(queue_ids or ()) - {each.queue.queue_id for each in bounds}
    if missing:
        raise InvalidQueue(
            f"Topic {topic!r} has no queue {min(missing)}.", hint=f"It has {counted(len(bounds), 'queue')}."
        )
    return [each for each in bounds if queue_ids is None or each.queue.queue_id in queue_ids]


def _plan_queue(
    cluster: ClusterClient, group: str, to: ResetTarget, bounds: QueueDescription, *, is_named: bool
) -> QueueReset | None:
    """None where another group is followed that has committed nothing for this queue. `is_named`: the user asked for
    this queue."""
    topic, broker_name, queue_id = bounds.queue
    broker = cluster.broker(broker_name)
    target: int | None
    if to.group is not None:
        target = broker.query_offset(to.group, topic, queue_id)
    elif to.moment is not None:
        target = broker.offset_by_time(topic, queue_id, to.moment.resolve(cluster.clock.now_ms()))
    elif to.offset is not None:
        target = _within(to.offset, bounds, is_named=is_named)
    else:
        target = bounds.min_offset if to.name == "earliest" else bounds.max_offset
    if target is None:
        return None
    committed = broker.query_offset(group, topic, queue_id)
    inside = min(max(target, bounds.min_offset), bounds.max_offset)
    return QueueReset(bounds.queue, committed, inside, bounds.min_offset, bounds.max_offset)


def _within(offset: int, bounds: QueueDescription, *, is_named: bool) -> int:
    if not bounds.min_offset <= offset <= bounds.max_offset:
        raise Conflict(
            f"Offset {offset} is not within {bounds.min_offset} to {bounds.max_offset} of queue {bounds.queue}.",
            hint=_OFFSETS_TAKEN if is_named else f"Name the queue that it is meant for: --queue. {_OFFSETS_TAKEN}",
        )
    return offset
