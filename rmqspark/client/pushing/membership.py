"""What makes a push consumer a member of its group, and the locks by which members that read in order know whose turn
it is (spec: requests, section 5; semantics, section 8.8).

Each call asks brokers, all before the first answer, and waits: several that hang must not take longer than one, or the
locks at all others would run out meanwhile.
"""

from __future__ import annotations

import logging
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.client.cluster.futures import failing, then
from rmqspark.client.cluster.group_reading import members
from rmqspark.errors import RmqError, Unreachable
from rmqspark.protocol.bodies.client import BROADCASTING, CLUSTERING, CONSUME_PASSIVELY, ConsumerData, HeartbeatData

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
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

    def announce(
        self, broker_names: Iterable[str], subscriptions: Iterable[Subscription]
    ) -> dict[str, RmqError | None]:
        """HEART_BEAT: it is there, and wants this. By broker what kept that from hearing it, None where nothing did."""
        data = ConsumerData(
            self.group,
            CONSUME_PASSIVELY,
            BROADCASTING if self.broadcasts else CLUSTERING,
            self.consume_from.wire_name,
            [subscription.data() for subscription in subscriptions],
        )
        heartbeat = HeartbeatData(clientID=self.cluster.client_id, consumerDataSet=[data])
        asked = {name: self._submit_heartbeat(name, heartbeat) for name in broker_names}
        return {name: _error_of(answer) for name, answer in asked.items()}

    def members(self, broker_names: Iterable[str]) -> dict[str, Collection[str] | None]:
        """The client ids of all members, as far as each of these brokers knows them; None for one that does not
        answer."""
        asked = {name: self._submit_members(name) for name in broker_names}
        return {name: self._known(name, answer) for name, answer in asked.items()}

    def leave(self, broker_names: Iterable[str]) -> None:
        """UNREGISTER_CLIENT at all of these before the first answer is awaited: the others need not wait to hear it
        from a connection that ends."""
        wait([self._submit_leave(name) for name in broker_names], GOOD_BYE_S)

    def lock(self, queues: Collection[MessageQueue]) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """LOCK_BATCH_MQ: takes or renews locks. Those that are held now, and those of which no broker told. Slaves are
        not asked, as by RocketMQ's clients: their masters would not know of it."""
        held: set[MessageQueue] = set()
        unknown: set[MessageQueue] = set()
        asked = []
        for name in sorted({queue.broker_name for queue in queues}):
            here = [queue for queue in queues if queue.broker_name == name]
            asked.append((name, here, self._submit_lock(name, here)))
        for name, here, answer in asked:
            try:
                held |= answer.result()
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

    def _submit_heartbeat(self, broker_name: str, heartbeat: HeartbeatData) -> Future[Any]:
        try:
            answer = self.cluster.broker(broker_name).submit_heartbeat(heartbeat)
        except RmqError as error:
            return failing(error)
        return then(answer, lambda response: response.raise_for_code())

    def _submit_members(self, broker_name: str) -> Future[list[str]]:
        try:
            return members(self.cluster.broker(broker_name), self.group)
        except RmqError as error:
            return failing(error)

    def _known(self, broker_name: str, answer: Future[list[str]]) -> Collection[str] | None:
        try:
            return set(answer.result())
        except RmqError as error:
            _log.debug("%s does not say who is in group %s: %s", broker_name, self.group, error)
            return None

    def _submit_lock(self, broker_name: str, queues: Collection[MessageQueue]) -> Future[set[MessageQueue]]:
        if self.cluster.is_headless(broker_name):
            return failing(Unreachable("Only a slave is there, which decides nothing.", address=broker_name))
        try:
            return self.cluster.broker(broker_name).submit_lock(self.group, self.cluster.client_id, queues)
        except RmqError as error:
            return failing(error)

    def _submit_leave(self, broker_name: str) -> Future[Any]:
        try:
            broker = self.cluster.broker(broker_name)
            return broker.submit_unregister(self.cluster.client_id, consumer_group=self.group)
        except RmqError as error:
            _log.debug("%s was not told that a member of group %s left: %s", broker_name, self.group, error)
            return failing(error)


def _error_of(answer: Future[Any]) -> RmqError | None:
    try:
        answer.result()
    except RmqError as error:
        return error
    return None
