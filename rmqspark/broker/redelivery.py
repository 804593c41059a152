"""Messages that a consumer could not consume: once more after a while, or among the dead letters.

RocketMQ: AbstractSendMessageProcessor.consumerSendMsgBack; spec: semantics, section 8.9. By default a message comes
again after 10 s, then after 30 s, and so on up to two hours, 16 times in all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.broker.delays.parking import Place, park
from rmqspark.protocol.names import dead_letter_topic, retry_topic
from rmqspark.protocol.records.message_id import offset_msg_id
from rmqspark.protocol.records.properties import (
    Property,
    encode_properties,
    first_that_fits,
    join_properties,
    without_properties,
)
from rmqspark.protocol.records.record import SysFlag
from rmqspark.store.draft import Draft, redraft

if TYPE_CHECKING:
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
    from rmqspark.protocol.records.record import Record

_FIRST_LEVEL: Final = 3  # of the first time; one more each time
_AT_ONCE: Final = {Property.DELAY: "0"}
_MOST_TIMES: Final = (1 << 31) - 1  # that a record can say


class Returned(NamedTuple):
    """A message that was sent back, as it is to be stored anew."""

    draft: Draft
    is_dead_letter: bool
    is_topic_new: bool
    """Whether its topic was made for it."""


class Redelivery:
    """Decides what becomes of messages that are sent back, and makes the topics that their groups need for it."""

    def __init__(
        self, topics: TopicTable, groups: SubscriptionGroups, clock: Clock, entropy: Entropy, *, delay_levels: int
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._entropy = entropy
        self._delay_levels = delay_levels

    def group(self, name: str) -> SubscriptionGroupConfig | None:
        """The group that sends messages back; None where it has no queues for retries, so wants none. One that is not
        there, since an operator has deleted it say, is made by use; raises GroupNotFound where that is not allowed."""
        group = self._groups.find_or_create(name, self._clock.now_ms())
        return group if group.retryQueueNums > 0 else None

    def of(self, record: Record, group: SubscriptionGroupConfig, delay_level: int, max_times: int | None) -> Returned:
        """The message for its group's retry topic, where it waits for the time of its level. It is a dead letter
        instead with a level below 0, and once it was consumed `max_times`; the group says how often if that is None.

        Raises InvalidName, NoPermission where the topic cannot be made.
        """
        name, now_ms = group.groupName, self._clock.now_ms()
        most_times = group.retryMaxTimes if max_times is None else max_times
        if delay_level < 0 or _times(record) >= most_times:
            is_new = self._topics.ensure_dead_letters(name, now_ms)
            return Returned(_dead_letter(record, name), is_dead_letter=True, is_topic_new=is_new)
        is_new = self._topics.ensure_retry(name, group.retryQueueNums, now_ms)
        place = Place(retry_topic(name), self._queue_id(group))
        draft = _retry(record, place, delay_level, self._delay_levels)
        return Returned(draft, is_dead_letter=False, is_topic_new=is_new)

    def origin(self, record: Record) -> str:
        """The topic it was sent to first; where it names one that is not there, the one that it was read of."""
        named = record.property_map().get(Property.RETRY_TOPIC, "")
        return record.topic if self._topics.get(named) is None else named

    def _queue_id(self, group: SubscriptionGroupConfig) -> int:
        """One of the queues that its retry topic has: the group may have been given more since that was made. RocketMQ
        stores in these, too, and no consumer reads them."""
        topic = self._topics.require(retry_topic(group.groupName))
        return self._entropy.below(max(1, min(group.retryQueueNums, topic.readQueueNums, topic.writeQueueNums)))


def _retry(record: Record, place: Place, delay_level: int, levels: int) -> Draft:
    """The message parked for `place`. Level 0: one above that of the time before."""
    level = delay_level or _FIRST_LEVEL + _times(record)
    parked = park(place, _with_origin(record), level, levels)
    return _draft(record, parked.topic, parked.queue_id, parked.properties)


def _dead_letter(record: Record, group: str) -> Draft:
    """Says as much of where it came from as it has room for: one that cannot be given up comes again for ever."""
    told = without_properties(_with_origin(record), {Property.DELAY})
    own = without_properties(record.properties, {Property.DELAY, Property.RETRY_TOPIC})
    origin = encode_properties({Property.RETRY_TOPIC: _origin_topic(record)})
    properties = first_that_fits(join_properties(told, encode_properties(_AT_ONCE)), join_properties(own, origin), own)
    return _draft(record, dead_letter_topic(group), 0, properties)


def _origin_topic(record: Record) -> str:
    return record.property_map().get(Property.RETRY_TOPIC) or record.topic


def _with_origin(record: Record) -> bytes:
    """The properties, with where the message came from, which the first return says for all later ones."""
    known = record.property_map()
    own = {
        Property.RETRY_TOPIC: _origin_topic(record),
        Property.ORIGIN_MESSAGE_ID: known.get(Property.ORIGIN_MESSAGE_ID)
        or offset_msg_id(record.store_host, record.physical_offset),
        Property.WAIT: "false",
    }
    return join_properties(without_properties(record.properties, own.keys()), encode_properties(own))


def _times(record: Record) -> int:
    """How often it was consumed before. Its first sender may have said anything, and less than never is never."""
    return max(0, record.reconsume_times)


def _draft(record: Record, topic: str, queue_id: int, properties: bytes) -> Draft:
    """That it was committed once is said of the message that was, whose half this one does not name."""
    sys_flag = record.sys_flag & ~SysFlag.TRANSACTION_MASK
    times = min(_times(record) + 1, _MOST_TIMES)
    return redraft(record, topic, queue_id, properties, sys_flag=sys_flag, reconsume_times=times)
