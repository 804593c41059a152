"""The subscribed queues as the cluster shows them now: a thin, patient shell around the client.

Spark asks an idle query for its latest offset every ten milliseconds or so. An answer is kept for the rest of one such
look, not until the next: `processAllAvailable` promises what was sent before it, and Spark keeps the promise by looking
once more. A request that fails (`queue_states.py`) is tried again within the limits that fetchOffset.numRetries and
fetchOffset.retryIntervalMs set. After that a stream may do without brokers that answer nothing
(`client.cluster.outages`), or waits for a minute if none does: an error that leaves here ends the query.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.cluster.group_reading import committed_offsets
from rmqspark.client.cluster.patience import may_pass, patiently
from rmqspark.client.cluster.user_topics import user_topics, with_nearest
from rmqspark.errors import NoPermission, RmqError, TopicNotFound, Unreachable
from rmqspark.protocol.names import MASTER_ID
from rmqspark.source.planning.queue_states import QueueStates, brokers_of
from rmqspark.source.positions import check_assigned
from rmqspark.source.tasks.leases import no_master

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.measuring import Extent
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.planning.planner import Snapshot
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.retry import RetryPolicy
    from rmqspark.source.subscription import Subscription

MAX_AGE_MS = 5  # below Spark's pollingDelay, 10 ms
ROUTE_MAX_AGE_MS = 5_000  # how soon a query notices queues and topics that were added

T = TypeVar("T")


class ClusterView:
    """Ends, beginnings and stores of the subscribed queues. `client` is used, never closed."""

    def __init__(
        self, client: ClusterClient, subscription: Subscription, retry: RetryPolicy, *, of_masters: bool = False
    ) -> None:
        """With `of_masters` a broker of which only a slave is there is as good as silent."""
        self._client = client
        self._states = QueueStates(client)
        self._clock = client.clock
        self._subscription = subscription
        self._retry = retry
        self._of_masters = of_masters
        self._outages = client.outages
        self._snapshot: Snapshot | None = None
        self._taken_ms = 0
        self._routed_ms = 0
        self._matching: tuple[str, ...] | None = None  # what subscribePattern has found; None before the first look

    def snapshot(
        self, *, fresh: bool = False, missing_topics_allowed: bool = False, outages_allowed: bool = False
    ) -> Snapshot:
        """All subscribed queues, at most MAX_AGE_MS ago, or just now. Raises what a last try raised.

        With `outages_allowed` brokers that answer nothing are left out, as long as others do.
        """
        if self._snapshot is None or fresh or not self._is_recent(self._snapshot, outages_allowed):
            self._snapshot = self._look_for_long(missing_topics_allowed, outages_allowed)
            self._taken_ms = self._clock.monotonic_ms()
        return self._snapshot

    def _is_recent(self, snapshot: Snapshot, outages_allowed: bool) -> bool:
        """Whether it will do for this moment, and for who wants all brokers in it or does not."""
        is_whole = outages_allowed or not snapshot.left_out
        return is_whole and self._clock.monotonic_ms() - self._taken_ms < MAX_AGE_MS

    @property
    def left_out(self) -> frozenset[str]:
        """The brokers that are missing in the last snapshot for their silence."""
        return frozenset() if self._snapshot is None else self._snapshot.left_out

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The lowest offset of each of these queues."""
        asked = list(queues)
        return self._patiently(lambda: self._states.begins(asked))

    def ends_of(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """Where each of these queues ends now."""
        asked = list(queues)
        return self._patiently(lambda: dict(self._states.snapshot(asked).ends))

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """The first message of each queue stored at or after that time, or the end where there is none."""
        return self._patiently(lambda: self._states.offsets_at(queues, timestamp_ms))

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int | None]:
        """What the group has committed in each of these queues; None where it never has."""
        return self._patiently(lambda: committed_offsets(self._client, group, queues))

    def measure(self, budgets: Sequence[tuple[QueueRange, int]]) -> list[Extent]:
        """How far so many bytes reach into these ranges. Raises NotSupported for queues of stock brokers."""
        return self._patiently(lambda: self._states.measure(budgets))

    def is_deleted(self, topic: str, broker_names: Collection[str]) -> bool:
        """Whether a topic of these brokers is gone for good: their masters are registered, and it is not.

        While one of them is away, its topics are not listed either, but for those that a slave has heard of; they come
        back with it. Where no name server answers, nobody says that it is.
        """

        def ask() -> bool:
            known = self._client.cluster_info().brokerAddrTable
            if not all(name in known and MASTER_ID in known[name].brokerAddrs for name in broker_names):
                return False
            self._client.expire_route(topic)
            try:
                self._client.subscribe_queues(topic)
            except TopicNotFound:
                return True
            return False

        try:
            return self._patiently(ask)
        except RmqError as error:
            if _is_silence(error):
                return False
            raise

    def _look_for_long(self, missing_topics_allowed: bool, outages_allowed: bool) -> Snapshot:
        """A query that runs waits longer than for some brokers, without which it can go on, for all of them, or for
        those it needs."""
        look = partial(self._look_patiently, missing_topics_allowed, outages_allowed)
        if self._snapshot is None or self._retry.for_ms is None:
            return look()
        return patiently(look, self._retry.under_way, self._clock)

    def _look_patiently(self, missing_topics_allowed: bool, outages_allowed: bool) -> Snapshot:
        """Where a last try fails and outages are allowed, once more without whoever has then begun to be away."""
        # A name server that has just been started knows no topic before the brokers have registered with it.
        may_come_back = (TopicNotFound,) if self._snapshot is not None else ()
        while True:
            try:
                return self._patiently(
                    lambda: self._look(missing_topics_allowed, outages_allowed), besides=may_come_back
                )
            except RmqError as error:
                if not (outages_allowed and may_pass(error)):
                    raise
                if not self._outages.look(brokers_of(self._queues(missing_topics_allowed, outages_allowed))):
                    raise

    def _look(self, missing_topics_allowed: bool, outages_allowed: bool) -> Snapshot:
        queues = self._queues(missing_topics_allowed, outages_allowed)
        left_out = self._outages.among(brokers_of(queues)) if outages_allowed else frozenset()
        if self._of_masters:
            left_out |= self._headless({*brokers_of(queues)} - left_out, outages_allowed)
        snapshot = self._states.snapshot([queue for queue in queues if queue.broker_name not in left_out])
        return replace(snapshot, left_out=left_out)

    def _headless(self, names: Collection[str], outages_allowed: bool) -> frozenset[str]:
        """Those of these brokers of which only a slave is there. Raises Unreachable where all have to be asked."""
        headless = frozenset(name for name in names if self._client.broker(name).capabilities().is_slave)
        if headless and not outages_allowed:
            raise no_master(min(headless))
        return headless

    def _queues(self, missing_topics_allowed: bool, outages_allowed: bool) -> list[MessageQueue]:
        there: list[MessageQueue] = []
        topics = self._topics()
        self._client.look_up(topics)
        for topic in topics:
            try:
                there += self._client.subscribe_queues(topic)
            except TopicNotFound as missing:
                # One that matches a pattern may go between two looks: `Progress` notices.
                if not missing_topics_allowed and self._subscription.pattern is None:
                    self._client.require_brokers()
                    raise missing if self._snapshot is not None else with_nearest(self._client, missing) from None
        if self._snapshot is None and not outages_allowed:  # later, and where that may be, its broker is away
            if not there:
                self._matching = None  # which is looked for again, with the next try
                self._client.require_brokers()
            if not missing_topics_allowed:
                _check_readable(self._subscription.topics, there)
            check_assigned(self._subscription.queues or (), there)
        return list(filter(self._subscription.includes, there))

    def _topics(self) -> tuple[str, ...]:
        """The topics to look at; what is known about them is a few seconds old at most."""
        now_ms = self._clock.monotonic_ms()
        is_due = now_ms - self._routed_ms >= ROUTE_MAX_AGE_MS
        if self._subscription.pattern is not None and (is_due or self._matching is None):
            self._matching = self._look_for_matching()
        topics = self._subscription.topics if self._matching is None else self._matching
        if is_due:
            self._routed_ms = now_ms
            for topic in topics:
                self._client.expire_route(topic)
        return topics

    def _look_for_matching(self) -> tuple[str, ...]:
        """The topics that subscribePattern finds. Where no name server answers, those that are known are read on, as
        topics that are named, by the routes that are known."""
        try:
            return tuple(filter(self._subscription.matches, user_topics(self._client)))
        except RmqError as error:
            if self._matching is None or not _is_silence(error):
                raise
            return self._matching

    def _patiently(self, ask: Callable[[], T], *, besides: tuple[type[RmqError], ...] = ()) -> T:
        return patiently(ask, self._retry.beginning, self._clock, besides=besides)


def _is_silence(error: RmqError) -> bool:
    """Whether nobody has said anything, for now or because of a certificate: who knows enough goes on by that."""
    return may_pass(error) or isinstance(error, Unreachable)


def _check_readable(topics: Iterable[str], there: Iterable[MessageQueue]) -> None:
    """Raises NoPermission for a topic of which no queue may be read: nothing read would say that nothing is there."""
    for topic in sorted({*topics}.difference(queue.topic for queue in there)):
        raise NoPermission(
            f"Topic {topic!r} has no queue that may be read.", hint=f"Allow it: rmq topic update {topic} --perm rw."
        )
