"""Sends to a group's retry topic that have been tried often enough: they become dead letters.

RocketMQ's SendMessageProcessor.handleRetryAndDLQ; spec: semantics, section 8.9. Consumers send so themselves where a
message cannot be sent back (CONSUMER_SEND_MSG_BACK), and those that consume in order when they give one up.

One thing differs on purpose. Whoever gives a message up says how often it was consumed, or how often it may be; what
says neither is a dead letter that is sent again. RocketMQ makes it a dead letter once more while its group consumes in
order.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.protocol.names import RETRY_PREFIX, dead_letter_topic
from rmqspark.protocol.records.properties import (
    Property,
    encode_properties,
    first_that_fits,
    join_properties,
    without_properties,
)

if TYPE_CHECKING:
    from rmqspark.broker.metrics.tally import Tally
    from rmqspark.broker.sending.intake import OnStored
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.locks import QueueLocks
    from rmqspark.clock import Clock
    from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2

_OF_BEFORE: Final = frozenset({Property.DELAY, Property.TRANSACTION_PREPARED})
"""What a message that is given up may still say, and would make something else than a dead letter of it."""
_OF_ITS_WAY: Final = frozenset(
    {
        Property.RETRY_TOPIC,
        Property.ORIGIN_MESSAGE_ID,
        Property.RECONSUME_TIME,
        Property.MAX_RECONSUME_TIMES,
        Property.CONSUME_START_TIME,
    }
)
"""What a consumer adds to the message that it sends, and what goes where a record has no room for it."""
_NEVER_AGAIN: Final = encode_properties({Property.DELAY: "-1"})


class DeadLetters:
    """Has sends to retry topics go to the dead letters instead: of what was consumed too often, and of all that a group
    gives up that consumes in order. Whether it does shows in who owns queues of it."""

    def __init__(self, groups: SubscriptionGroups, locks: QueueLocks, tally: Tally, clock: Clock) -> None:
        self._groups = groups
        self._tally = tally
        self._locks = locks
        self._clock = clock

    def divert(self, header: SendMessageRequestHeaderV2) -> tuple[SendMessageRequestHeaderV2, OnStored | None]:
        """A send to a retry topic as it is, or to the dead letters, and who counts those when one is stored. Raises
        GroupNotFound."""
        group = self._groups.find_or_create(header.b.removeprefix(RETRY_PREFIX), self._clock.now_ms())
        limit = group.retryMaxTimes if header.l is None else header.l
        is_sent_again = header.l is None and not header.j
        is_given_up = (header.j or 0) > limit
        if is_sent_again or not (is_given_up or self._locks.has_live(group.groupName, self._clock.monotonic_ms())):
            return header, None
        others = without_properties((header.i or "").encode("utf-8", "replace"), _OF_BEFORE)
        properties = first_that_fits(join_properties(others, _NEVER_AGAIN), without_properties(others, _OF_ITS_WAY))
        dead = msgspec.structs.replace(
            header, b=dead_letter_topic(group.groupName), e=0, i=properties.decode("utf-8", "replace")
        )
        return dead, partial(self._count, (group.groupName, header.b))

    def _count(self, key: tuple[str, str], queue_offset: int, physical_offset: int) -> None:
        del queue_offset, physical_offset
        with IF_MEMORY_ALLOWS:
            self._tally.of(key)[0] += 1
