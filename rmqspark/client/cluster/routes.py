"""Routes: which queues a topic has and where their brokers are. Pure; `cluster_client` asks the name servers.

Spec: semantics, section 1. Producers may use the queues whose broker has a master and the write permission,
consumers those with the read permission, on a slave if need be. Both lists are in the order RocketMQ's clients use
(broker name, then queue id), which makes "the queue of this key" the same for every client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.errors import BodyError, NoBrokers
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.names import MASTER_ID, Perm
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqspark.protocol.bodies.route import ClusterInfo, TopicRouteData

ROUTE_FRESH_MS = 30_000  # RocketMQ's pollNameServerInterval
MAX_QUEUES = 65_536  # of one topic on one broker; what exceeds it is no route
UNANSWERED_FRESH_MS = 5_000  # of a route that no name server would confirm: until they are asked again
BORROWED_FRESH_MS = 1_000  # a route borrowed from the template: the real one appears with the first send
HEADLESS_FRESH_MS = 2_000  # of one with a broker of which only slaves are there: its master may be back any moment
_DAY_MS: Final = 86_400_000
_FEW: Final = 100


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """A topic's queues and the addresses of its brokers (broker name → broker id → address; id 0 is the master)."""

    topic: str
    publish_queues: tuple[MessageQueue, ...]
    subscribe_queues: tuple[MessageQueue, ...]
    brokers: Mapping[str, Mapping[int, str]]
    borrowed: bool = False  # made from TBW102 for a topic that does not exist yet

    @property
    def is_headless(self) -> bool:
        """True where a broker has slaves and no master."""
        return not all(MASTER_ID in addresses for addresses in self.brokers.values())

    def master(self, broker_name: str) -> str | None:
        return self.brokers.get(broker_name, {}).get(MASTER_ID)

    def address(self, broker_name: str) -> str | None:
        """The master's address, else that of the lowest broker id there is."""
        addresses = self.brokers.get(broker_name)
        return addresses[min(addresses)] if addresses else None


def topic_route(topic: str, data: TopicRouteData) -> TopicRoute:
    """What a client makes of a name server's answer (RocketMQ's topicRouteData2TopicPublishInfo and …SubscribeInfo)."""
    brokers = {broker.brokerName: dict(broker.brokerAddrs) for broker in data.brokerDatas}
    queue_datas = sorted(data.queueDatas, key=lambda queue_data: queue_data.brokerName)
    writable = [
        (queue_data.brokerName, queue_data.writeQueueNums)
        for queue_data in queue_datas
        if queue_data.perm & Perm.WRITE and MASTER_ID in brokers.get(queue_data.brokerName, {})
    ]
    readable = [
        (queue_data.brokerName, queue_data.readQueueNums) for queue_data in queue_datas if queue_data.perm & Perm.READ
    ]
    ordered = _ordered_queues(data.orderTopicConf) if data.orderTopicConf else None
    return TopicRoute(topic, _queues(topic, ordered or writable), _queues(topic, readable), brokers)


def borrowed_route(topic: str, template: TopicRoute, queue_count: int) -> TopicRoute:
    """The route to send to a topic that does not exist yet, like TBW102's but with at most `queue_count` queues.

    Spec: semantics, section 2.1. The broker creates the topic when the first message arrives.
    """
    publish_queues = tuple(
        MessageQueue(topic, queue.broker_name, queue.queue_id)
        for queue in template.publish_queues
        if queue.queue_id < queue_count
    )
    return TopicRoute(topic, publish_queues, (), template.brokers, borrowed=True)


def registered_masters(info: ClusterInfo) -> list[str]:
    """The names of all brokers whose master is there, in order."""
    return sorted(name for name, broker in info.brokerAddrTable.items() if MASTER_ID in broker.brokerAddrs)


def no_broker(namesrv: str) -> NoBrokers:
    """The error where no broker is registered: nobody knows then which topics there are."""
    return NoBrokers("No broker is registered.", address=namesrv, hint="Is one running? Ask rmq doctor.")


class _Known(NamedTuple):
    """A route, until when it is fresh, and when it was last asked for; monotonic ms."""

    route: TopicRoute
    fresh_until_ms: int
    asked_ms: int


class RouteCache:
    """Routes by topic, each fresh for a while. Topics come and go: what nobody has asked for in a day is dropped, at
    the latest when there are twice as many as were left the last time. Its owner locks it for changes."""

    def __init__(self) -> None:
        self._routes: dict[str, _Known] = {}
        self._tidy_above = _FEW

    def __len__(self) -> int:
        return len(self._routes)

    def fresh(self, topic: str, now_ms: int) -> TopicRoute | None:
        known = self._routes.get(topic)
        return known.route if known is not None and now_ms < known.fresh_until_ms else None

    def last_known(self, topic: str) -> TopicRoute | None:
        """The route as last seen, however old: better than none while no name server answers."""
        known = self._routes.get(topic)
        return None if known is None else known.route

    def put(self, route: TopicRoute, now_ms: int) -> None:
        self._routes[route.topic] = _Known(route, now_ms + _fresh_ms(route), now_ms)
        if len(self._routes) > self._tidy_above:
            self._routes = {topic: each for topic, each in self._routes.items() if now_ms - each.asked_ms < _DAY_MS}
            self._tidy_above = 2 * len(self._routes) + _FEW

    def keep(self, topic: str, now_ms: int) -> None:
        """Goes on with the route as last seen, for a while, since nobody answers who would know better."""
        if known := self._routes.get(topic):
            self._routes[topic] = _Known(known.route, now_ms + UNANSWERED_FRESH_MS, now_ms)

    def expire(self, topic: str) -> None:
        """Asks again at the next use: something the route promised did not hold."""
        if known := self._routes.get(topic):
            self._routes[topic] = known._replace(fresh_until_ms=0)

    def forget(self, topic: str) -> None:
        self._routes.pop(topic, None)


def _fresh_ms(route: TopicRoute) -> int:
    if route.borrowed:
        return BORROWED_FRESH_MS
    return HEADLESS_FRESH_MS if route.is_headless else ROUTE_FRESH_MS


def _queues(topic: str, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    return tuple(
        MessageQueue(topic, broker_name, queue_id)
        for broker_name, count in counts
        for queue_id in range(_believable(topic, count))
    )


def _believable(topic: str, count: int) -> int:
    if not 0 <= count <= MAX_QUEUES:
        raise BodyError(f"The name server claims {count} queues for topic {topic!r}.")
    return count


def _ordered_queues(order_topic_conf: str) -> list[tuple[str, int]]:
    """ "broker-a:4;broker-b:4" → pairs. Such a topic's queues are exactly these, whatever its QueueData says."""
    pairs = (part.split(":") for part in order_topic_conf.split(";") if part)
    counts = ((pair[0], whole_number(pair[1])) for pair in pairs if len(pair) == 2)
    return [(broker_name, count) for broker_name, count in counts if count is not None]
