"""What makes a push consumer a member of its group, and the locks by which members that read in order know whose turn
it is. Each call asks brokers and waits (spec: requests, section 5; semantics, section 8.8)."""

from __future__ import annotations

import logging
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.client.futures import failing
from rmqspark.client.group_reading import members
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.client import BROADCASTING, CLUSTERING, CONSUME_PASSIVELY, ConsumerData, HeartbeatData

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from concurrent.futures import Future

    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.client.pushing.subscription import ConsumeFrom, Subscription
    from rmqspark.message_queue import MessageQueue

GOOD_BYE_S = 3.0  # for brokers to hear of it; they also notice when the connection ends

_log = logging.getLogger(__name__)


class Membership(NamedTuple):
    """Of one client in one group."""

    cluster: ClusterClient
    group: str
    consume_from: ConsumeFrom
    broadcasts: bool = False

    def announce(self, broker_name: str, subscriptions: Iterable[Subscription]) -> None:
        """HEART_BEAT: it is there, and wants this. Raises what the broker, or its absence, does."""
        data = ConsumerData(
            self.group,
            CONSUME_PASSIVELY,
            BROADCASTING if self.broadcasts else CLUSTERING,
            self.consume_from.wire_name,
            [subscription.data() for subscription in subscriptions],
        )
        heartbeat = HeartbeatData(clientID=self.cluster.client_id, consumerDataSet=[data])
        self.cluster.broker(broker_name).heartbeat(heartbeat)

    def members(self, broker_name: str) -> Collection[str] | None:
        """The client ids of all members, as far as this broker knows them; None if it does not answer."""
        try:
            return set(members(self.cluster.broker(broker_name), self.group))
        except RmqError as error:
            _log.debug("%s does not say who is in group %s: %s", broker_name, self.group, error)
            return None

    def leave(self, broker_names: Iterable[str]) -> None:
        """UNREGISTER_CLIENT at all of these before the first answer is awaited: the others need not wait to hear it
        from a connection that ends."""
        wait([self._submit_leave(name) for name in broker_names], GOOD_BYE_S)

    def lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """LOCK_BATCH_MQ: takes or renews locks. Those that are held now, and those of which no broker told."""
        held: set[MessageQueue] = set()
        unknown: set[MessageQueue] = set()
        for name in sorted({queue.broker_name for queue in queues}):
            here = [queue for queue in queues if queue.broker_name == name]
            try:
                held |= self.cluster.broker(name).lock(self.group, self.cluster.client_id, here)
            except RmqError as error:
                unknown.update(here)
                _log.debug("%s locks nothing for group %s: %s", name, self.group, error)
        return held, unknown

    def unlock(self, queue: MessageQueue) -> Future[Any]:
        """UNLOCK_BATCH_MQ, without waiting. Where the broker cannot be told, a lock ends by itself after a minute."""
        try:
            return self.cluster.broker(queue.broker_name).submit_unlock(self.group, self.cluster.client_id, [queue])
        except RmqError as error:
            return failing(error)

    def _submit_leave(self, broker_name: str) -> Future[Any]:
        try:
            broker = self.cluster.broker(broker_name)
            return broker.submit_unregister(self.cluster.client_id, consumer_group=self.group)
        except RmqError as error:
            _log.debug("%s was not told that a member of group %s left: %s", broker_name, self.group, error)
            return failing(error)
