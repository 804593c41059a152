"""Asks brokers for what comes next in a queue, and makes of each answer what its consumer goes by."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rmqspark.client.broker_client import SUSPEND_MS, PullResult, PullStatus
from rmqspark.client.pushing.listening import as_sent
from rmqspark.client.received import received_all
from rmqspark.errors import RmqError, ServerFault
from rmqspark.protocol.names import retry_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.pushing.process_queue import ProcessQueue
    from rmqspark.client.pushing.subscription import Subscription
    from rmqspark.model import ReceivedMessage

_RESET: Final = "OFFSET_RESET"  # the broker's word for "an operator moved this group" (spec: requests, section 7)
_TOO_QUICK_MS: Final = 200
_UNSUBSCRIBED_REST_MS: Final = 1_000  # until the queue is taken away

_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """Messages, perhaps none; the next pull begins at `next_offset`, after a rest."""

    messages: list[ReceivedMessage]
    next_offset: int
    rest_ms: int = 0


class Moved(NamedTuple):
    """The queue has no such offset, or an operator has set the group elsewhere."""

    next_offset: int
    is_reset: bool
    reason: str


class Gone(NamedTuple):
    """Nothing could be read."""

    error: RmqError


Pulled: TypeAlias = Found | Moved | Gone


class Pulls:
    """For one group. `subscriptions` are those of the moment, by topic. With `commits` each pull tells how far its
    queue is consumed: so brokers are never far behind, and whoever takes a queue over has little to do again."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: str,
        subscriptions: Mapping[str, Subscription],
        batch_size: int,
        *,
        commits: bool,
    ) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._group = group
        self._retry_topic = retry_topic(group)
        self._subscriptions = subscriptions
        self._batch_size = batch_size
        self._commits = commits

    def ask(self, held: ProcessQueue, tell: Callable[[Pulled], None]) -> None:
        """Sends a pull that its broker may hold until something comes; `tell` hears what became of it, on any thread.

        What is wanted goes with each pull: it need not wait until the broker has had a heartbeat.
        """
        queue, queue_offset = held.queue, held.next_offset
        subscription = self._subscriptions.get(queue.topic)
        if subscription is None:
            tell(Found([], queue_offset, _UNSUBSCRIBED_REST_MS))
            return
        asked_ms = self._clock.monotonic_ms()
        try:
            future = self._cluster.broker(queue.broker_name).submit_pull(
                queue,
                queue_offset,
                group=self._group,
                max_count=self._batch_size,
                tags=subscription.tags,
                sql=subscription.sql,
                suspend_ms=SUSPEND_MS,
                commit_offset=held.commit_offset if self._commits else 0,
            )
        except RmqError as error:
            tell(Gone(error))
            return
        future.add_done_callback(
            lambda done: tell(self._pulled(done, subscription, queue.broker_name, queue_offset, asked_ms))
        )

    def _pulled(
        self, done: Future[PullResult], subscription: Subscription, broker_name: str, queue_offset: int, asked_ms: int
    ) -> Pulled:
        try:
            return self._outcome(done.result(), subscription, broker_name, queue_offset, asked_ms)
        except RmqError as error:
            return Gone(error)
        except Exception as error:  # noqa: BLE001 - a bug: told, and the queue tried again, or it would stand still
            _log.exception("What %s answered to a pull could not be understood", broker_name)
            return Gone(ServerFault(f"{type(error).__name__}: {error}"))

    def _outcome(
        self, result: PullResult, subscription: Subscription, broker_name: str, queue_offset: int, asked_ms: int
    ) -> Pulled:
        if result.status is PullStatus.OFFSET_MOVED:
            reason = f"it has {result.min_offset} to {result.max_offset}, not {queue_offset} ({result.reason})"
            return Moved(result.next_offset, result.reason == _RESET, reason)
        if result.status is not PullStatus.FOUND:
            return Found([], result.next_offset, self._rest_ms(result, queue_offset, asked_ms))
        messages = received_all(result.records, broker_name)
        wanted = filter(subscription.accepts, messages) if subscription.accepts else messages
        return Found([as_sent(each, self._retry_topic) for each in wanted], result.next_offset)

    def _rest_ms(self, result: PullResult, queue_offset: int, asked_ms: int) -> int:
        """A broker that holds no pulls, since it is shutting down perhaps, is not asked without a pause."""
        was_quick = self._clock.monotonic_ms() - asked_ms < _TOO_QUICK_MS
        return _TOO_QUICK_MS if was_quick and result.next_offset == queue_offset else 0
