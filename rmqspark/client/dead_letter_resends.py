"""Dead letters sent again: first the plan, queue by queue, then the sends.

A letter goes to its group's retry topic on the broker that keeps it: that group alone gets it, under its original topic
and as a message that was never consumed before. How far that went is committed behind what was sent, as the group's
offset in its dead letter queue: a resend that is killed sends a few letters once more and leaves none out. RocketMQ's
admin client does it one message at a time (resendDLQMessage), to the original topic, for all who read that.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from rmqspark.client.broker_admin import BrokerAdmin
from rmqspark.client.dead_letters import RETRIES, dead_letter, dead_letter_queues, origin_topic, read_chunks
from rmqspark.client.delivery import send_status
from rmqspark.client.futures import asked
from rmqspark.client.own_sends import own_send_header
from rmqspark.client.patience import may_pass, patiently
from rmqspark.errors import Conflict, GroupNotFound, MessageNotFound, RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties, join_properties, without_properties
from rmqspark.protocol.records.record import SysFlag, decode_record
from rmqspark.words import counted, sentence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from concurrent.futures import Future

    from rmqspark.client.broker_client import BrokerClient
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.dead_letters import DeadLetter, DeadLetterQueue
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

SEND_TIMEOUT_MS: Final = 10_000
_PAUSES_MS: Final = (200, 1_000, 3_000)
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
    how far that is. What may pass, as where a broker is started anew, is tried again for a few seconds.

    Conflict where the broker makes dead letters of them again, or where a letter's topic is asked for and not known.
    The error of a letter that cannot be sent says how many were.
    """
    return _Resend(cluster, plan).letters()


class _Resend:
    """One resend under way. `_settled`: how far each queue was sent without a gap."""

    def __init__(self, cluster: ClusterClient, plan: ResendPlan) -> None:
        self._cluster = cluster
        self._plan = plan
        self._settled = dict(plan.settled)
        self._tried: set[str] = set()
        self._sent = 0

    def letters(self) -> Iterator[DeadLetter]:
        for range_ in self._plan.ranges:
            broker, at = self._cluster.broker(range_.queue.broker_name), range_.start
            for records in _portions(self._cluster, range_, first_alone=broker.name not in self._tried):
                outcomes = self._send(broker, records)
                failed = next((n for n, each in enumerate(outcomes) if isinstance(each, RmqError)), len(records))
                if failed:
                    self._sent += failed
                    self._note(broker, range_.queue, at, records[failed - 1].queue_offset + 1)
                    self._check_first(broker, outcomes[0])
                for record in records[:failed]:
                    yield dead_letter(record, broker.name, RETRIES, is_resent=True)
                if failed < len(records):
                    raise self._broken_off(outcomes[failed], len(outcomes) - failed - 1)
                at = records[-1].queue_offset + 1

    def _send(self, broker: BrokerClient, records: list[Record]) -> list[Response | RmqError]:
        """What became of each, all sent at once; nothing of those behind one that cannot be sent at all."""
        headers, refused = _headers(records, self._plan, broker.name)
        outcomes: dict[int, Response | RmqError] = {}
        left = list(range(len(headers)))

        def send() -> None:
            nonlocal left
            answers = {n: asked(partial(_submit, broker, headers[n], records[n])) for n in left}
            outcomes.update({n: _outcome(answer) for n, answer in answers.items()})
            left = [n for n in left if _is_worth_another_try(outcomes[n])]
            for n in left[:1]:
                raise cast("RmqError", outcomes[n])

        with suppress(RmqError):  # it is among the outcomes
            patiently(send, _PAUSES_MS, self._cluster.clock.sleep_ms)
        return [*(outcomes[n] for n in range(len(headers))), *refused]

    def _note(self, broker: BrokerClient, queue: MessageQueue, start: int, end: int) -> None:
        """Commits how far the queue was sent without a gap, now that [start, end) was: what was sent beyond one is
        sent again with the gap. Of letters that have expired, or cannot be read, nothing is missing."""
        if not start <= self._settled[queue] < end:
            return
        topic, _, queue_id = queue
        try:
            broker.commit_offset(self._plan.group, topic, queue_id, end)
        except GroupNotFound:  # it was deleted, and its letters were not
            BrokerAdmin(broker).put_group(SubscriptionGroupConfig(self._plan.group))
            broker.commit_offset(self._plan.group, topic, queue_id, end)
        self._settled[queue] = end

    def _check_first(self, broker: BrokerClient, answer: Response | RmqError) -> None:
        """Behind `_note`: what a broker has made a dead letter again is that now, and was sent."""
        if broker.name not in self._tried and not self._plan.to_topic:
            _check_landed(broker, cast("Response", answer), self._plan.group)
        self._tried.add(broker.name)

    def _broken_off(self, error: Response | RmqError, behind: int) -> RmqError:
        assert isinstance(error, RmqError)
        more = f"; up to {behind} behind the one that was not come again with it" if behind else ""
        story = f"{self._sent} of {counted(self._plan.count, 'dead letter')} were sent again{more}."
        error.retell(f"{sentence(error.message)} {story}")
        return error


def _headers(
    records: list[Record], plan: ResendPlan, broker_name: str
) -> tuple[list[SendMessageRequestHeaderV2], list[RmqError]]:
    """Of the letters up to the first that cannot be sent, and why that cannot."""
    headers: list[SendMessageRequestHeaderV2] = []
    for record in records:
        try:
            headers.append(resend_header(record, plan, broker_name))
        except Conflict as error:
            return headers, [error]
    return headers, []


def _submit(broker: BrokerClient, header: SendMessageRequestHeaderV2, record: Record) -> Future[Response]:
    return broker.submit_send(header, record.body, timeout_ms=SEND_TIMEOUT_MS)


def _outcome(answer: Future[Response]) -> Response | RmqError:
    """The answer of a broker that has stored it, else why it has not, or may not have."""
    try:
        response = answer.result()
        send_status(response)
    except RmqError as error:
        return error
    return response


def _is_worth_another_try(outcome: Response | RmqError) -> bool:
    return isinstance(outcome, RmqError) and may_pass(outcome)


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
    """As `dead_letter` lists them."""
    letter = dead_letter(record, broker_name, RETRIES, is_resent=False)
    ids = {letter.message.msg_id, letter.message.offset_msg_id, letter.origin_msg_id}
    return {id_ for id_ in ids if id_}


def _check_landed(broker: BrokerClient, response: Response, group: str) -> None:
    """RocketMQ's brokers take what comes to the retry topic of a group that consumes in order for something that it
    gave up, and their answer does not say so."""
    _, physical_offset = parse_offset_msg_id(response.header(SendMessageResponseHeader).msgId)
    if decode_record(BrokerAdmin(broker).message_at(physical_offset)).topic == dead_letter_topic(group):
        raise Conflict(
            f"Group {group!r} consumes in order: broker {broker.name} made a dead letter of it again at once.",
            hint="Stop its consumers for a minute, or send to the original topic, for all its readers: --to-topic.",
        )
