"""What a push consumer wants of a topic, and where it begins in queues of which nothing was consumed yet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from rmqspark.client.pulling.expressions import check_sql, tag_test
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.client import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
    SQL92,
    SubscriptionData,
)
from rmqspark.protocol.milliseconds import CLOCKS_DIFFER_MS, other_unit
from rmqspark.protocol.names import RETRY_PREFIX, check_topic, trimmed_tag

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage

    Place: TypeAlias = Literal["earliest", "latest"] | int
    """One of a queue's ends, or the first message stored at that time or later, in ms since 1970."""

_EVERYTHING = "*"


class Subscription(NamedTuple):
    """To one topic, since a time of the client's clock. `accepts` is None where every message is wanted."""

    topic: str
    tags: str
    sql: str | None
    since_ms: int
    accepts: Callable[[ReceivedMessage], bool] | None

    @classmethod
    def to(cls, topic: str, tags: str, sql: str | None, since_ms: int) -> Subscription:
        """Raises InvalidName, InvalidFilter."""
        check_topic(topic)
        accepts = tag_test(tags)
        if sql is not None:
            check_sql(sql, tags)
        return cls(topic, trimmed_tag(tags) or _EVERYTHING, sql, since_ms, accepts)

    def data(self) -> SubscriptionData:
        """As heartbeats tell it."""
        if self.sql is not None:
            return SubscriptionData(self.topic, self.sql, subVersion=self.since_ms, expressionType=SQL92)
        if self.accepts is None:
            return SubscriptionData(self.topic, _EVERYTHING, subVersion=self.since_ms)
        from rmqspark.protocol.filters import TagFilter  # brings NumPy, which only filters ask for

        wanted = TagFilter.parse(self.tags)
        assert wanted is not None, "what accepts not everything names tags"
        return SubscriptionData(self.topic, self.tags, sorted(wanted.tags), sorted(wanted.codes), self.since_ms)


class ConsumeFrom(NamedTuple):
    """Where a group begins in queues of which it has committed nothing (RocketMQ's ConsumeFromWhere)."""

    where: Place

    @classmethod
    def parse(cls, value: str | int) -> ConsumeFrom:
        """ "latest", "earliest", or a time in ms since 1970. Raises InvalidArgument."""
        if value == "latest":
            return cls("latest")
        if value == "earliest":
            return cls("earliest")
        if isinstance(value, int) and value >= 0:
            if unit := other_unit(value):
                raise InvalidArgument(f"consume_from {value} looks like {unit} since 1970, and is in milliseconds.")
            return cls(value)
        raise InvalidArgument(
            f"consume_from is {value!r:.80}, but must be 'latest', 'earliest' or a time in milliseconds since 1970."
        )

    @property
    def wire_name(self) -> str:
        if isinstance(self.where, int):
            return CONSUME_FROM_TIMESTAMP
        return CONSUME_FROM_LAST_OFFSET if self.where == "latest" else CONSUME_FROM_FIRST_OFFSET

    def goes_on(self, queue: MessageQueue) -> bool:
        """Whether it matters for this queue what the group has consumed of others."""
        return self.where == "latest" and not queue.topic.startswith(RETRY_PREFIX)

    def place(self, queue: MessageQueue, since_ms: int, *, is_later: bool, consumed_ms: int | None = None) -> Place:
        """Where to begin in this queue; `is_later` says that the topic got it after the subscription, `since_ms`, and
        `consumed_ms` when the newest message was stored that the group has consumed of the topic.

        What waits to be consumed again is never left out. Nor is what reached a later queue before it was seen to be
        there, or while no member was: for that RocketMQ has brokers answer 0 for queues that are young (spec: requests,
        code 14), and new groups begin there, too.
        """
        if queue.topic.startswith(RETRY_PREFIX):
            return "earliest"
        if self.where != "latest":
            return self.where
        if is_later:
            return max(since_ms - CLOCKS_DIFFER_MS, 0)
        return "latest" if consumed_ms is None else consumed_ms
