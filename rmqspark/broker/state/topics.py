"""Which topics there are, and how topics come into being. Pure: told what time it is, writes no file.

A topic appears in one of four ways: an operator creates it; a send to an unknown name creates it from the template
TBW102 (only while auto-creation is on); a consumer group brings its retry topic along; the broker itself needs it.
RocketMQ: TopicConfigManager; spec: semantics, section 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from rmqspark.broker.state.possible_names import PossibleNames
from rmqspark.broker.state.room import require_room
from rmqspark.errors import InvalidQueue, NoPermission, TopicNotFound
from rmqspark.protocol.bodies.route import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from rmqspark.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    HIDDEN_TOPICS,
    MAX_DELAY_LEVEL,
    OFFSET_MOVED_EVENT_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    TRACE_TOPIC,
    Perm,
    check_broker_name,
    check_topic,
    dead_letter_topic,
    is_system_topic,
    retry_topic,
)
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

    from rmqspark.broker.config import BrokerConfig

READ_WRITE = int(Perm.READ | Perm.WRITE)
TEMPLATE = int(Perm.READ | Perm.WRITE | Perm.INHERIT)


class TopicTable:
    """All topics of one broker, at most `max_topics`. `version` moves with every change, and name servers go by it.

    `auto_creates` is whether sends make topics. Templates alone do not say so: that of a run in which they did is still
    there, and those of the broker's and the cluster's name always are. (RocketMQ asks for it where TBW102 is named, and
    takes the others.)
    """

    def __init__(self, *, max_topics: int, now_ms: int, auto_creates: bool = True) -> None:
        self.version = DataVersion(timestamp=now_ms)
        self._max_topics = max_topics
        self._auto_creates = auto_creates
        self._topics: dict[str, TopicConfig] = {}
        self._own_names: set[str] = set()
        self._names = PossibleNames(_check_kept)

    @property
    def revision(self) -> int:
        return self.version.counter

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[TopicConfig]:
        """By name, as pages of them are asked for."""
        return (self._topics[name] for name in sorted(self._topics))

    def get(self, topic: str) -> TopicConfig | None:
        return self._topics.get(topic)

    def require(self, topic: str) -> TopicConfig:
        """The topic's configuration; raises TopicNotFound."""
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotFound(topic)
        return config

    def require_readable(self, topic: str, queue_id: int) -> TopicConfig:
        """A topic that may be read and has this queue. Raises TopicNotFound, NoPermission, InvalidQueue."""
        config = self.require(topic)
        if not config.perm & Perm.READ:
            raise NoPermission(
                f"Topic {topic!r} may not be read.", hint=f"Allow it: rmq topic update {topic} --perm rw."
            )
        if not 0 <= queue_id < config.readQueueNums:
            raise InvalidQueue(
                f"Topic {topic!r} has {counted(config.readQueueNums, 'queue')} to read, there is no queue {queue_id}.",
                hint=f"If it had more before, they are read again after: rmq topic update {topic} --read-queues N.",
            )
        return config

    def put(self, config: TopicConfig, now_ms: int) -> bool:
        """Creates or replaces a topic; False if it is so already. Raises InvalidName, NoPermission over the limit."""
        known = self._topics.get(config.topicName)
        if known == config:
            return False
        if known is None:
            if config.topicName not in self._own_names:
                check_topic(config.topicName)
            self.require_room([config.topicName])
        self._topics[config.topicName] = config
        self.version = self.version.next(now_ms)
        return True

    def require_room(self, topics: Iterable[str]) -> None:
        """Raises NoPermission where there may not be so many more; those that are there already are none."""
        require_room("topics", self._topics, topics, self._max_topics, "max_topic_nums")

    def remove(self, topic: str, now_ms: int) -> bool:
        """Whether there was such a topic."""
        if self._topics.pop(topic, None) is None:
            return False
        self.version = self.version.next(now_ms)
        return True

    def auto_create(self, topic: str, *, template: str, queues: int, sys_flag: int, now_ms: int) -> TopicConfig:
        """Makes the topic of a first send as the template allows; raises TopicNotFound where it does not.

        It gets as many queues as the sender asks for, but no more than the template has.
        """
        model = self._topics.get(template)
        if not self._auto_creates or model is None or not model.perm & Perm.INHERIT:
            raise TopicNotFound(topic)
        queues = max(0, min(queues, model.writeQueueNums))
        config = TopicConfig(
            topicName=topic,
            readQueueNums=queues,
            writeQueueNums=queues,
            perm=model.perm & ~Perm.INHERIT,
            topicFilterType=model.topicFilterType,
            topicSysFlag=sys_flag,
        )
        self.put(config, now_ms)
        return config

    def ensure_retry(self, group: str, queues: int, now_ms: int) -> bool:
        """Sees to it that the group's retry topic exists; returns whether it had to be made. One that was made while
        the group wanted no queues for retries gets them as soon as it does."""
        topic = retry_topic(group)
        known = self._topics.get(topic)
        if known is not None and (known.readQueueNums or known.writeQueueNums or not queues):
            return False
        return self.put(
            TopicConfig(topicName=topic, readQueueNums=queues, writeQueueNums=queues, perm=READ_WRITE), now_ms
        )

    def ensure_dead_letters(self, group: str, now_ms: int) -> bool:
        """Sees to it that the group's dead letter topic exists; returns whether it had to be made."""
        topic = dead_letter_topic(group)
        if topic in self._topics:
            return False
        return self.put(TopicConfig(topicName=topic, readQueueNums=1, writeQueueNums=1, perm=READ_WRITE), now_ms)

    def restore(self, topic: str, queues: int, now_ms: int) -> bool:
        """Puts a topic that messages are stored of; False, with nothing put, for a known one and for the broker's own.

        Raises InvalidName for what no user's topic may be called, NoPermission over the limit.
        """
        if topic in self._topics or self.is_system(topic):
            return False
        check_topic(topic)
        return self.put(
            TopicConfig(topicName=topic, readQueueNums=queues, writeQueueNums=queues, perm=READ_WRITE), now_ms
        )

    def add_system_topics(self, topics: list[TopicConfig], now_ms: int) -> None:
        """What the broker needs itself. Those there already stay as they are, but clients may not delete them."""
        for config in topics:
            self._own_names.add(config.topicName)
            if config.topicName not in self._topics:
                self.put(config, now_ms)

    def is_system(self, topic: str) -> bool:
        return topic in self._own_names or is_system_topic(topic)

    def system_names(self) -> list[str]:
        """What no user's topic is called, whether it is there or not."""
        return sorted(self._own_names | SYSTEM_TOPICS - HIDDEN_TOPICS)

    def table(self) -> TopicConfigTable:
        """In the form of config/topics.json and of registrations."""
        return TopicConfigTable(topicConfigTable=dict(self._topics), dataVersion=self.version)

    def registration(self) -> RegisterBrokerBody:
        """In the form that name servers are told; there are no static topics, so their tables are empty."""
        table = TopicConfigTable(self._topics, self.version, DataVersion(), {}, {})
        return RegisterBrokerBody(table)

    def follow(self, table: TopicConfigTable, groups: Container[str], now_ms: int) -> None:
        """Becomes what a master's table is; what a broker needs itself, and retry topics of the groups that there are,
        stay."""
        told = {
            name: msgspec.structs.replace(config, topicName=name)
            for name, config in self._names.of(table.topicConfigTable).items()
        }
        own = {name: config for name, config in self._topics.items() if self._is_own(name, groups) and name not in told}
        if own | told != self._topics:
            self._topics = own | told
            self.version = self.version.next(now_ms)

    def _is_own(self, name: str, groups: Container[str]) -> bool:
        return name in self._own_names or (name.startswith(RETRY_PREFIX) and name.removeprefix(RETRY_PREFIX) in groups)

    def load(self, table: TopicConfigTable) -> None:
        """Takes over a stored table, but for names that must not become directories."""
        for name, config in self._names.of(table.topicConfigTable).items():
            self._topics[name] = msgspec.structs.replace(config, topicName=name)
        self.version = table.dataVersion


