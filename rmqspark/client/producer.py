"""Sends messages. `outgoing` makes them ready, `selection` picks queues, `delivery` tries; this puts them together."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from rmqspark.client.arguments import takes_what_it_says
from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster.cluster_client import ClusterClient
from rmqspark.client.cluster.identity import MessageIds
from rmqspark.client.sending.delivery import Delivery, Parcel
from rmqspark.client.sending.message_kinds import check_messages
from rmqspark.client.sending.outgoing import SendConfig, outgoing, outgoing_batch
from rmqspark.client.sending.recall import recall
from rmqspark.client.sending.selection import Target
from rmqspark.errors import InvalidMessage
from rmqspark.model import Message
from rmqspark.protocol.names import check_group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import SendReceipt
    from rmqspark.remoting.access import Access

DEFAULT_GROUP = "rmqspark-producer"
RESEND_THREADS = 4  # for further tries of asynchronous sends; started only when one fails


@takes_what_it_says
class Producer(ClosedByWith):
    """Sends messages to a cluster. Safe to share between threads; a context manager.

    A message goes to the queues of its topic in turn, or to `queue` (a queue id, or a MessageQueue), or to the queue
    of its `shard`, which is the same on every machine, and for Java's SelectMessageQueueByHash. A send that failed is
    tried twice more within its timeout, on another broker where the queue was ours to choose; the broker that failed is
    then left alone for ten seconds by messages that may go anywhere.
    """

    _kind = "producer"

    def __init__(
        self,
        namesrv: str | None = None,
        group: str = DEFAULT_GROUP,
        *,
        config: SendConfig | None = None,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        access: Access | None = None,
    ) -> None:
        """`namesrv` is "h1:9876;h2:9876"; None takes $RMQ_NAMESRV, $NAMESRV_ADDR, or this machine. `access` None is
        what the environment says."""
        self.group = check_group(group)
        self._config = config or SendConfig()
        self._cluster = ClusterClient(namesrv, clock=clock, entropy=entropy, access=access)
        self._ids = MessageIds(self._cluster)
        self._delivery = Delivery(
            self._cluster,
            group,
            1 + self._config.retry_times_when_send_failed,
            avoid_slow=self._config.send_latency_fault_enable,
            try_timeout_ms=self._config.send_msg_max_timeout_per_request,
        )
        self._begin()
        self._cluster.heartbeats.add_producer(group)

    def send(
        self,
        message: Message,
        *,
        queue: int | MessageQueue | None = None,
        shard: str | None = None,
        timeout_ms: int | None = None,
    ) -> SendReceipt:
        """Sends and waits until it is stored.

        A receipt whose status is not OK means: stored, but not yet as safe as the broker's mode promises. Raises
        InvalidMessage for what cannot be sent, TopicNotFound, and after the last try what went wrong in it; after a
        RequestTimeout or ConnectionLost the message may have been stored all the same.
        """
        parcel = self._parcel(message, shard)
        return self._delivery.deliver(parcel, Target(queue, shard), self._config.timeout(timeout_ms))[0]

    def send_async(
        self,
        message: Message,
        *,
        queue: int | MessageQueue | None = None,
        shard: str | None = None,
        timeout_ms: int | None = None,
    ) -> Future[SendReceipt]:
        """Sends without waiting; the future ends as `send` would. Further tries are made in the background.

        Its callbacks run on the thread that brings the broker's answers: they may send with `send_async`, and wait for
        nothing.

        The first send to a topic may wait for its route, and those that come while a connection is made for a moment,
        until the ones before them are out. Messages sent one after the other to one queue are stored in this order
        unless one of them needs another try.
        """
        parcel = self._parcel(message, shard)
        if self._pid != os.getpid():
            self._begin()
        timeout_ms = self._config.timeout(timeout_ms)
        future = self._delivery.deliver_later(parcel, Target(queue, shard), timeout_ms, self._resend)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    def send_oneway(
        self, message: Message, *, queue: int | MessageQueue | None = None, shard: str | None = None
    ) -> None:
        """Sends and forgets: no receipt, no second try, no word of what the broker made of it."""
        self._delivery.deliver_oneway(self._parcel(message, shard), Target(queue, shard))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: int | MessageQueue | None = None,
        shard: str | None = None,
        timeout_ms: int | None = None,
    ) -> list[SendReceipt]:
        """Sends all in one request to one queue, stored together or not at all; one receipt per message, in order.

        They must have one topic, the same `wait_stored`, no delay, and no more than 4 MiB together.
        """
        self._check_open()
        check_messages(messages)
        unique_ids = tuple(self._ids.next() for _ in messages)
        contents = outgoing_batch(messages, unique_ids, self._config, shard)
        parcel = Parcel(messages[0].topic, unique_ids, contents, batch=True)
        return self._delivery.deliver(parcel, Target(queue, shard), self._config.timeout(timeout_ms))

    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Takes back a message that waits for its time, by the handle of its receipt; returns its `msg_id`.

        When this returns, it will not be delivered, unless it has been already: nobody looks. Raises NotRecallable for
        what is no handle of this topic, and once the time has come; NoPermission where brokers do not allow it
        (`recall_message_enable`, which is off in RocketMQ unless set); TopicNotFound.
        """
        self._check_open()
        return recall(self._cluster, self.group, topic, recall_handle, self._config.timeout(timeout_ms))

    def close(self) -> None:
        """Waits for asynchronous sends for up to `send_msg_timeout`, tells the brokers good-bye and closes the
        connections: a send that is not answered by then may have arrived, and ends with ConnectionLost. Again: does
        nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._pid == os.getpid():
                wait(tuple(self._under_way), self._config.send_msg_timeout / 1000)
            self._cluster.heartbeats.remove_producer(self.group)
        finally:
            self._cluster.close()
            self._resend.shutdown(wait=False)

    def _begin(self) -> None:
        """Asynchronous sends, in this process: one that is forked has its parent's, and none of the threads that could
        end them."""
        self._resend = ThreadPoolExecutor(RESEND_THREADS, thread_name_prefix="rmqspark-resend")
        self._under_way: set[Future[SendReceipt]] = set()
        self._pid = os.getpid()

    def _parcel(self, message: Message, shard: str | None) -> Parcel:
        self._check_open()
        if not isinstance(message, Message):
            raise InvalidMessage(f"send takes a Message, not {message!r:.80}.", hint='Message("orders", b"...")')
        unique_id = self._ids.next()
        return Parcel(message.topic, (unique_id,), outgoing(message, unique_id, self._config, shard))
