"""What a query reads: named topics, all topics that match a pattern, or single queues."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from rmqspark.message_queue import MessageQueue
from rmqspark.options import names
from rmqspark.protocol.names import check_topic, is_made_by_brokers


@dataclass(frozen=True)
class Subscription:
    """The topics to read, and where only some of their queues are wanted, these; or the pattern of their names."""

    topics: tuple[str, ...]
    queues: frozenset[MessageQueue] | None = None
    pattern: str | None = None

    def includes(self, queue: MessageQueue) -> bool:
        if self.pattern is not None:
            return self.matches(queue.topic)
        return queue.topic in self._named if self.queues is None else queue in self.queues

    @cached_property
    def _named(self) -> frozenset[str]:
        return frozenset(self.topics)

    def matches(self, topic: str) -> bool:
        """Whether the whole name fits the pattern. Topics that RocketMQ makes for itself never do, nor do those that
        come of messages read before: a group's retries and dead letters."""
        if self.pattern is None or is_made_by_brokers(topic):
            return False
        return re.fullmatch(self.pattern, topic) is not None


def read_topics(value: str) -> tuple[str, ...]:
    """Reads a comma-separated list of topics; raises ValueError for none, InvalidName for what is no name of one."""
    if value.startswith("["):  # what Spark makes of a list of Python's
        raise ValueError("topics are accepted in one string, separated by commas: orders,payments.")
    return tuple(check_topic(name) for name in names(value))


def read_pattern(value: str) -> str:
    """Reads a regular expression; raises ValueError for what is none."""
    if not value:
        raise ValueError("it is empty.")
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"it is no regular expression ({error}).") from error
    return value
