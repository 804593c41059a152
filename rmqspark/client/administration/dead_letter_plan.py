"""What is planned before dead letters are sent again (`dead_letter_resends`): which, queue by queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.administration.dead_letters import RETRIES, dead_letter, dead_letter_queues, read_chunks
from rmqspark.errors import MessageNotFound
from rmqspark.message_queue import MessageQueue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rmqspark.client.administration.dead_letters import DeadLetterQueue
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.protocol.records.record import Record


class LetterRange(NamedTuple):
    """Dead letters at [start, end) of one queue."""

    queue: MessageQueue
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """What is to be sent again, of queues that had been sent up to `settled`. With `to_topic` it goes to the original
    topics, for all who read them."""

    group: str
    ranges: tuple[LetterRange, ...]
    settled: dict[MessageQueue, int]
    to_topic: bool = False

    @property
    def count(self) -> int:
        return sum(each.end - each.start for each in self.ranges)


def plan_resend(
    cluster: ClusterClient,
    group: str,
    *,
    msg_ids: Collection[str] | None,
    begin_ms: int,
    end_ms: int,
    again: bool,
    to_topic: bool,
) -> ResendPlan:
    """The letters stored in [begin_ms, end_ms) that were not sent again so far; with `again` those, too.

    `msg_ids` are unique ids, offset ids of the letters, or those of the messages they were: what is named is meant
    however often it was sent again. GroupNotFound, MessageNotFound.
    """
    queues = dead_letter_queues(cluster, group)
    ranges: list[LetterRange] = []
    missing = set(msg_ids or ())
    for held in queues:
        start = held.bounds.min_offset if again or msg_ids is not None else held.settled
        whole = _within(cluster, held, start, begin_ms, end_ms)
        if msg_ids is None:
            ranges += [whole] if whole.start < whole.end else []
            continue
        for record in _records(cluster, whole):
            if found := _ids(record, held.queue.broker_name).intersection(msg_ids):
                missing -= found
                ranges.append(LetterRange(held.queue, record.queue_offset, record.queue_offset + 1))
    if missing:
        hint = f"They are listed by: rmq dlq list {group}"
        raise MessageNotFound(f"Group {group!r} has no dead letter {min(missing)!r}.", hint=hint)
    return ResendPlan(group, tuple(ranges), {held.queue: held.settled for held in queues}, to_topic)


def _within(cluster: ClusterClient, held: DeadLetterQueue, start: int, begin_ms: int, end_ms: int) -> LetterRange:
    """The letters from `start` on that were stored in [begin_ms, end_ms)."""
    topic, broker_name, queue_id = held.queue
    broker, end = cluster.broker(broker_name), held.bounds.max_offset
    if start < end and begin_ms > 0:
        start = max(start, broker.offset_by_time(topic, queue_id, begin_ms))
    if start < end and end_ms <= held.bounds.last_stored_ms:
        end = broker.offset_by_time(topic, queue_id, end_ms)
    return LetterRange(held.queue, start, end)


def _records(cluster: ClusterClient, range_: LetterRange) -> Iterable[Record]:
    return (record for records in read_chunks(cluster, *range_) for record in records)


def _ids(record: Record, broker_name: str) -> set[str]:
    """As `dead_letter` lists them."""
    letter = dead_letter(record, broker_name, RETRIES, is_resent=False)
    ids = {letter.message.msg_id, letter.message.offset_msg_id, letter.origin_msg_id}
    return {id_ for id_ in ids if id_}
