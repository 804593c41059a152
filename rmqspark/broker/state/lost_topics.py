"""Topics that messages are for which were acknowledged, and that the table does not know.

Only who makes a topic by sending to it waits until the table is on disk, not who sends to it meanwhile, or once the
disk has refused the table; and a slave that is made the master has the table as of its last look. So a kill leaves
messages of a topic that is nowhere else. Those in its queues a start finds (`reconcile.py`); the others are found when
they are to go there: they wait for a time, for their producer or for their coordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from rmqspark.errors import InvalidName, NoPermission
from rmqspark.protocol.names import RETRY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.route import TopicConfig
    from rmqspark.store.message_store import MessageStore

log = structlog.get_logger("rmqspark.broker")


class LostTopics:
    """Makes topics anew that the table has lost. `on_found` is told of each."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: TopicTable,
        groups: SubscriptionGroups,
        clock: Clock,
        on_found: Callable[[], None] = lambda: None,
    ) -> None:
        self._max_queues = config.max_queue_nums
        self._store = store
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._on_found = on_found

    def find(self, topic: str, queue_id: int, sent_at: int) -> TopicConfig | None:
        """The topic of a message that has waited, and came at physical offset `sent_at`; None where it was deleted
        since and not made anew."""
        if self._topics.get(topic) is None and not self._store.deletions.took(topic, sent_at):
            self.restore(topic, queue_id + 1)
        return self._topics.get(topic)

    def restore(self, topic: str, queues: int) -> None:
        """Makes it, with so many queues at least, unless it is there; logs whether that can be."""
        group = self._groups.get(topic.removeprefix(RETRY_PREFIX)) if topic.startswith(RETRY_PREFIX) else None
        queues = min(max(queues, group.retryQueueNums if group else 0), self._max_queues)
        try:
            if self._topics.restore(topic, queues, self._clock.now_ms()):
                log.warning("a topic that the table did not know is there again", topic=topic, queues=queues)
                self._on_found()
        except (InvalidName, NoPermission) as error:
            log.warning("a topic that the table does not know is left out", topic=topic, error=str(error))
