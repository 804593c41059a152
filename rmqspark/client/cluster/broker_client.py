"""Typed calls to one broker: sending, pulling, offsets, membership. Administration is in `broker_admin`.

Calls that end in a Future return at once, also where a connection has to be made first, and may be pipelined; the
others wait. A timeout is for both, connection and answer, and RocketMQ's own for the same request (spec: remoting,
section 10) unless the caller gives one.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Unpack

import msgspec

from rmqspark.client.cluster.broker_line import BrokerLine
from rmqspark.client.cluster.capabilities import capabilities_of
from rmqspark.client.cluster.futures import after, then
from rmqspark.client.cluster.pull_request import pull_header, pull_result
from rmqspark.client.cluster.routes import HEADLESS_FRESH_MS
from rmqspark.clock import SystemClock
from rmqspark.errors import NotFound, RequestTimeout, Unreachable
from rmqspark.message_queue import MessageQueue
from rmqspark.protocol.bodies.client import HeartbeatData, LockBatchBody, LockBatchResponseBody, Queue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import BulkSendRequestHeader
from rmqspark.protocol.headers.consume import (
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    HeartbeatRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UnregisterClientRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_line import Connect
    from rmqspark.client.cluster.bulk import BulkChunk, BulkReceipt, BulkWanted
    from rmqspark.client.cluster.capabilities import Capabilities, StoreLife
    from rmqspark.client.cluster.pull_request import PullResult, PullWanted
    from rmqspark.clock import Clock
    from rmqspark.protocol.headers.produce import SendMessageRequestHeaderV2
    from rmqspark.remoting.blocking import BlockingConnection
    from rmqspark.remoting.reply import Body
    from rmqspark.remoting.response import Response

NO_GROUP = "TOOLS_CONSUMER"  # exists on every broker; reading for it leaves no trace
OFFSET_TIMEOUT_MS = 5_000
SEARCH_TIMEOUT_MS = 6_000
LOCK_TIMEOUT_MS = 1_000
PULL_TIMEOUT_MS = 10_000  # beyond the time the broker may hold a pull
SUSPEND_MS = 15_000  # RocketMQ's brokerSuspendMaxTimeMillis


class BrokerClient:
    """One broker, by name."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        timeout_ms: int,
        clock: Clock | None = None,
        suspect: Callable[[str], None] | None = None,
    ) -> None:
        """`suspect` is told the address where another broker answers by now."""
        self.name = name
        self._suspect = suspect or _believe
        self.timeout_ms = timeout_ms
        self.clock = clock or SystemClock()
        self._line = BrokerLine(name, connect, self.clock)
        self._asked: _Asked | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """In a process that is forked: another thread may have had the lock."""
        self._asking = threading.Lock()

    # --- any request -------------------------------------------------------------------------------------------------

    def call(
        self,
        code: RequestCode,
        header: msgspec.Struct | None = None,
        body: Body = b"",
        *,
        timeout_ms: int | None = None,
        extra: dict[str, str] | None = None,
    ) -> Response:
        """One request and its answer; raises the error an answer stands for."""
        response = self._line.call(code, header, body, timeout_ms=timeout_ms or self.timeout_ms, extra=extra)
        return response.raise_for_code()

    def submit(
        self,
        code: RequestCode,
        header: msgspec.Struct | None = None,
        body: Body = b"",
        *,
        timeout_ms: int,
        extra: dict[str, str] | None = None,
    ) -> Future[Response]:
        """One request, whose answer comes as it is, whatever its code."""
        return self._line.submit(code, header, body, timeout_ms=timeout_ms, extra=extra)

    def capabilities(self) -> Capabilities:
        """What this broker can do, asked once per connection: another product may answer after a restart. A slave is
        asked every two seconds: it says whose store its own is a copy of, and in which incarnation that was last.

        Unreachable where another broker answers: its queues are called as this one's, and have other messages."""
        try:
            return self.ask_capabilities().result(self.timeout_ms / 1000)
        except TimeoutError:
            raise RequestTimeout(
                f"Broker {self.name!r} did not say within {self.timeout_ms} ms what it can do."
            ) from None

    def ask_capabilities(self) -> Future[Capabilities]:
        """The same without waiting; the future is done where they are known already."""
        return self._line.with_connection(self._capabilities_of)

    def _capabilities_of(self, connection: BlockingConnection) -> Future[Capabilities]:
        with self._asking:
            now_ms = self.clock.monotonic_ms()
            if self._asked is None or not self._asked.counts(connection, now_ms):
                answer = connection.submit(RequestCode.RMQ_CAPABILITIES, timeout_ms=self.timeout_ms)
                self._asked = _Asked(connection, then(answer, partial(self._own, connection.address)), now_ms)
            return self._asked.answer

    def _own(self, address: str, response: Response) -> Capabilities:
        able = capabilities_of(response)
        if not able.is_of(self.name):
            self._suspect(address)
            raise Unreachable(
                f"Broker {able.broker_name!r} answers at {address}, where {self.name!r} was.", address=address
            )
        return able

    # --- sending -----------------------------------------------------------------------------------------------------

    def send(self, header: SendMessageRequestHeaderV2, body: Body, *, timeout_ms: int) -> Response:
        """Sends a message or batch and waits; the answer as it is, for some codes other than 0 mean "stored"."""
        return self._line.call(_send_code(header), header, body, timeout_ms=timeout_ms)

    def submit_send(self, header: SendMessageRequestHeaderV2, body: Body, *, timeout_ms: int) -> Future[Response]:
        """The same without waiting."""
        return self.submit(_send_code(header), header, body, timeout_ms=timeout_ms)

    def send_oneway(self, header: SendMessageRequestHeaderV2, body: Body) -> None:
        self._line.send_oneway(_send_code(header), header, body, timeout_ms=self.timeout_ms)

    def bulk_send(
        self, topic: str, queue_id: int, body: Body, count: int, record_size: int, crc: int, *, group: str | None = None
    ) -> Future[BulkReceipt]:
        """RMQ_BULK_SEND: stores `count` records in one queue, all or none.

        `body` is one buffer or several: the records, before them (where they differ in length, `record_size` 0) their
        sizes as big-endian int32; `crc` is the CRC-32 of all of it. The buffers must not change before the future is
        done.
        """
        from rmqspark.client.cluster import bulk  # brings NumPy

        header = BulkSendRequestHeader(topic, queue_id, count, record_size, crc, group, self.name)
        answer = self.submit(RequestCode.RMQ_BULK_SEND, header, body, timeout_ms=bulk.TIMEOUT_MS)
        return then(answer, bulk.bulk_receipt)

    # --- reading -----------------------------------------------------------------------------------------------------

    def submit_pull(self, queue: MessageQueue, queue_offset: int, **wanted: Unpack[PullWanted]) -> Future[PullResult]:
        """PULL_MESSAGE, which the broker may hold until something comes."""
        header = pull_header(queue, queue_offset, **wanted)
        timeout_ms = PULL_TIMEOUT_MS + header.suspendTimeoutMillis
        return then(self.submit(RequestCode.PULL_MESSAGE, header, timeout_ms=timeout_ms), pull_result)

    def pull(self, queue: MessageQueue, queue_offset: int, **wanted: Unpack[PullWanted]) -> PullResult:
        """The same, waited for."""
        return self.submit_pull(queue, queue_offset, **wanted).result()

    def bulk_read(
        self, topic: str, queue_id: int, queue_offset: int, end_offset: int, **wanted: Unpack[BulkWanted]
    ) -> Future[BulkChunk]:
        """RMQ_BULK_READ: the records of [queue_offset, end_offset) in one piece, as the bounds allow, at least one if
        there is any; never waits for new ones. See `BulkWanted`.

        OffsetMoved where `queue_offset` is below the queue's minimum; TopicRemade where the topic was deleted later
        than the caller knows of; NoPermission where the group may not consume.
        """
        from rmqspark.client.cluster import bulk  # brings NumPy, as the next one does
        from rmqspark.client.cluster.in_place import made_sure_of

        header = bulk.read_header(self.name, topic, queue_id, queue_offset, end_offset, **wanted)

        def ask(reader_checks: bool, timeout_ms: int) -> Future[BulkChunk]:
            asked = msgspec.structs.replace(header, readerChecks=reader_checks or None)
            answer = self.submit(RequestCode.RMQ_BULK_READ, asked, timeout_ms=timeout_ms)
            return then(answer, partial(bulk.bulk_chunk, header))

        if header.sql is not None:  # what an expression has chosen the broker has read
            return ask(False, bulk.TIMEOUT_MS)
        return made_sure_of(ask, partial(bulk.is_in_place, header), bulk.TIMEOUT_MS, self.clock)

    # --- offsets -----------------------------------------------------------------------------------------------------

    def min_offset(self, topic: str, queue_id: int) -> int:
        """The offset of the oldest message; equal to `max_offset` where there is none."""
        return self.submit_min_offset(topic, queue_id).result()

    def submit_min_offset(self, topic: str, queue_id: int) -> Future[int]:
        """The same without waiting."""
        header = GetMinOffsetRequestHeader(topic, queue_id, self.name)
        return then(self.submit(RequestCode.GET_MIN_OFFSET, header, timeout_ms=SEARCH_TIMEOUT_MS), _offset)

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The offset the next message will get."""
        return self.submit_max_offset(topic, queue_id).result()

    def submit_max_offset(self, topic: str, queue_id: int) -> Future[int]:
        """The same without waiting."""
        header = GetMaxOffsetRequestHeader(topic, queue_id, bname=self.name)
        return then(self.submit(RequestCode.GET_MAX_OFFSET, header, timeout_ms=SEARCH_TIMEOUT_MS), _offset)

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER") -> int:
        """The first message stored at or after that time; with boundary UPPER the last one at or before it."""
        return self.submit_offset_by_time(topic, queue_id, timestamp_ms, boundary).result()

    def submit_offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "LOWER"
    ) -> Future[int]:
        """The same without waiting."""
        header = SearchOffsetRequestHeader(topic, queue_id, timestamp_ms, boundary, self.name)
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return then(self.submit(code, header, timeout_ms=SEARCH_TIMEOUT_MS), _offset)

    def query_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """What the group has committed; None where it never has."""
        return self.submit_query_offset(group, topic, queue_id).result()

    def submit_query_offset(self, group: str, topic: str, queue_id: int) -> Future[int | None]:
        """The same without waiting."""
        header = QueryConsumerOffsetRequestHeader(group, topic, queue_id, setZeroIfNotFound=False, bname=self.name)
        return then(self.submit(RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_ms=OFFSET_TIMEOUT_MS), _committed)

    def commit_offset(self, group: str, topic: str, queue_id: int, queue_offset: int) -> None:
        """Records that the group has consumed everything before `queue_offset`."""
        self.submit_commit(group, topic, queue_id, queue_offset).result().raise_for_code()

    def submit_commit(
        self,
        group: str,
        topic: str,
        queue_id: int,
        queue_offset: int,
        topic_deleted_ms: int | None = None,
        life: StoreLife | None = None,
    ) -> Future[Response]:
        """The same without waiting. TopicRemade where the topic was deleted later than `topic_deleted_ms`,
        StoreReplaced where the offset is of another `life` than the broker's store has by now."""
        header = UpdateConsumerOffsetRequestHeader(group, topic, queue_id, queue_offset, self.name, topic_deleted_ms)
        submit = partial(self.submit, RequestCode.UPDATE_CONSUMER_OFFSET, header, timeout_ms=OFFSET_TIMEOUT_MS)
        if life is None:
            return submit()
        same = then(self.ask_capabilities(), lambda able: life.require(able.life, self.name))
        return after(same, lambda _: submit())

    # --- membership --------------------------------------------------------------------------------------------------

    def heartbeat(self, data: HeartbeatData) -> None:
        self.call(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), data.encode())

    def submit_heartbeat(self, data: HeartbeatData) -> Future[Response]:
        """The same without waiting."""
        return self.submit(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), data.encode(), timeout_ms=self.timeout_ms)

    def unregister_client(
        self, client_id: str, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        header = UnregisterClientRequestHeader(client_id, producer_group, consumer_group)
        self.call(RequestCode.UNREGISTER_CLIENT, header)

    def submit_unregister(
        self, client_id: str, producer_group: str | None = None, consumer_group: str | None = None
    ) -> Future[Response]:
        """The same without waiting."""
        header = UnregisterClientRequestHeader(client_id, producer_group, consumer_group)
        return self.submit(RequestCode.UNREGISTER_CLIENT, header, timeout_ms=self.timeout_ms)

    def submit_lock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> Future[set[MessageQueue]]:
        """Takes or renews the group's locks on queues of this broker; gives those it now holds."""
        body = _lock_body(group, client_id, queues)
        return then(self.submit(RequestCode.LOCK_BATCH_MQ, None, body, timeout_ms=LOCK_TIMEOUT_MS), _locked)

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        self.submit_unlock(group, client_id, queues).result().raise_for_code()

    def submit_unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> Future[Response]:
        """The same without waiting."""
        body = _lock_body(group, client_id, queues)
        return self.submit(RequestCode.UNLOCK_BATCH_MQ, None, body, timeout_ms=LOCK_TIMEOUT_MS)


def _believe(address: str) -> None:
    """Nobody keeps where the broker was."""
    del address


def _locked(response: Response) -> set[MessageQueue]:
    held = LockBatchResponseBody.decode(response.raise_for_code().body).lockOKMQSet
    return {MessageQueue(queue.topic, queue.brokerName, queue.queueId) for queue in held}


def _lock_body(group: str, client_id: str, queues: Iterable[MessageQueue]) -> bytes:
    wanted = [Queue(queue.topic, queue.broker_name, queue.queue_id) for queue in queues]
    return LockBatchBody(group, client_id, wanted).encode()


def _send_code(header: SendMessageRequestHeaderV2) -> RequestCode:
    return RequestCode.SEND_BATCH_MESSAGE if header.m else RequestCode.SEND_MESSAGE_V2


def _offset(response: Response) -> int:
    return response.raise_for_code().header(OffsetResponseHeader).offset


def _committed(response: Response) -> int | None:
    try:
        return _offset(response)
    except NotFound:
        return None


class _Asked(NamedTuple):
    """What was asked of a broker on this connection, at that time."""

    connection: BlockingConnection
    answer: Future[Capabilities]
    at_ms: int

    def counts(self, connection: BlockingConnection, now_ms: int) -> bool:
        """Whether the answer is that of this connection, and as it would be now."""
        if connection is not self.connection or not self.answer.done():
            return connection is self.connection
        if self.answer.exception() is not None:
            return False
        return not self.answer.result().is_slave or now_ms - self.at_ms < HEADLESS_FRESH_MS