def queue_by_now(config: TopicConfig, queue_id: int) -> int:
    """Where a message that has waited belongs: in its queue, or another one where its topic has fewer to write to by
    now. In one that it has no more nobody would read it."""
    queues = config.writeQueueNums
    return queue_id if queue_id < queues or not queues else queue_id % queues


def _check_kept(name: str) -> str:
    """One of a table's names may be the broker's own, or the one it had: see `check_broker_name`."""
    return check_topic(name) if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else check_broker_name(name)


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """The topics a broker makes for itself at start (spec: semantics, section 2.2), as far as their features exist."""
    own = int(TEMPLATE)
    closed = int(Perm.INHERIT)
    topics = [
        (SELF_TEST_TOPIC, 1, READ_WRITE),
        (BENCHMARK_TOPIC, 1024, READ_WRITE),
        (config.broker_cluster_name, 16, own if config.cluster_topic_enable else closed),
        (config.broker_name, 1, own if config.broker_topic_enable else closed),
        (OFFSET_MOVED_EVENT_TOPIC, 1, READ_WRITE),
        (f"{config.broker_cluster_name}_REPLY_TOPIC", 1, READ_WRITE),
        (SCHEDULE_TOPIC, MAX_DELAY_LEVEL, READ_WRITE),  # more levels get queues all the same
        (TIMER_TOPIC, 1, READ_WRITE),
        (HALF_TOPIC, 1, READ_WRITE),
        (OP_HALF_TOPIC, 1, READ_WRITE),
    ]
    if config.auto_creates_topics:
        topics.append((AUTO_CREATE_TOPIC, config.default_topic_queue_nums, TEMPLATE))
    if config.trace_topic_enable:
        topics.append((TRACE_TOPIC, 1, READ_WRITE))
    return [
        TopicConfig(topicName=name, readQueueNums=queues, writeQueueNums=queues, perm=perm)
        for name, queues, perm in topics
    ]
