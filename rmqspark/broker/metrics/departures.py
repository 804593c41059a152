"""What consumers were given, by topic and group. RocketMQ: DefaultPullMessageResultHandler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.tally import Tally
from rmqspark.protocol.names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

NO_GROUP = ""
"""Of reads in bulk that name none: whoever looks around."""


class Departures(Tally):
    """Messages, bytes and answers, by (topic, group). Retries and dead letters are not counted, as in RocketMQ."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit, 3)

    def count(self, topic: str, group: str, messages: int, size_bytes: int) -> None:
        """Of one answer."""
        if messages and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            series = self.of((topic, group))
            series[0] += messages
            series[1] += size_bytes
            series[2] += 1

    def of_what_is_there(
        self, has_topic: Callable[[str], bool], has_group: Callable[[str], bool]
    ) -> AsyncIterator[tuple[tuple[str, str], list[int]]]:
        """Those of topics and groups that are there still; the others are dropped."""
        return self.of_those(lambda topic, group: has_topic(topic) and (group == NO_GROUP or has_group(group)))
