"""Dead letters sent again: first the plan, queue by queue, then the sends.

A letter goes to its group's retry topic on the broker that keeps it: that group alone gets it, under its original topic
and as a message that was never consumed before. How far that went is committed behind what was sent, as the group's
offset in its dead letter queue: a resend that is killed sends a few letters once more and leaves none out. RocketMQ's
admin client does it one message at a time (resendDLQMessage), to the original topic, for all who read that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.broker_admin import BrokerAdmin
from rmqspark.client.dead_letters import RETRIES, dead_letter, dead_letter_queues, origin_topic, read_chunks
from rmqspark.client.delivery import send_status
from rmqspark.client.own_sends import own_send_header
from rmqspark.client.received import received
from rmqspark.errors import Conflict, MessageNotFound, RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties, join_properties, without_properties
from rmqspark.protocol.records.record import SysFlag, decode_record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from rmqspark.client.broker_client import BrokerClient
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.dead_letters import DeadLetter, DeadLetterQueue
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

SEND_TIMEOUT_MS: Final = 10_000
_ANY_QUEUE: Final = -1
_SENDERS_FLAGS: Final = SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK
_OF_ITS_RETRIES: Final = frozenset({Property.RETRY_TOPIC, Property.ORIGIN_MESSAGE_ID})
_OF_ITS_WAY: Final = frozenset(
    {
        Property.DELAY,
        Property.WAIT,
        Property.REAL_TOPIC,
        Property.REAL_QUEUE_ID,
        Property.RECONSUME_TIME,
        Property.MAX_RECONSUME_TIMES,
        Property.CONSUME_START_TIME,
        Property.TRANSACTION_PREPARED,
        Property.POP_CK,
        Property.FIRST_POP_TIME,
        *(name for constant, name in vars(Property).items() if constant.startswith("TIMER_")),
    }
)
"""How a message was to travel then; kept, it would be delayed once more, or be a half message."""


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


def resend(cluster: ClusterClient, plan: ResendPlan) -> Iterator[DeadLetter]:
    """Sends what is planned while it is iterated over, and gives each letter once its broker has both, the letter and
    how far that is; also those before one that failed, which then ends it.

    Conflict where the broker makes dead letters of them again, or where a letter's topic is asked for and not known.
    """
    settled = dict(plan.settled)
    tried: set[str] = set()
    for range_ in plan.ranges:
        queue = range_.queue
        broker = cluster.broker(queue.broker_name)
        for records in _portions(cluster, range_, first_alone=broker.name not in tried):
            headers = [resend_header(record, plan, broker.name) for record in records]  # or none of them is sent
            answers = [
                broker.submit_send(header, record.body, timeout_ms=SEND_TIMEOUT_MS)
                for header, record in zip(headers, records, strict=True)
            ]
            stored: list[Record] = []
            failure: RmqError | None = None
            try:
                for record, answer in zip(records, answers, strict=True):
                    response = answer.result()
                    send_status(response)
                    if broker.name not in tried and not plan.to_topic:
                        _check_landed(broker, response, plan.group)
                    tried.add(broker.name)
                    stored.append(record)
            except RmqError as error:
                failure = error
            finally:
                if stored:
                    settled[queue] = _note(broker, plan.group, queue, settled[queue], stored)
            for record in stored:
                yield dead_letter(record, broker.name, RETRIES, is_resent=True)
            if failure is not None:
                raise failure


def resend_header(record: Record, plan: ResendPlan, broker_name: str) -> SendMessageRequestHeaderV2:
    """How a letter is sent: id, keys, tags and the user's properties as they are. Pure.

    Conflict where it is to go to its original topic, and nothing says which that was.
    """
    known = record.property_map()
    origin = origin_topic(known)
    if plan.to_topic and origin is None:
        raise Conflict(
            f"Nothing says in which topic dead letter {record.queue_offset} of broker {broker_name} was.",
            hint="Without --to-topic its group gets it all the same.",
        )
    properties = without_properties(record.properties, _OF_ITS_WAY | _OF_ITS_RETRIES)
    if not plan.to_topic:
        where = {
            Property.RETRY_TOPIC: origin or "",
            Property.ORIGIN_MESSAGE_ID: known.get(Property.ORIGIN_MESSAGE_ID, ""),
        }
        properties = join_properties(properties, encode_properties(where))
    topic = origin if plan.to_topic and origin else retry_topic(plan.group)
    return own_send_header(
        MessageQueue(topic, broker_name, _ANY_QUEUE),
        properties.decode("utf-8", "replace"),
        sys_flag=record.sys_flag & _SENDERS_FLAGS,
        flag=record.flag,
        born_timestamp_ms=record.born_timestamp_ms,
    )


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


def _portions(cluster: ClusterClient, range_: LetterRange, *, first_alone: bool) -> Iterator[list[Record]]:
    """What is sent together. The first letter to a broker goes alone: if that is in vain, so are all others."""
    for records in read_chunks(cluster, *range_):
        if first_alone:
            first_alone = False
            yield records[:1]
            records = records[1:]
        if records:
            yield records


def _ids(record: Record, broker_name: str) -> set[str]:
    message = received(record, broker_name)
    return {message.msg_id, message.offset_msg_id, message.properties.get(Property.ORIGIN_MESSAGE_ID, "")}


def _note(broker: BrokerClient, group: str, queue: MessageQueue, settled: int, stored: list[Record]) -> int:
    """Commits how far the queue was sent without a gap: what was sent beyond one is sent again with the gap."""
    end = stored[-1].queue_offset + 1
    if not stored[0].queue_offset <= settled < end:
        return settled
    broker.commit_offset(group, queue.topic, queue.queue_id, end)
    return end


def _check_landed(broker: BrokerClient, response: Response, group: str) -> None:
    """RocketMQ's brokers take what comes to the retry topic of a group that consumes in order for something that it
    gave up, and their answer does not say so."""
    _, physical_offset = parse_offset_msg_id(response.header(SendMessageResponseHeader).msgId)
    if decode_record(BrokerAdmin(broker).message_at(physical_offset)).topic == dead_letter_topic(group):
        raise Conflict(
            f"Group {group!r} consumes in order: broker {broker.name} made a dead letter of it again at once.",
            hint="Stop its consumers for a minute, or send to the original topic, for all its readers: --to-topic.",
        )
