"""A cluster at one moment: what its brokers hold, what groups have committed, what queries and transactions are under
way. Two of them give rates (`rates`). Asked anew every few seconds, so it takes few requests: three of each broker, one
for each topic on it, and where it has slaves two more and one of each slave, all under way together.

A broker that does not answer keeps what it said last, with when that was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rmqspark.client.administration.broker_admin import ADMIN_TIMEOUT_MS
from rmqspark.client.administration.broker_facts import config_of, runtime_of
from rmqspark.client.administration.cluster_status import BrokerStatus
from rmqspark.client.administration.replicas import ReplicaQuestions, Replicas
from rmqspark.client.cluster.futures import then
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.cluster.user_topics import users_among
from rmqspark.client.spark.queries import seen_queries
from rmqspark.client.spark.query_view import QueryView, view_of
from rmqspark.client.spark.txn import transactions
from rmqspark.errors import NotFound, RmqError
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable, TopicStatsTable
from rmqspark.protocol.bodies.route import TopicConfigTable
from rmqspark.protocol.bodies.txn import TxnState
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import TopicRequestHeader
from rmqspark.protocol.names import CHECK_GROUP, DLQ_PREFIX, HALF_TOPIC, MASTER_ID, RETRY_PREFIX, is_system_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    import msgspec

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.client.spark.queries import SeenQuery
    from rmqspark.protocol.bodies.admin import TopicOffset
    from rmqspark.protocol.bodies.route import ClusterInfo
    from rmqspark.remoting.response import Response

MOST_TOPICS: Final = 2_000  # of a broker: one request each
NOT_REGISTERED: Final = "It is not registered any more."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The messages of a queue are those at [min_offset, max_offset)."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class BrokerSnapshot:
    """What a broker said at `at_ms`; `silence` says why it does not answer now, "" where it does.

    `queues` are those of users' topics and of retries and dead letters. `committed` are offsets by group and queue.
    `half_messages` are those since the oldest that is not decided, None where unknown; `topics_left_out` were too many
    to be asked about.
    """

    status: BrokerStatus
    at_ms: int
    queues: dict[MessageQueue, Bounds] = field(default_factory=dict)
    committed: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
    half_messages: int | None = None
    topics_left_out: int = 0
    silence: str = ""

    @property
    def name(self) -> str:
        return self.status.name


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`silence` says why no name server answers, "" where one does; `gaps` what else could not be asked. Queries that
    have ended long ago are left out."""

    at_ms: int
    brokers: dict[str, BrokerSnapshot]
    queries: tuple[QueryView, ...] = ()
    transactions: tuple[TxnState, ...] = ()
    silence: str = ""
    gaps: tuple[str, ...] = ()


def take(cluster: ClusterClient, before: Snapshot | None = None) -> Snapshot:
    """Asks everybody. What does not answer is as it was in `before`; without one Unreachable is raised where no name
    server answers."""
    now_ms = cluster.clock.now_ms()
    known = before.brokers if before is not None else {}
    try:
        info = cluster.cluster_info()
    except RmqError as error:
        if before is None:
            raise
        return replace(before, at_ms=now_ms, silence=str(error), gaps=())
    brokers = {name: _silent(each, NOT_REGISTERED) for name, each in known.items()} | _look(cluster, info, known)
    gaps: dict[str, None] = {}
    silence = Silence(_into(gaps))
    queries = _asked("queries", lambda: _queries(cluster, gaps, silence), gaps)
    states = _asked("transactions", lambda: transactions(cluster, on_silent=silence), gaps)
    return Snapshot(now_ms, dict(sorted(brokers.items())), tuple(queries), tuple(states), gaps=tuple(gaps))


def _into(gaps: dict[str, None]) -> OnSilent:
    """Notes each broker that does not answer."""

    def note(broker_name: str, _: RmqError) -> None:
        gaps[f"{broker_name} does not answer, and what it knows of queries and transactions is left out"] = None

    return note


def _asked(what: str, ask: Callable[[], list[T]], gaps: dict[str, None]) -> list[T]:
    """None of them where nobody could be asked."""
    try:
        return ask()
    except RmqError as error:
        gaps[f"{what}: {error.message}"] = None
        return []


def _silent(known: BrokerSnapshot, reason: str) -> BrokerSnapshot:
    return replace(known, silence=reason)


def _queries(cluster: ClusterClient, gaps: dict[str, None], silence: Silence) -> list[QueryView]:
    seen = [each for each in seen_queries(cluster, on_silent=silence) if not each.is_past]
    return [
        view
        for each in seen
        for view in _asked(f"query {each.known.queryId}", partial(_views, cluster, each, silence), gaps)
    ]


def _views(cluster: ClusterClient, seen: SeenQuery, silence: Silence) -> list[QueryView]:
    return [view_of(cluster, seen, on_silent=silence)]


def _look(cluster: ClusterClient, info: ClusterInfo, known: Mapping[str, BrokerSnapshot]) -> dict[str, BrokerSnapshot]:
    """All brokers, in two rounds: what there is to ask about, then that."""
    looks = [_Look(cluster, info, name) for name in sorted(info.brokerAddrTable)]
    for ask in (_Look.ask_what_there_is, _Look.ask_about_topics):
        for look in looks:
            look.attempt(ask)
    return {look.name: look.snapshot(known.get(look.name)) for look in looks}


