"""The subscribed queues as the cluster shows them now: a thin, patient shell around the client.

Spark asks an idle query for its latest offset every ten milliseconds or so. An answer is kept for the rest of one such
look, not until the next: `processAllAvailable` promises what was sent before it, and Spark keeps the promise by looking
once more. Requests for all queues travel together, and one that fails is tried again within the limits that
fetchOffset.numRetries and fetchOffset.retryIntervalMs set: an error that leaves here ends the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqspark.client.patience import patiently
from rmqspark.errors import InvalidArgument, TopicNotFound
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    SearchOffsetRequestHeader,
)
from rmqspark.source.offsets import StoreIdentity
from rmqspark.source.planner import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    import msgspec

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.errors import RmqError
    from rmqspark.model import MessageQueue
    from rmqspark.remoting.response import Response
    from rmqspark.source.options import RetryPolicy, Subscription

MAX_AGE_MS = 5  # below Spark's pollingDelay, 10 ms
ROUTE_MAX_AGE_MS = 5_000  # how soon a query notices queues that were added
OFFSET_TIMEOUT_MS = 6_000

T = TypeVar("T")


class ClusterView:
    """Ends, beginnings and stores of the subscribed queues. `client` is used, never closed."""

    def __init__(self, client: ClusterClient, subscription: Subscription, retry: RetryPolicy) -> None:
        self._client = client
        self._clock = client.clock
        self._subscription = subscription
        self._retry = retry
        self._snapshot: Snapshot | None = None
        self._taken_ms = 0
        self._routed_ms = 0

    def snapshot(self, *, fresh: bool = False, missing_topics_allowed: bool = False) -> Snapshot:
        """All subscribed queues, at most MAX_AGE_MS ago, or just now. Raises what a last try raised."""
        if self._snapshot is None or fresh or self._clock.monotonic_ms() - self._taken_ms >= MAX_AGE_MS:
            # A name server that has just been started knows no topic before the brokers have registered with it.
            may_come_back = (TopicNotFound,) if self._snapshot is not None else ()
            self._snapshot = self._patiently(lambda: self._look(missing_topics_allowed), besides=may_come_back)
            self._taken_ms = self._clock.monotonic_ms()
        return self._snapshot

    def begins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """The lowest offset of each of these queues."""
        return self._patiently(lambda: self._offsets(RequestCode.GET_MIN_OFFSET, queues, _min_header))

    def offsets_at(self, queues: Iterable[MessageQueue], timestamp_ms: int) -> dict[MessageQueue, int]:
        """The first message of each queue stored at or after that time, or the end where there is none."""

        def header(queue: MessageQueue) -> msgspec.Struct:
            return SearchOffsetRequestHeader(queue.topic, queue.queue_id, timestamp_ms, "LOWER", queue.broker_name)

        return self._patiently(lambda: self._offsets(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queues, header))

    def _look(self, missing_topics_allowed: bool) -> Snapshot:
        queues = self._queues(missing_topics_allowed)
        stores = {name: self._store(name) for name in sorted({queue.broker_name for queue in queues})}
        return Snapshot(self._offsets(RequestCode.GET_MAX_OFFSET, queues, _max_header), stores)

    def _store(self, broker_name: str) -> StoreIdentity:
        capabilities = self._client.broker(broker_name).capabilities()
        return StoreIdentity(capabilities.store_id, capabilities.incarnation)

    def _queues(self, missing_topics_allowed: bool) -> list[MessageQueue]:
        self._renew_routes()
        found: list[MessageQueue] = []
        for topic in self._subscription.topics:
            try:
                found += filter(self._subscription.includes, self._client.subscribe_queues(topic))
            except TopicNotFound:
                if not missing_topics_allowed:
                    raise
        self._check_assigned(found)
        return found

    def _renew_routes(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._routed_ms >= ROUTE_MAX_AGE_MS:
            self._routed_ms = now_ms
            for topic in self._subscription.topics:
                self._client.expire_route(topic)

    def _check_assigned(self, found: list[MessageQueue]) -> None:
        missing = sorted((self._subscription.queues or frozenset()) - set(found))
        if missing:
            known = ", ".join(str(queue) for queue in found) or "none of those assigned"
            raise InvalidArgument(f"Queue {missing[0]}, named in assign, does not exist.", hint=f"There are: {known}.")

    def _offsets(
        self, code: RequestCode, queues: Iterable[MessageQueue], header: Callable[[MessageQueue], msgspec.Struct]
    ) -> dict[MessageQueue, int]:
        """Asks for one offset of each queue, all requests on the way before the first answer is awaited."""
        asked: Mapping[MessageQueue, Future[Response]] = {
            queue: self._client.broker(queue.broker_name).submit(code, header(queue), timeout_ms=OFFSET_TIMEOUT_MS)
            for queue in queues
        }
        return {
            queue: answer.result().raise_for_code().header(OffsetResponseHeader).offset
            for queue, answer in asked.items()
        }

    def _patiently(self, ask: Callable[[], T], *, besides: tuple[type[RmqError], ...] = ()) -> T:
        return patiently(ask, self._retry.pauses_ms, self._clock.sleep_ms, besides=besides)


def _max_header(queue: MessageQueue) -> msgspec.Struct:
    return GetMaxOffsetRequestHeader(queue.topic, queue.queue_id, bname=queue.broker_name)


def _min_header(queue: MessageQueue) -> msgspec.Struct:
    return GetMinOffsetRequestHeader(queue.topic, queue.queue_id, queue.broker_name)
