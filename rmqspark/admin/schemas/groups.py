"""Consumer groups as they are shown. Never committed is unknown: null, neither 0 nor -1."""

from __future__ import annotations

from pydantic import Field

from rmqspark.admin.values import Document, Offset
from rmqspark.client.administration.descriptions import GroupDescription, GroupMember, GroupQueue
from rmqspark.client.administration.group_resets import QueueReset


class GroupSummary(Document):
    """A group in a list. `lag` in messages, as far as known. `silent` are the brokers that do not answer, and why: what
    they know is in no figure."""

    group: str
    members: int
    topics: list[str]
    lag: int | None
    seconds_behind: int | None
    consumed_per_second: float | None
    caught_up_in_seconds: int | None
    silent: dict[str, str]

    @classmethod
    def of(cls, group: GroupDescription, now_ms: int) -> GroupSummary:
        behind_ms = group.behind_ms(now_ms)
        return cls(
            group=group.name,
            members=len(group.members),
            topics=sorted({queue.queue.topic for queue in group.queues}),
            lag=group.lag,
            seconds_behind=None if behind_ms is None else behind_ms // 1000,
            consumed_per_second=group.consumed_per_second,
            caught_up_in_seconds=group.caught_up_in_s(now_ms),
            silent=group.silent,
        )


class MemberView(Document):
    """A consumer that is connected now."""

    client_id: str
    address: str
    language: str
    version: int

    @classmethod
    def of(cls, member: GroupMember) -> MemberView:
        return cls(client_id=member.client_id, address=member.address, language=member.language, version=member.version)


class GroupQueueView(Document):
    """How far the group is in one queue."""

    topic: str
    broker_name: str
    queue_id: int
    committed: Offset | None
    max_offset: Offset
    lag: int | None
    seconds_behind: int | None

    @classmethod
    def of(cls, queue: GroupQueue, now_ms: int) -> GroupQueueView:
        since_ms = queue.waiting_since_ms
        behind = 0 if queue.lag == 0 else None if since_ms is None else max(0, now_ms - since_ms) // 1000
        return cls(
            topic=queue.queue.topic,
            broker_name=queue.queue.broker_name,
            queue_id=queue.queue.queue_id,
            committed=queue.committed,
            max_offset=queue.max_offset,
            lag=queue.lag,
            seconds_behind=behind,
        )


class GroupView(GroupSummary):
    """One group in full. `queries` are the Spark queries that read for it, by name or id: they are no members."""

    clients: list[MemberView]
    queries: list[str]
    offsets: list[GroupQueueView]

    @classmethod
    def of_all(cls, group: GroupDescription, queries: list[str], now_ms: int) -> GroupView:
        return cls(
            **dict(GroupSummary.of(group, now_ms)),
            clients=[MemberView.of(member) for member in group.members],
            queries=queries,
            offsets=[GroupQueueView.of(queue, now_ms) for queue in group.queues],
        )


class ResetRequest(Document):
    """Where to: earliest, latest, a time, -10m, an offset, or group:NAME. With `dryRun` the answer is only a plan."""

    to: str = Field(examples=["-10m"])
    topic: str | None = Field(None, description="Without it, all topics that the group has offsets of.")
    queues: list[int] | None = Field(None, description="Only these queue ids.")
    create: bool = Field(False, description="Make the group for a topic, if there is none.")
    dry_run: bool = False


class QueueResetView(Document):
    """`readAgain`: messages that are consumed once more; below 0, messages that are left out."""

    topic: str
    broker_name: str
    queue_id: int
    committed: Offset | None
    target: Offset
    min_offset: Offset
    max_offset: Offset
    read_again: int

    @classmethod
    def of(cls, reset: QueueReset) -> QueueResetView:
        return cls(
            topic=reset.queue.topic,
            broker_name=reset.queue.broker_name,
            queue_id=reset.queue.queue_id,
            committed=reset.committed,
            target=reset.target,
            min_offset=reset.min_offset,
            max_offset=reset.max_offset,
            read_again=reset.read_again,
        )


class ResetView(Document):
    """A reset, planned or done."""

    group: str
    done: bool
    queues: list[QueueResetView]
