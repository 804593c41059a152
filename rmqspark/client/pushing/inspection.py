"""What brokers ask a push consumer on behalf of operators, answered as RocketMQ's consumers answer it.

mqadmin's consumerStatus asks GET_CONSUMER_RUNNING_INFO, its getConsumerStatus GET_CONSUMER_STATUS_FROM_CLIENT, and its
queryMsgById with -g and -d CONSUME_MESSAGE_DIRECTLY: the listener is called with a message again, on a thread of its
own, and nothing comes of it but the answer. RocketMQ: ClientRemotingProcessor, DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

import sys
import threading
import traceback
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.futures import then
from rmqspark.client.pulling.received import received
from rmqspark.client.pushing.instant import Instant
from rmqspark.client.pushing.listening import as_sent
from rmqspark.client.pushing.process_queue import LOCK_LIVE_MS
from rmqspark.errors import Busy, ServerFault
from rmqspark.protocol.bodies.admin import (
    ConsumeMessageDirectlyResult,
    ConsumerRunningInfo,
    ConsumerStatusBody,
    ProcessQueueInfo,
)
from rmqspark.protocol.bodies.client import CONSUME_PASSIVELY
from rmqspark.protocol.codes import VERSION_NAME
from rmqspark.protocol.names import retry_topic
from rmqspark.protocol.records.record import decode_record
from rmqspark.remoting.reply import Reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.pushing.figures import Figures
    from rmqspark.client.pushing.process_queue import ProcessQueue
    from rmqspark.client.pushing.pump import Pump
    from rmqspark.client.pushing.subscription import Subscription
    from rmqspark.model import ReceivedMessage

_MEBIBYTE: Final = 1 << 20


class Inspection:
    """Of one consumer. `call` is its listener, `settings` are its properties under RocketMQ's names."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: str,
        subscriptions: Mapping[str, Subscription],
        pump: Pump,
        call: Callable[[list[ReceivedMessage]], object],
        settings: Mapping[str, object],
        *,
        is_ordered: bool,
    ) -> None:
        self._cluster = cluster
        self._group = group
        self._subscriptions = subscriptions
        self._pump = pump
        self._call = call
        self._is_ordered = is_ordered
        self._settings = settings
        self._started_ms = cluster.clock.now_ms()
        self._calling = threading.Lock()

    def running_info(self, group: str, *, with_threads: bool) -> Future[Reply]:
        """What it is, holds, and how fast it goes."""
        self._check_group(group)
        stacks = thread_stacks() if with_threads else None

        def info(held: Iterable[ProcessQueue], figures: Figures) -> Reply:
            now = Instant.now(self._cluster.clock)
            subscriptions = sorted(self._subscriptions.items())
            return Reply(
                body=ConsumerRunningInfo(
                    properties=self._properties(),
                    subscriptionSet=[subscription.data() for _, subscription in subscriptions],
                    mqTable={each.queue: queue_info(each, now, is_ordered=self._is_ordered) for each in held},
                    statusTable={topic: figures.status(topic, now.monotonic_ms) for topic, _ in subscriptions},
                    jstack=stacks,
                ).encode()
            )

        return self._pump.look(info)

    def status(self, group: str, topic: str) -> Future[Reply]:
        """How far the queues of a topic are consumed; none for another group."""

        def body(held: Iterable[ProcessQueue], _: Figures) -> Reply:
            ours = [each for each in held if each.queue.topic == topic and group == self._group]
            return Reply(body=ConsumerStatusBody({each.queue: each.commit_offset for each in ours}).encode())

        return self._pump.look(body)

    def consume_directly(self, group: str, record: bytes, broker_name: str) -> Future[Reply]:
        """What the listener makes of a message. Raises Busy while it is asked about another."""
        self._check_group(group)
        message = as_sent(received(decode_record(record), broker_name), retry_topic(group))
        if not self._calling.acquire(blocking=False):
            raise Busy("The listener is being called with another message directly.")
        result: Future[ConsumeMessageDirectlyResult] = Future()

        def consume() -> None:
            try:
                result.set_result(self._consumed(message))
            finally:
                self._calling.release()

        threading.Thread(target=consume, name="rmqspark-consume-directly", daemon=True).start()
        return then(result, lambda done: Reply(body=done.encode()))

    def _consumed(self, message: ReceivedMessage) -> ConsumeMessageDirectlyResult:
        clock = self._cluster.clock
        began_ms, outcome, remark = clock.monotonic_ms(), "CR_SUCCESS", None
        try:
            self._call([message])
        except BaseException as error:  # noqa: BLE001 - a user's code, sys.exit() in it too: told to whoever asked
            outcome, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}, {error}"
        spent_ms = clock.monotonic_ms() - began_ms
        return ConsumeMessageDirectlyResult(outcome, self._is_ordered, remark=remark, spentTimeMills=spent_ms)

    def _properties(self) -> dict[str, str]:
        own = {
            "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in self._cluster.name_servers.addresses),
            "PROP_THREADPOOL_CORE_SIZE": self._settings.get("consumeThreadMin", 0),
            "PROP_CONSUMEORDERLY": self._is_ordered,
            "PROP_CONSUME_TYPE": CONSUME_PASSIVELY,
            "PROP_CLIENT_VERSION": VERSION_NAME,
            "PROP_CONSUMER_START_TIMESTAMP": self._started_ms,
        }
        return {name: java_text(value) for name, value in {**self._settings, **own}.items()}

    def _check_group(self, group: str) -> None:
        if group != self._group:
            raise ServerFault(f"The Consumer Group <{group}> not exist in this consumer")  # RocketMQ's words


def queue_info(held: ProcessQueue, now: Instant, *, is_ordered: bool) -> ProcessQueueInfo:
    """In order, what the listener has is told apart from what waits."""
    offsets = held.offsets()
    taken_count = len(offsets) - held.waiting if is_ordered else 0
    taken, waiting = offsets[:taken_count], offsets[taken_count:]
    is_locked = is_ordered and not held.locked_until.is_past(now)
    return ProcessQueueInfo(
        commitOffset=held.commit_offset,
        cachedMsgMinOffset=waiting[0] if waiting else 0,
        cachedMsgMaxOffset=waiting[-1] if waiting else 0,
        cachedMsgCount=len(waiting),
        cachedMsgSizeInMiB=held.size_bytes // _MEBIBYTE,
        transactionMsgMinOffset=taken[0] if taken else 0,
        transactionMsgMaxOffset=taken[-1] if taken else 0,
        transactionMsgCount=len(taken),
        locked=is_locked,
        lastLockTimestamp=held.locked_until.wall_ms - LOCK_LIVE_MS if is_locked else 0,
        droped=held.dropped,
        lastPullTimestamp=now.wall(held.asked_ms),
        lastConsumeTimestamp=now.wall(held.consumed_ms),
    )


def java_text(value: object) -> str:
    """As Java's String.valueOf has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def thread_stacks() -> str:
    """What every thread is at, in the form of RocketMQ's jstack."""
    frames = sys._current_frames()
    lines = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            stack = reversed(traceback.extract_stack(frame))
            lines.append(f"{thread.name:<40}TID: {thread.ident} STATE: RUNNABLE")
            lines += [f"{thread.name:<40}{each.name}({each.filename}:{each.lineno})" for each in stack]
            lines.append("")
    return "\n".join(lines)
