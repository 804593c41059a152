"""Topics that come into being by being sent to, where that is allowed (spec: semantics, section 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.sending.intake import of_broker
from rmqspark.protocol.names import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX

if TYPE_CHECKING:
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.broker.topic_publisher import TopicPublisher
    from rmqspark.clock import Clock
    from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2

_UNIT_TOPIC: Final = 1  # bit of topicSysFlag


class NewTopics:
    """Makes topics of which a message comes before they are there, retry and dead letter topics too."""

    def __init__(self, topics: TopicTable, groups: SubscriptionGroups, publisher: TopicPublisher, clock: Clock) -> None:
        self._topics = topics
        self._groups = groups
        self._publisher = publisher
        self._clock = clock

    def make(self, header: SendMessageRequestHeaderV2) -> None:
        """The topic that a message is sent to, and that is not there. Raises TopicNotFound, GroupNotFound, InvalidName,
        NoPermission."""
        topic, now_ms = header.b, self._clock.now_ms()
        if topic.startswith(SYSTEM_TOPIC_PREFIX):  # a store of RocketMQ's may have some that are sent to
            raise of_broker(topic)
        if topic.startswith(RETRY_PREFIX):
            group = self._groups.require(topic.removeprefix(RETRY_PREFIX))
            self._topics.ensure_retry(group.groupName, 1, now_ms)
        elif topic.startswith(DLQ_PREFIX) and self._groups.get(topic.removeprefix(DLQ_PREFIX)):
            self._topics.ensure_dead_letters(topic.removeprefix(DLQ_PREFIX), now_ms)
        else:
            self._topics.auto_create(
                topic, template=header.c, queues=header.d, sys_flag=_UNIT_TOPIC if header.k else 0, now_ms=now_ms
            )
        self._publisher.hurry()

    async def saved(self) -> None:
        """Returns once a restart would find those made so far."""
        await self._publisher.save()
