"""Calls a function with each message of the queues that fall to this member of a group.

`pushing` has the parts: the rebalancer finds out which queues those are, the pump reads them and commits what was
consumed, the workers run the listener, and what that fails at is given back to the brokers. This puts them together.
RocketMQ's push consumers may be members of the same group.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rmqspark.client.arguments import takes_what_it_says
from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.pushing.accepted import (
    MOST_IN_A_BATCH,
    MOST_THREADS,
    between,
    checked_listener,
    checked_strategy,
    checked_times,
)
from rmqspark.client.pushing.broker_requests import BrokerRequests
from rmqspark.client.pushing.config import PushConfig
from rmqspark.client.pushing.inspection import Inspection
from rmqspark.client.pushing.listening import Listening, Locked, give_back, hold_up, pass_by
from rmqspark.client.pushing.lookout import Lookout
from rmqspark.client.pushing.membership import Membership
from rmqspark.client.pushing.offsets import GroupOffsets, LocalOffsets, local_offsets_path
from rmqspark.client.pushing.pulls import BEGINS_ANEW, Pulls
from rmqspark.client.pushing.pump import Pump
from rmqspark.client.pushing.rebalancer import Division, Rebalancer
from rmqspark.client.pushing.rules import Rules
from rmqspark.client.pushing.send_backs import SendBacks
from rmqspark.client.pushing.starts import Starts
from rmqspark.client.pushing.subscription import ConsumeFrom, Subscription
from rmqspark.errors import InvalidArgument
from rmqspark.protocol.bodies.client import BROADCASTING, CLUSTERING
from rmqspark.protocol.names import check_group, retry_topic
from rmqspark.rebalance.strategies import Strategy  # noqa: TC001 - takes_what_it_says reads it

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from rmqspark.client.pushing.accepted import Call
    from rmqspark.client.pushing.offsets import Offsets
    from rmqspark.client.pushing.workers import Consumes
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.errors import RmqError
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.access import Access

FIRST_LOOK_S = 10.0
JOIN_S = 1.0


@takes_what_it_says
class PushConsumer(ClosedByWith):
    """Consumes topics as a member of a group, which divides their queues. A context manager; safe to share.

    The listener is called with each message on one of `consume_threads` threads. If it returns, the message is
    consumed; if it raises, the message comes again: after 10 s, 30 s and so on up to two hours, and after
    `max_reconsume_times` it is among the dead letters. With `ordered` each queue's messages come one after the other,
    the next when the one before is consumed; one that fails is tried again every second.

    At least once: what is committed is always consumed, so whoever dies leaves what it had begun with to be consumed
    again.
    """

    _kind = "consumer"

    def __init__(
        self,
        namesrv: str | None = None,
        group: str = "",
        *,
        listener: Callable[..., object],
        ordered: bool = False,
        broadcasting: bool = False,
        consume_from: str | int = "latest",
        consume_threads: int = 20,
        consume_message_batch_max_size: int | None = None,
        max_reconsume_times: int = -1,
        allocate_strategy: str | Strategy = "averagely",
        config: PushConfig | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        access: Access | None = None,
    ) -> None:
        """`listener` takes one ReceivedMessage; with `consume_message_batch_max_size` a list of up to so many of one
        queue, which is consumed, or comes again, as a whole. `consume_from` is where a group begins that has consumed
        nothing yet: "latest", "earliest", or a time in ms since 1970. `max_reconsume_times` -1 is 16, and without end
        where `ordered`. `allocate_strategy` is one of RocketMQ's, the same for all members. With `broadcasting` every
        member gets all messages, whatever it fails at only once, and keeps its offsets in a file of its machine.
        `access` as in `Producer`."""
        self.group = check_group(group)
        if ordered and broadcasting:
            raise InvalidArgument("ordered and broadcasting exclude each other.", hint="Who broadcasts locks no queue.")
        max_times = checked_times(max_reconsume_times, ordered=ordered)
        threads = between("consume_threads", consume_threads, 1, MOST_THREADS)
        batch_size = consume_message_batch_max_size
        size = 1 if batch_size is None else between("consume_message_batch_max_size", batch_size, 1, MOST_IN_A_BATCH)
        call = checked_listener(listener, takes_list=batch_size is not None)
        start, strategy = ConsumeFrom.parse(consume_from), checked_strategy(allocate_strategy)
        config = config or PushConfig()
        self._cluster = cluster = ClusterClient(
            namesrv,
            clock=clock,
            entropy=entropy,
            on_request=lambda _, command, body: self._requests.answer(command, body),
            instance_name=config.instance_name if broadcasting else None,
            access=access,
        )
        self._subscriptions: dict[str, Subscription] = {}
        if not broadcasting:
            self._subscribe(retry_topic(group), "*", None)
        self._membership = Membership(cluster, group, start, broadcasting)
        self._lookout = Lookout(cluster, self._membership, asks_for_members=not broadcasting)
        offsets: Offsets = GroupOffsets(cluster, group)
        if broadcasting:
            offsets = LocalOffsets(local_offsets_path(config.local_offset_store_dir, cluster.client_id, group))
        ways = SendBacks(cluster, group, max_times)
        self._pump = Pump(
            Pulls(cluster, group, self._subscriptions, config.pull_batch_size, commits=not broadcasting),
            offsets,
            self._consumes(call, config, ways, max_times, ordered=ordered, broadcasting=broadcasting),
            Rules(
                config,
                threads,
                size,
                self._membership.unlock if ordered else None,
                None if ordered or broadcasting else ways.give_back_late,
            ),
            cluster.clock,
            on_trouble=self._look_again,
            farewell=self._leave,
        )
        inspection = Inspection(
            cluster,
            group,
            self._subscriptions,
            self._pump,
            call,
            {
                "consumerGroup": group,
                "messageModel": BROADCASTING if broadcasting else CLUSTERING,
                "consumeFromWhere": start.wire_name,
                "consumeThreadMin": threads,
                "consumeThreadMax": threads,
                "consumeMessageBatchMaxSize": size,
                "maxReconsumeTimes": max_reconsume_times,
                **config.by_java_name(),
            },
            is_ordered=ordered,
        )
        self._rebalancer = Rebalancer(
            self._lookout,
            self._membership,
            self._subscriptions,
            Starts(cluster, offsets, start),
            self._pump,
            Division(None if broadcasting else strategy, ordered, config.rebalance_interval),
            cluster.clock,
        )
        self._requests = BrokerRequests(group, self._rebalancer, self._pump, inspection)
        self._turn = threading.Lock()
        self._started = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def subscribe(self, topic: str, tags: str = "*", sql: str | None = None) -> None:
        """Consumes a topic, too; before the start or after it. All members of a group should subscribe to the same.

        `tags` is an expression like "paid || shipped"; `sql`, instead, one like "price > 10 AND region = 'EU'" over the
        messages' properties. Of a topic that does not exist yet everything is consumed when it does. When this returns,
        or, before the start, when `start` does, what is sent from then on is consumed by the group. Raises InvalidName,
        InvalidFilter, and Unreachable where no name server answers: then it is subscribed all the same, and consumed
        when one does.
        """
        with self._turn:
            self._check_open()
            self._subscribe(topic, tags, sql)
            is_started = self._started
        if is_started:
            self._rebalancer.look(FIRST_LOOK_S)

    def unsubscribe(self, topic: str) -> None:
        """Consumes the topic no more; what it has begun with is consumed to its end."""
        with self._turn:
            self._check_open()
            self._subscriptions.pop(topic, None)
            is_started = self._started
        if is_started:
            self._rebalancer.look(FIRST_LOOK_S)

    def start(self) -> None:
        """Begins to consume; `with` does it. Raises Unreachable where no name server answers, and is closed then."""
        with self._turn:
            self._check_open()
            if self._started:
                return
            self._started = True
            self._pump.start()
            self._rebalancer.start()
        try:
            self._rebalancer.look(FIRST_LOOK_S)
        except BaseException:  # Ctrl-C, too: who could not start leaves no threads, and no member of the group, behind
            self.close()
            raise

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are this member's now, its group's retry queue among them."""
        return self._rebalancer.assignment

    def close(self) -> None:
        """Calls the listener no more, waits for calls under way, commits, and leaves the group, whose other members
        take over at once. Again: does nothing.

        It waits up to ten seconds (config: await_termination_millis_when_shutdown): what is not consumed by then comes
        again. A listener may call it, and does not wait: the consumer closes when that call has returned.
        """
        with self._turn:
            was_closed, self._closed = self._closed, True
        if not self._started:
            self._cluster.close()
            return
        if not was_closed:
            self._rebalancer.stop()
            self._rebalancer.join(JOIN_S)  # or it would lock queues that nobody unlocks
            self._pump.close()
        if self._pump.join(JOIN_S):
            self._rebalancer.join(JOIN_S)

    # --- how ---------------------------------------------------------------------------------------------------------

    def _subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        self._subscriptions[topic] = Subscription.to(topic, tags, sql, self._cluster.clock.now_ms())

    def _consumes(
        self, call: Call, config: PushConfig, ways: SendBacks, max_times: int, *, ordered: bool, broadcasting: bool
    ) -> Consumes:
        """Calls the listener, and knows what becomes of messages that it fails at."""
        if broadcasting:
            return Listening(call, pass_by)
        if not ordered:
            return Listening(call, give_back(ways))
        pause_ms = config.suspend_current_queue_time_millis
        return Locked(Listening(call, hold_up(ways, max_times, pause_ms)), self._cluster.clock)

    def _look_again(self, queue: MessageQueue, error: RmqError) -> None:
        """A queue that cannot be read may be gone, or its broker may have forgotten this member."""
        self._cluster.expire_route(queue.topic)
        if isinstance(error, BEGINS_ANEW):
            self._rebalancer.lose(queue)
        else:
            self._rebalancer.wake()

    def _leave(self) -> None:
        self._rebalancer.stop()
        self._rebalancer.let_go()
        self._membership.leave(sorted(self._lookout.brokers))
        self._cluster.close()
