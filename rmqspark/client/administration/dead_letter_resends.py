"""Dead letters sent again, as planned (`dead_letter_plan`).

A letter goes to its group's retry topic on the broker that keeps it: that group alone gets it, under its original topic
and as a message that was never consumed before. How far that went is committed behind what was sent, as the group's
offset in its dead letter queue: a resend that is killed sends a few letters once more and leaves none out. RocketMQ's
admin client does it one message at a time (resendDLQMessage), to the original topic, for all who read that.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from rmqspark.client.administration.broker_admin import BrokerAdmin
from rmqspark.client.administration.dead_letters import RETRIES, dead_letter, origin_topic, read_chunks
from rmqspark.client.cluster.futures import asked
from rmqspark.client.cluster.patience import Patience, may_pass, patiently
from rmqspark.client.sending.delivery import send_status
from rmqspark.client.sending.own_sends import own_send_header
from rmqspark.errors import Conflict, GroupNotFound, RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.protocol.records.message_id import parse_offset_msg_id
from rmqspark.protocol.records.properties import Property, encode_properties, join_properties, without_properties
from rmqspark.protocol.records.record import SysFlag, decode_record
from rmqspark.words import counted, sentence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from rmqspark.client.administration.dead_letter_plan import LetterRange, ResendPlan
    from rmqspark.client.administration.dead_letters import DeadLetter
    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.protocol.records.record import Record
    from rmqspark.remoting.response import Response

SEND_TIMEOUT_MS: Final = 10_000
_PATIENCE: Final = Patience((200, 1_000, 3_000))
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
            for records in self._portions(range_):
                outcomes = self._send(broker, records)
                failed = next((n for n, each in enumerate(outcomes) if isinstance(each, RmqError)), len(records))
                if failed:
                    self._note(broker, range_.queue, at, records[:failed])
                    self._check_first(broker, outcomes[0])
                for record in records[:failed]:
                    yield dead_letter(record, broker.name, RETRIES, is_resent=True)
                if failed < len(records):
                    behind = len(outcomes) - failed - 1
                    again = f"; up to {behind} behind the one that was not come again with it" if behind else ""
                    raise self._broken_off(outcomes[failed], again)
                at = records[-1].queue_offset + 1

    def _portions(self, range_: LetterRange) -> Iterator[list[Record]]:
        """What is sent together. The first letter to a broker goes alone: if that is in vain, so are all others."""
        queue, at, end = range_
        while records := self._read(queue, at, end):
            at = records[-1].queue_offset + 1
            if queue.broker_name not in self._tried:
                yield records[:1]
                records = records[1:]
            if records:
                yield records

    def _read(self, queue: MessageQueue, at: int, end: int) -> list[Record]:
        """The next letters of [at, end), none behind the last."""
        try:
            return patiently(
                lambda: next(read_chunks(self._cluster, queue, at, end), []), _PATIENCE, self._cluster.clock
            )
        except RmqError as error:
            self._broken_off(error)
            raise

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
            patiently(send, _PATIENCE, self._cluster.clock)
        return [*(outcomes[n] for n in range(len(headers))), *refused]

    def _note(self, broker: BrokerClient, queue: MessageQueue, start: int, sent: list[Record]) -> None:
        """Commits how far the queue was sent without a gap, now that these were, from `start` on: what was sent beyond
        one is sent again with the gap. Of letters that have expired, or cannot be read, nothing is missing."""
        self._sent += len(sent)
        end = sent[-1].queue_offset + 1
        if not start <= self._settled[queue] < end:
            return
        try:
            patiently(partial(self._commit, broker, queue, end), _PATIENCE, self._cluster.clock)
        except RmqError as error:
            self._broken_off(error, f"; the last {len(sent)} come again, for how far that is cannot be noted")
            raise
        self._settled[queue] = end

    def _commit(self, broker: BrokerClient, queue: MessageQueue, end: int) -> None:
        topic, _, queue_id = queue
        try:
            broker.commit_offset(self._plan.group, topic, queue_id, end)
        except GroupNotFound:  # it was deleted, and its letters were not
            BrokerAdmin(broker).put_group(SubscriptionGroupConfig(self._plan.group))
            broker.commit_offset(self._plan.group, topic, queue_id, end)

    def _check_first(self, broker: BrokerClient, answer: Response | RmqError) -> None:
        """Behind `_note`: what a broker has made a dead letter again is that now, and was sent."""
        if broker.name not in self._tried and not self._plan.to_topic:
            _check_landed(broker, cast("Response", answer), self._plan.group)
        self._tried.add(broker.name)

    def _broken_off(self, error: Response | RmqError, again: str = "") -> RmqError:
        """The same error; `again` says what comes once more with the next resend."""
        assert isinstance(error, RmqError)
        story = f"{self._sent} of {counted(self._plan.count, 'dead letter')} were sent again{again}."
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


def _check_landed(broker: BrokerClient, response: Response, group: str) -> None:
    """RocketMQ's brokers take what comes to the retry topic of a group that consumes in order for something that it
    gave up, and their answer does not say so."""
    _, physical_offset = parse_offset_msg_id(response.header(SendMessageResponseHeader).msgId)
    if decode_record(BrokerAdmin(broker).message_at(physical_offset)).topic == dead_letter_topic(group):
        raise Conflict(
            f"Group {group!r} consumes in order: broker {broker.name} made a dead letter of it again at once.",
            hint="Stop its consumers for a minute, or send to the original topic, for all its readers: --to-topic.",
        )
