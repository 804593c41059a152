"""Brings one request of messages to a broker: chooses the queue, tries, tries again, reads the receipt.

Spec: semantics, section 4 (RocketMQ's DefaultMQProducerImpl.sendDefaultImpl). All tries share the caller's timeout,
each gets what is left of it. Connection errors, timeouts and the retriable response codes are tried again: on another
broker where the queue was ours to choose, on the same queue where the caller chose it. Everything else is the answer.
A broker that failed is then left alone for a while by all sends that may choose (`latency_faults`).

Beyond RocketMQ, a first try that finds no such queue is tried once more by a fresh route, unless the caller named the
queue: the topic has fewer queues than when the route was fetched.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.client.cluster.futures import UsersFuture, failing, or_else, then
from rmqspark.client.sending.latency_faults import LatencyFaults
from rmqspark.client.sending.selection import RoundRobin, Target
from rmqspark.errors import (
    AlreadyClosed,
    Busy,
    DecodeError,
    GoingAway,
    InvalidQueue,
    NotWritable,
    RequestTimeout,
    RmqError,
    ServerFault,
    Unreachable,
)
from rmqspark.model import SendReceipt, SendStatus
from rmqspark.protocol.codes import ResponseCode
from rmqspark.protocol.faults import PRODUCER_RETRY_CODES, from_response, to_response
from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2, SendMessageResponseHeader
from rmqspark.protocol.names import AUTO_CREATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.sending.outgoing import Outgoing
    from rmqspark.message_queue import MessageQueue
    from rmqspark.remoting.response import Response

DEFAULT_TOPIC_QUEUES = 4  # RocketMQ's defaultTopicQueueNums: how many an auto-created topic gets
_BROKER_AT_FAULT = (Unreachable, RequestTimeout, Busy, NotWritable, GoingAway, ServerFault)
_STATUS = {
    int(ResponseCode.SUCCESS): SendStatus.OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
}


class Parcel(NamedTuple):
    """What is delivered, the same for each try: one message, or a batch with an id for each of its messages."""

    topic: str
    unique_ids: tuple[str, ...]
    contents: Outgoing
    batch: bool = False


class Delivery:
    """Delivers the parcels of one producer group. Safe to share between threads."""

    def __init__(
        self,
        cluster: ClusterClient,
        group: str,
        tries: int,
        *,
        avoid_slow: bool = False,
        try_timeout_ms: int = 0,
        worth_another: Callable[[RmqError], bool] | None = None,
    ) -> None:
        """`try_timeout_ms` is the longest for a try that another may follow; 0 or less: all the time that is left.
        `worth_another` decides which failures are tried again; None: as RocketMQ (`worth_another_try`)."""
        self._worth_another = worth_another or worth_another_try
        self._cluster = cluster
        self._clock = cluster.clock
        self._faults = LatencyFaults(avoid_slow=avoid_slow)
        self._group = group
        self._tries = tries
        self._try_timeout_ms = try_timeout_ms
        self._round_robin = RoundRobin(cluster.entropy)

    def deliver(self, parcel: Parcel, target: Target, timeout_ms: int) -> list[SendReceipt]:
        """Tries until it is stored, the tries are used up or the time is over; then raises what went wrong last."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        queue, _ = self._first_queue(parcel.topic, target, deadline_ms, timeout_ms)
        return self._try(parcel, target, queue, deadline_ms, failed=0)

    def deliver_later(
        self, parcel: Parcel, target: Target, timeout_ms: int, second_tries: Executor
    ) -> Future[SendReceipt]:
        """Sends one message and returns; further tries, should they be needed, run on a thread of `second_tries`."""
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        queue, began_ms = self._first_queue(parcel.topic, target, deadline_ms, timeout_ms)

        def stored(response: Response) -> SendReceipt:
            (receipt,) = receipts(parcel, queue, response)
            self._note_answer(queue, began_ms)
            return receipt

        def second_try(error: BaseException) -> Future[SendReceipt]:
            if not isinstance(error, RmqError):
                raise error
            self._note_failure(queue, error)
            if self._try_again(error, 1, deadline_ms, target):
                with suppress(RuntimeError):  # it takes nothing any more: the producer was closed meanwhile
                    return second_tries.submit(self._second_try, parcel, target, queue, deadline_ms, error)
            raise error

        first_try = self._submit(parcel, queue, self._time_for_try(deadline_ms - began_ms, failed=0))
        return or_else(then(first_try, stored), second_try, UsersFuture())

    def deliver_oneway(self, parcel: Parcel, target: Target) -> None:
        """Writes it to the connection; whether it arrives, nobody hears. Never tried again."""
        queue = self._queue(parcel.topic, target, None)
        broker = self._cluster.broker(queue.broker_name)
        try:
            broker.send_oneway(self._header(parcel, queue), parcel.contents.body)
        except RmqError as error:
            self._note_failure(queue, error)
            raise
        self._cluster.heartbeats.reach(broker)

    def _second_try(
        self, parcel: Parcel, target: Target, refused: MessageQueue, deadline_ms: int, error: RmqError
    ) -> SendReceipt:
        """On a thread that may have had others to serve first."""
        if not self._has_time(deadline_ms):
            raise error
        queue = self._other_queue(error, parcel.topic, target, refused, deadline_ms)
        return self._try(parcel, target, queue, deadline_ms, failed=1)[0]

    def _try(
        self, parcel: Parcel, target: Target, queue: MessageQueue, deadline_ms: int, *, failed: int
    ) -> list[SendReceipt]:
        """From this queue on, after `failed` tries."""
        while True:
            began_ms = self._clock.monotonic_ms()
            try:
                timeout_ms = self._time_for_try(deadline_ms - began_ms, failed=failed)
                stored = receipts(parcel, queue, self._send(parcel, queue, timeout_ms))
                self._note_answer(queue, began_ms)
                return stored
            except RmqError as error:
                self._note_failure(queue, error)
                failed += 1
                if not self._try_again(error, failed, deadline_ms, target):
                    raise
                queue = self._other_queue(error, parcel.topic, target, queue, deadline_ms)

    def _first_queue(self, topic: str, target: Target, deadline_ms: int, timeout_ms: int) -> tuple[MessageQueue, int]:
        """And what time it is when it is known."""
        queue, now_ms = self._queue(topic, target, None), self._clock.monotonic_ms()
        if now_ms >= deadline_ms:
            raise Unreachable(
                f"It took more than {timeout_ms} ms to find out where topic {topic!r} is. Nothing was sent.",
                address=self._cluster.namesrv,
            )
        return queue, now_ms

    def _queue(self, topic: str, target: Target, avoid_broker: str | None) -> MessageQueue:
        queues = self._cluster.route_to_publish(topic).publish_queues
        if not queues:  # it may be written to again, or its master be back: RocketMQ's producers ask with each send
            self._cluster.expire_route(topic)
            queues = self._cluster.route_to_publish(topic).publish_queues
        if not target.chosen:
            preferred = self._faults.preferred(queues, self._clock.monotonic_ms(), avoid_broker)
            return self._round_robin.pick(topic, preferred)
        try:
            return target.choose(topic, queues)
        except InvalidQueue:  # the topic may have grown, or its broker come back, since the route was fetched
            self._cluster.expire_route(topic)
            return target.choose(topic, self._cluster.route_to_publish(topic).publish_queues)

    def _other_queue(
        self, error: RmqError, topic: str, target: Target, refused: MessageQueue, deadline_ms: int
    ) -> MessageQueue:
        """A queue for the next try, by a fresh route; where there is none left, or no time when it is known, the
        failure before is the story: that message may have been stored."""
        self._cluster.expire_route(topic)
        try:
            queue = self._queue(topic, target, refused.broker_name)
        except RmqError as nowhere:
            raise error from nowhere
        if not self._has_time(deadline_ms):
            raise error
        return queue

    def _send(self, parcel: Parcel, queue: MessageQueue, timeout_ms: int) -> Response:
        broker = self._cluster.broker(queue.broker_name)
        response = broker.send(self._header(parcel, queue), parcel.contents.body, timeout_ms=max(timeout_ms, 1))
        self._cluster.heartbeats.reach(broker)
        return response

    def _submit(self, parcel: Parcel, queue: MessageQueue, timeout_ms: int) -> Future[Response]:
        try:
            broker = self._cluster.broker(queue.broker_name)
            future = broker.submit_send(self._header(parcel, queue), parcel.contents.body, timeout_ms=timeout_ms)
            self._cluster.heartbeats.reach(broker)
        except RmqError as error:
            return failing(error)
        return future

    def _header(self, parcel: Parcel, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        contents = parcel.contents
        return SendMessageRequestHeaderV2(
            a=self._group,
            b=parcel.topic,
            c=AUTO_CREATE_TOPIC,
            d=DEFAULT_TOPIC_QUEUES,
            e=queue.queue_id,
            f=contents.sys_flag,
            g=self._clock.now_ms(),
            h=contents.flag,
            i=contents.properties,
            j=0,
            k=False,
            m=parcel.batch,
            n=queue.broker_name,
        )

    def _note_answer(self, queue: MessageQueue, began_ms: int) -> None:
        now_ms = self._clock.monotonic_ms()
        self._faults.answered(queue.broker_name, now_ms - began_ms, now_ms)

    def _note_failure(self, queue: MessageQueue, error: RmqError) -> None:
        """Also where no time is left for another try: the next message asks whether there are other brokers by now."""
        if isinstance(error, _BROKER_AT_FAULT):
            self._faults.failed(queue.broker_name, self._clock.monotonic_ms())
            self._cluster.expire_route(queue.topic)

    def _try_again(self, error: RmqError, failed: int, deadline_ms: int, target: Target) -> bool:
        if not self._has_time(deadline_ms):
            return False
        # Where one try is all there is, too: it went to a place that is not there, so no broker has failed.
        if failed == 1 and shows_stale_route(error, target):
            return True
        return failed < self._tries and self._worth_another(error)

    def _time_for_try(self, left_ms: int, *, failed: int) -> int:
        """Of what is left, where `failed` tries were made: one that another may follow can leave some to that."""
        is_bounded = self._try_timeout_ms > 0 and failed + 1 < self._tries
        return min(left_ms, self._try_timeout_ms) if is_bounded else left_ms

    def _has_time(self, deadline_ms: int) -> bool:
        """Else nothing is sent: it would be stored, and given up before its answer could come."""
        return self._clock.monotonic_ms() < deadline_ms


def shows_stale_route(error: RmqError, target: Target) -> bool:
    """Whether a broker may have refused a queue because it has it no more, and the route, not the caller, named it.

    Its answer is INVALID_PARAMETER, as RocketMQ 5's ("request queueId[7] is illegal"); for anything else that this
    stands for, one more try is in vain and does no harm, since nothing was stored.
    """
    code, _ = to_response(error)
    return target.queue is None and code == ResponseCode.INVALID_PARAMETER


def worth_another_try(error: RmqError) -> bool:
    """Whether another broker, or the same one a moment later, may take what this one did not."""
    if isinstance(error, Unreachable | RequestTimeout):
        return True
    if isinstance(error, DecodeError | AlreadyClosed):
        return False
    code, _ = to_response(error)
    return code in PRODUCER_RETRY_CODES


def send_status(response: Response) -> SendStatus:
    """How far a message had come; raises what the response stands for if nothing was stored."""
    status = _STATUS.get(response.code)
    if status is None:
        raise from_response(response.code, response.remark)
    return status


def receipts(parcel: Parcel, queue: MessageQueue, response: Response) -> list[SendReceipt]:
    """One receipt per message, in their order; raises what the response stands for if nothing was stored.

    A batch is stored as a whole: its messages have consecutive queue offsets, and their offset ids come comma-joined.
    """
    status = send_status(response)
    header = response.header(SendMessageResponseHeader)
    stored_in = queue._replace(queue_id=header.queueId)
    offset_ids = header.msgId.split(",")
    offset_ids += [""] * (len(parcel.unique_ids) - len(offset_ids))
    return [
        SendReceipt(unique_id, stored_in, header.queueOffset + index, offset_id, status, header.recallHandle or "")
        for index, (unique_id, offset_id) in enumerate(zip(parcel.unique_ids, offset_ids, strict=False))
    ]