class _Look:
    """Questions to one broker. What it did not answer is an end to them."""

    def __init__(self, cluster: ClusterClient, info: ClusterInfo, name: str) -> None:
        self.name = name
        self._cluster = cluster
        self._info = info
        self._silence = ""
        self._runtime: Future[dict[str, str]] | None = None
        self._topics: Future[TopicConfigTable] | None = None
        self._offsets: Future[ConsumerOffsetTable] | None = None
        self._stats: list[Future[TopicStatsTable]] = []
        self._settings: Future[dict[str, str]] | None = None
        self._replicas: ReplicaQuestions | None = None
        self._left_out = 0

    def attempt(self, ask: Callable[[_Look], None]) -> None:
        if self._silence:
            return
        try:
            ask(self)
        except RmqError as error:
            self._silence = error.message

    def ask_what_there_is(self) -> None:
        self._runtime = then(
            self._submit(RequestCode.GET_BROKER_RUNTIME_INFO), lambda r: runtime_of(r.raise_for_code())
        )
        self._topics = self._ask(RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable.decode)
        self._offsets = self._ask(RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable.decode)
        addresses = self._info.brokerAddrTable[self.name].brokerAddrs
        if addresses.keys() - {MASTER_ID}:
            self._replicas = ReplicaQuestions(self._cluster, self.name, addresses)
            self._settings = then(self._submit(RequestCode.GET_BROKER_CONFIG), lambda r: config_of(r.raise_for_code()))

    def ask_about_topics(self) -> None:
        assert self._topics is not None
        there = self._topics.result().topicConfigTable
        names = users_among(sorted(there), self._info)
        self._left_out = max(0, len(names) - MOST_TOPICS)
        asked = [*names[:MOST_TOPICS], *([HALF_TOPIC] if HALF_TOPIC in there else [])]
        self._stats = [
            self._ask(RequestCode.GET_TOPIC_STATS_INFO, TopicStatsTable.decode, TopicRequestHeader(topic))
            for topic in asked
        ]

    def snapshot(self, before: BrokerSnapshot | None) -> BrokerSnapshot:
        if not self._silence:
            try:
                return self._answered()
            except RmqError as error:
                self._silence = error.message
        if before is not None:
            return _silent(before, self._silence)
        return BrokerSnapshot(self._status({}), self._cluster.clock.now_ms(), silence=self._silence)

    def _answered(self) -> BrokerSnapshot:
        assert self._runtime is not None
        assert self._offsets is not None
        queues: dict[MessageQueue, Bounds] = {}
        for stats in self._stats:
            queues |= _bounds(stats)
        halves = {queue: queues.pop(queue) for queue in list(queues) if queue.topic == HALF_TOPIC}
        offsets = self._offsets.result()
        open_halves = _open_halves(halves, _committed(offsets, self.name, halves).get(CHECK_GROUP, {}))
        committed = _committed(offsets, self.name, queues)
        readers = {group: own for group, own in committed.items() if own and not is_system_group(group)}
        now_ms = self._cluster.clock.now_ms()
        return BrokerSnapshot(
            self._status(self._runtime.result()), now_ms, queues, readers, open_halves, self._left_out
        )

    def _status(self, runtime: dict[str, str]) -> BrokerStatus:
        data = self._info.brokerAddrTable[self.name]
        settings = self._settings.result() if self._settings is not None and runtime else {}
        replicas = Replicas() if self._replicas is None else self._replicas.answered(settings)
        known = BrokerStatus(self.name, data.cluster, dict(data.brokerAddrs), 0, 0, runtime, settings)
        return replace(known, silence=self._silence, replicas=replicas)

    def _ask(self, code: RequestCode, decode: Callable[[Any], T], header: msgspec.Struct | None = None) -> Future[T]:
        return then(self._submit(code, header), lambda response: decode(response.raise_for_code().body))

    def _submit(self, code: RequestCode, header: msgspec.Struct | None = None) -> Future[Response]:
        return self._cluster.broker(self.name).submit(code, header, timeout_ms=ADMIN_TIMEOUT_MS)


def _bounds(stats: Future[TopicStatsTable]) -> dict[MessageQueue, Bounds]:
    """None of a topic that was deleted meanwhile."""
    try:
        table: dict[MessageQueue, TopicOffset] = stats.result().offsetTable
    except NotFound:
        return {}
    return {queue: Bounds(each.minOffset, each.maxOffset) for queue, each in table.items()}


def _committed(
    table: ConsumerOffsetTable, broker_name: str, queues: Iterable[MessageQueue]
) -> dict[str, dict[MessageQueue, int]]:
    """By group, of queues that are there. How far dead letters were sent again is kept in the same way, and is none."""
    there: dict[tuple[str, int], MessageQueue] = {(queue.topic, queue.queue_id): queue for queue in queues}
    found: dict[str, dict[MessageQueue, int]] = {}
    for name, offsets in table.offsetTable.items():
        topic, _, group = name.rpartition("@")
        if topic.startswith(DLQ_PREFIX):
            continue
        own = found.setdefault(group, {})
        own.update((there[topic, queue], offset) for queue, offset in offsets.items() if (topic, queue) in there)
    return found


def _open_halves(halves: Mapping[MessageQueue, Bounds], committed: Mapping[MessageQueue, int]) -> int | None:
    """From the first on that is not decided: RocketMQ and we note how far all are."""
    if not halves:
        return None
    starts = {queue: max(bounds.min_offset, committed.get(queue, 0)) for queue, bounds in halves.items()}
    return sum(max(0, bounds.max_offset - starts[queue]) for queue, bounds in halves.items())


def is_users(queue: MessageQueue) -> bool:
    """Whether users send there: not retries, nor dead letters."""
    return not queue.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
