"""The topics a task writes to, and their queues."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.futures import asked
from rmqspark.client.cluster.patience import patiently
from rmqspark.errors import NoPermission, NotSupported, RmqError, TopicNotFound
from rmqspark.protocol.names import MAX_TOPIC_LENGTH, check_row_target
from rmqspark.sink.rows.delays import Longest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from rmqspark.client.cluster.capabilities import Capabilities
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.sink.options import SinkOptions

_SPREAD_SENDS: Final = 1_024  # for all topics of a task together
_STOCK_SEND_BYTES: Final = 1 << 20  # become no batch above RocketMQ's maxMessageSize, however small the rows are


class Targets:
    """Looks each topic up once per task, creating it if the options say so."""

    def __init__(self, client: ClusterClient, options: SinkOptions) -> None:
        self._client = client
        self._options = options
        self._queues: dict[str, list[MessageQueue]] = {}
        self._answering: dict[str, list[MessageQueue]] = {}
        self._first_turns: dict[str, int] = {}
        self._turns_taken: Counter[str] = Counter()
        self._bytes_in_turn: Counter[str] = Counter()
        self._looked_up: set[str] = set()

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of `topic` that may be written to, by broker name and id. Raises TopicNotFound, NoPermission …"""
        if topic not in self._queues:
            self.look_up((topic,))
            self._queues[topic] = self._find(topic)
        return self._queues[topic]

    def answering(self, topic: str) -> list[MessageQueue]:
        """Those of them whose brokers answer, for rows that any queue may have: all, where none does."""
        if topic not in self._answering:
            queues = self.queues(topic)
            silent = self._silent({queue.broker_name for queue in queues})
            self._answering[topic] = [queue for queue in queues if queue.broker_name not in silent] or queues
        return self._answering[topic]

    def _silent(self, names: Collection[str]) -> frozenset[str]:
        """Name servers go on naming a broker that hangs. Each is asked what it can do anyway, once per connection."""
        outages = self._client.outages
        if len(names) > 1 and not outages.among(names):
            answers = [asked(self._client.broker(name).ask_capabilities) for name in sorted(names)]
            if any(isinstance(answer.exception(), RmqError) for answer in answers):
                outages.look(names)
        return outages.among(names)

    def look_up(self, topics: Sequence[str]) -> None:
        """Asks for those of these topics that are new, all together. The worker may know them from a task before;
        queues may have been added since. Raises what is wrong with the name of one."""
        new = [check_row_target(topic) for topic in topics if topic not in self._looked_up]
        for topic in new:
            self._client.expire_route(topic)
        self._client.look_up(new)
        self._looked_up.update(new)

    def send_bytes(self, topic: str) -> int:
        """How large a send of rows for `topic` is to be by now: they grow once each queue has had a first one."""
        first_bytes = self._options.first_send_bytes
        shared_out_bytes = len(self._answering.get(topic, ())) * first_bytes
        return first_bytes if self._bytes_in_turn[topic] <= shared_out_bytes else self._options.grown_send_bytes

    def max_bytes(self, topic: str, queues: Sequence[MessageQueue]) -> int:
        """The same for these queues of it: stock brokers take batches up to the size of one message only."""
        if all(self._able(name).bulk_send for name in _broker_names(queues)):
            return self.send_bytes(topic)
        return min(self._options.first_send_bytes, _STOCK_SEND_BYTES)

    def take_topics(self, topics: Sequence[str]) -> bool:
        """Whether all brokers that answer of these topics take rows for many queues at once: none for topics of dead
        letters whose names are longer than those of others may be."""
        if max(map(len, topics)) > MAX_TOPIC_LENGTH:
            return False
        names = _broker_names(queue for topic in topics for queue in self.answering(topic))
        return all(self._able(name).topics_send for name in names)

    def require_delays(self, queues: Sequence[MessageQueue]) -> None:
        """Raises NotSupported unless rows for these queues can wait, on all of their brokers."""
        for name in _broker_names(queues):
            able = self._able(name)
            if not able.delays:
                kind = f"is {able.product}" if able.bulk_send else "is a stock broker"
                raise NotSupported(
                    f"Broker {name!r} {kind}, whose batches take no delays.",
                    hint="Leave out delayLevel and deliverTime, or send such messages with a Producer.",
                )

    def longest_waits(self, topics: Iterable[str]) -> Longest:
        """How long rows of any of these topics may wait."""
        able = [self._able(name) for name in _broker_names(queue for topic in topics for queue in self.queues(topic))]
        levels, delays = ([each.delay_levels for each in able], [each.max_delay_sec for each in able])
        return Longest(min(filter(None, levels), default=0), min(filter(None, delays), default=0))

    @property
    def spread(self) -> int:
        """Among how many of its queues the rows of a topic are divided: not among all, where there are many topics."""
        return max(1, _SPREAD_SENDS // len(self._looked_up))

    def has_begun(self, topic: str) -> bool:
        """Whether queues of `topic` had their turn in this task."""
        return topic in self._first_turns

    def turn(self, topic: str) -> int:
        """Whose turn it is among the queues of `topic`. Tasks begin anywhere, so that they do not march in step."""
        if topic not in self._first_turns:
            self._first_turns[topic] = self._client.entropy.below(1 << 16)
        return self._first_turns[topic] + self._turns_taken[topic]

    def took_turns(self, topic: str, count: int, size_bytes: int = 0) -> None:
        """`count` queues of `topic` had their turn. `size_bytes`: of the rows they got, where sends are to grow."""
        self._turns_taken[topic] += count
        self._bytes_in_turn[topic] += size_bytes

    def _able(self, broker_name: str) -> Capabilities:
        broker = self._client.broker(broker_name)
        return patiently(broker.capabilities, self._options.patience, self._client.clock)

    def _find(self, topic: str) -> list[MessageQueue]:
        try:
            queues = patiently(lambda: self._known_queues(topic), self._options.patience, self._client.clock)
        except TopicNotFound as missing:
            if not self._options.auto_create_topic:
                from rmqspark.client.cluster.user_topics import with_nearest  # few tasks ever miss one

                missing.hint = f"Create it with: rmq topic create {topic}, or write with autoCreateTopic=true."
                raise with_nearest(self._client, missing) from None
            queues = self._create(topic)
        if not queues:
            raise NoPermission(
                f"Topic {topic!r} has no queue that may be written to.",
                hint=f"Allow it: rmq topic update {topic} --perm rw.",
            )
        return queues

    def _known_queues(self, topic: str) -> list[MessageQueue]:
        try:
            return self._client.publish_queues(topic)
        except TopicNotFound:
            self._client.require_brokers()
            raise

    def _create(self, topic: str) -> list[MessageQueue]:
        """On all brokers. Tasks may meet here; a topic that another one has just made is fine."""
        from rmqspark.client.administration.admin_topics import create_topic, topic_config  # few tasks ever make one

        queues = self._options.queues
        config = topic_config(topic, read_queues=queues, write_queues=queues, perm="rw", message_type="normal")
        create_topic(self._client, config, None, exist_ok=True)
        return self._client.publish_queues(topic)


def _broker_names(queues: Iterable[MessageQueue]) -> list[str]:
    return sorted({queue.broker_name for queue in queues})
