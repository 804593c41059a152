"""The queues of all topics, by topic and broker name. Pure; a topic is there as long as a broker has queues of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.errors import Busy
from rmqspark.protocol.names import Perm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from rmqspark.protocol.bodies.route import QueueData


_BROKERS_A_TOPIC: Final = 20  # on average


class TopicQueues:
    """Of at most `max_topics` topics, each on twenty brokers if all were alike. Whoever enters new ones checks that
    before."""

    def __init__(self, max_topics: int) -> None:
        self._max_topics = max_topics
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._places = 0  # topics of all brokers together

    def enter(self, topic: str, queue_data: QueueData) -> None:
        queues = self._topics.setdefault(topic, {})
        self._places += queue_data.brokerName not in queues
        queues[queue_data.brokerName] = queue_data

    def forget(self, topic: str, broker_name: str) -> None:
        """The topic goes with its last broker name."""
        queues = self._topics.get(topic, {})
        self._places -= queues.pop(broker_name, None) is not None
        if not queues:
            self._topics.pop(topic, None)

    def of(self, topic: str) -> Mapping[str, QueueData]:
        """Its queues by broker name; empty for a topic that is not there."""
        return self._topics.get(topic, {})

    def names(self) -> list[str]:
        return list(self._topics)

    def of_any(self, broker_names: Collection[str]) -> list[str]:
        """Topics that one of these brokers has, or more."""
        return [topic for topic, queues in self._topics.items() if any(name in queues for name in broker_names)]

    def flagged(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics by their topicSysFlag, which the first broker that has them tells."""
        return [topic for topic, queues in self._topics.items() if wanted(next(iter(queues.values())).topicSysFlag)]

    def set_write_permission(self, broker_name: str, *, allowed: bool) -> int:
        """Masks the write permission of all topics of a broker, or sets read and write outright; says of how many."""
        touched = [queues[broker_name] for queues in self._topics.values() if broker_name in queues]
        for queue_data in touched:
            queue_data.perm = int(Perm.READ | Perm.WRITE) if allowed else queue_data.perm & ~int(Perm.WRITE)
        return len(touched)

    def check_room_for(self, topics: Collection[str], broker_name: str, *, going: Collection[str] = ()) -> None:
        """Raises Busy where these of a broker, "" for any, would be too many; of `going` it has no queues any more."""
        ending = sum(len(self._topics[topic]) == 1 for topic in going)
        new, kept = sum(topic not in self._topics for topic in topics), len(self._topics) - ending
        if new and kept + new > self._max_topics:
            raise Busy(f"{kept} topics are known and {new} more would be too many.")
        more = sum(broker_name not in self._topics.get(topic, ()) for topic in topics)
        if more and self._places - len(going) + more > _BROKERS_A_TOPIC * self._max_topics:
            raise Busy(
                f"All brokers together have {self._places} topics and {more} more would be too many.",
                hint="A topic counts on each of its brokers: twenty times max_topics may be there.",
            )
