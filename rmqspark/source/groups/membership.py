"""What makes a query a member of its group, and keeps it one while a long batch runs.

One daemon thread in the driver's process: several times in the life of a lease it says HEART_BEAT to the brokers and
renews what the query owns. It decides nothing: whether a lease was kept, the next request that counts finds out.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from rmqspark.client.cluster.group_reading import LEASES_TIMEOUT_MS, Member, lease, members
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.client import (
    CLUSTERING,
    CONSUME_ACTIVELY,
    SQL92,
    TAG,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
)
from rmqspark.rebalance.handover import Steps, renewal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue

LONGEST_PAUSE_S = 10.0
BEATS_IN_A_LEASE = 4

_log = logging.getLogger(__name__)


class Membership:
    """One run of one member of one group, which wants messages by `tags` or `sql`. `client` is used, never closed."""

    def __init__(self, client: ClusterClient, member: Member, tags: str | None, sql: str | None = None) -> None:
        self.member = member
        self._client = client
        # For a consumer of RocketMQ's in the same group a broker goes by what was said last, and here that may be this.
        self._wanted = (tags or "*", TAG) if sql is None else (sql, SQL92)
        self._topics: frozenset[str] = frozenset()
        self.reached: frozenset[str] = frozenset()
        """The brokers that heard of it when it was last announced, and lease queues: slaves do not."""
        self._brokers: frozenset[str] = frozenset()
        self._subscribed_ms = 0
        self._held: dict[MessageQueue, int] = {}
        self._pause_s = LONGEST_PAUSE_S
        self._changed = threading.Condition()
        self._ended = False
        self._thread: threading.Thread | None = None

    def announce(self, queues: Iterable[MessageQueue]) -> None:
        """Says to the brokers of these queues that it is there. Raises what the last of them raises, if all do."""
        topics = frozenset(queue.topic for queue in queues)
        if topics != self._topics:
            self._topics, self._subscribed_ms = topics, self._client.clock.now_ms()
        self._brokers = frozenset(queue.broker_name for queue in queues)
        failure, reached = None, set()
        for name in sorted(self._brokers):
            try:
                self._beat(name)
                if not self._client.broker(name).capabilities().is_slave:
                    reached.add(name)
            except RmqError as error:
                failure = error
        if failure is not None and not reached:
            raise failure
        self.reached = frozenset(reached)

    def others(self, brokers: Iterable[str]) -> list[str]:
        """The client ids of all members, its own among them, as the first of these brokers knows them that answers."""
        failure: RmqError | None = None
        for name in sorted(brokers):
            try:
                return members(self._client.broker(name), self.member.group).result()
            except RmqError as error:
                failure = error
        if failure is not None:
            raise failure
        return []

    def hold(self, leases: Mapping[MessageQueue, int], lease_ms: int) -> None:
        """What to renew from now on. A lease lasts `lease_ms`, 0 where no broker has said that yet."""
        with self._changed:
            self._held = dict(leases)
            self._pause_s = min(LONGEST_PAUSE_S, lease_ms / 1000 / BEATS_IN_A_LEASE) or LONGEST_PAUSE_S
            self._changed.notify_all()
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._run, name="rmqspark-membership", daemon=True)
                self._thread.start()

    def leave(self, *, release: bool) -> None:
        """Ends the renewals, and with `release` the leases at once; the group is told. What cannot be told runs out."""
        with self._changed:
            self._ended = True
            held = self._held if release else {}
            self._changed.notify_all()
        steps, leasing = Steps({}, held, []), {queue.broker_name for queue in held}
        for name in sorted(self._brokers):
            broker = self._client.broker(name)
            try:
                if name in leasing:
                    lease(broker, self.member, steps).result(LEASES_TIMEOUT_MS / 1000)
                broker.unregister_client(self.member.client_id, consumer_group=self.member.group)
            except (RmqError, TimeoutError) as error:
                _log.debug("%s was not told that %s is gone: %s", name, self.member, error)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended, self._pause_s)
                if self._ended:
                    return
                held = dict(self._held)
            for name in sorted(self._brokers):
                try:
                    self._beat(name)
                    self._renew(name, held)
                except RmqError as error:
                    _log.debug("%s renews nothing for %s: %s", name, self.member, error)

    def _beat(self, broker_name: str) -> None:
        expression, kind = self._wanted
        subscriptions = [
            SubscriptionData(topic, expression, subVersion=self._subscribed_ms, expressionType=kind)
            for topic in sorted(self._topics)
        ]
        data = ConsumerData(self.member.group, CONSUME_ACTIVELY, CLUSTERING, subscriptionDataSet=subscriptions)
        self._client.broker(broker_name).heartbeat(
            HeartbeatData(clientID=self.member.client_id, consumerDataSet=[data])
        )

    def _renew(self, broker_name: str, held: Mapping[MessageQueue, int]) -> None:
        there = {queue: number for queue, number in held.items() if queue.broker_name == broker_name}
        if there:
            lease(self._client.broker(broker_name), self.member, renewal(there)).result()
