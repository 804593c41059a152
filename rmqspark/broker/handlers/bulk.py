"""RMQ_BULK_SEND (30001), RMQ_BULK_READ (30002), RMQ_TOPICS_SEND (30004): whole buffers of records, in and out.

These are rmqspark's own; stock brokers answer them with REQUEST_CODE_NOT_SUPPORTED. There is no Python per message:
what comes in is checked, patched and appended as arrays, in the memory it was received into; what goes out is a slice
of the log with the sizes of its records ahead. What a bulk must look like: `protocol/headers/bulk.py`.
Like every send, a bulk is answered when it is as safe as the flush mode promises. Unlike other sends it creates no
topic, and its messages carry neither region nor cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from isal.isal_zlib import crc32

from rmqspark.broker.metrics.departures import NO_GROUP
from rmqspark.broker.subscriptions import parse_subscription
from rmqspark.errors import InvalidFilter, InvalidQueue, NoPermission, NotSupported, OffsetMoved, RecordError, RmqError
from rmqspark.protocol.bodies.client import SQL92, TAG
from rmqspark.protocol.bulk.bulk_body import read_bulk
from rmqspark.protocol.bulk.topic_rows import decode_topic_rows
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import (
    MAX_READ_BYTES,
    BulkReadRequestHeader,
    BulkReadResponseHeader,
    BulkSendRequestHeader,
    BulkSendResponseHeader,
    TopicsSendRequestHeader,
    TopicsSendResponseHeader,
)
from rmqspark.protocol.names import NOT_SENDABLE, PARKING_TOPICS, RETRY_PREFIX, Perm
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.copied_queues import CopiedQueues
    from rmqspark.broker.delays.parked_bulks import ParkedBulks
    from rmqspark.broker.groups import SubscriptionGroups
    from rmqspark.broker.metrics.departures import Departures
    from rmqspark.broker.sending.appender import Appender
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.broker.subscriptions import Filter
    from rmqspark.broker.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.headers.txn import TxnHalfRequestHeader
    from rmqspark.protocol.headers.types import Header
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore

_SIZE_BYTES: Final = 4
_DAMAGED: Final = "The checksum of the bulk is wrong: it was damaged on the way."


class BulkHandlers:
    """Bulk sends, version 1, and reads, version 2 (1 knew no SQL92)."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        copied: CopiedQueues,
        topics: TopicTable,
        groups: SubscriptionGroups,
        appender: Appender,
        stats: BrokerStats,
        departures: Departures,
        parked: ParkedBulks,
        clock: Clock,
    ) -> None:
        self._max_read_bytes = min(config.max_bulk_read_bytes, MAX_READ_BYTES)
        self._property_filter = config.enable_property_filter
        self._store = store
        self._copied = copied
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._appender = appender
        self._stats = stats
        self._departures = departures
        self._parked = parked

    def routes(self) -> Routes:
        return {
            RequestCode.RMQ_BULK_SEND: Route(BulkSendRequestHeader, self.send),
            RequestCode.RMQ_TOPICS_SEND: Route(TopicsSendRequestHeader, self.send_to_topics),
            RequestCode.RMQ_BULK_READ: Route(BulkReadRequestHeader, self.read),
        }

    def send(self, request: Request[BulkSendRequestHeader]) -> None:
        header = request.header
        check_target(self._topics, header.topic, header.queueId)
        bulk = open_bulk(header, request.body, self._parked)
        appended = self._appender.append_bulk(header.topic, header.queueId, bulk)
        receipt = BulkSendResponseHeader(
            queueOffset=appended.queue_offset,
            count=appended.count,
            physicalOffset=appended.physical_offset,
            storeTimestamp=appended.store_timestamp_ms,
        )

        self._answer_when_safe(request, receipt)

    def send_to_topics(self, request: Request[TopicsSendRequestHeader]) -> None:
        header = request.header
        if crc32(request.body) != header.bodyCrc32:
            raise RecordError(_DAMAGED)
        runs, rows = decode_topic_rows(request.body, header.queues, header.count)
        for run in runs:
            check_target(self._topics, run.topic, run.queue_id)
            if run.topic in PARKING_TOPICS:
                raise _forbidden(run.topic)
        first = self._appender.append_topic_rows(runs, rows)
        receipt = TopicsSendResponseHeader(
            count=header.count, physicalOffset=first.physical_offset, storeTimestamp=first.store_timestamp_ms
        )
        self._answer_when_safe(request, receipt)

    def _answer_when_safe(self, request: Request[Any], receipt: Header) -> None:
        def answer(error: RmqError | None) -> None:
            if error is None:
                request.reply(receipt)
            else:
                request.fail(error)

        self._appender.when_safe(self._store.end_offset, answer)

    def read(self, request: Request[BulkReadRequestHeader]) -> Reply:
        header = request.header
        if header.group:
            self._groups.permit(header.group, self._clock.now_ms())
        self._topics.require_readable(header.topic, header.queueId)
        self._store.deletions.require_not_remade(header.topic, header.topicDeleted)
        self._copied.require_first_of(header.topic, header.queueId, header.queueOffset, header.endOffset)
        wanted = self._wanted(header)
        try:
            found = self._store.read_bulk(
                header.topic,
                header.queueId,
                header.queueOffset,
                header.endOffset,
                max_count=max(1, header.maxCount),
                max_bytes=max(1, min(header.maxBytes, self._max_read_bytes)),
                tag_codes=wanted.tag_codes,
                record_filter=wanted.sql,
            )
        except OffsetMoved as error:
            high = self._store.queues.max_offset(header.topic, header.queueId)
            moved = BulkReadResponseHeader(
                nextBeginOffset=error.next_offset, minOffset=error.next_offset, maxOffset=high, count=0
            )
            return Reply(moved, code=ResponseCode.PULL_OFFSET_MOVED, remark=str(error))
        count = len(found.sizes)
        self._stats.count_get(count)
        self._departures.count(header.topic, header.group or NO_GROUP, count, len(found.body))
        answer = BulkReadResponseHeader(
            nextBeginOffset=found.next_offset, minOffset=found.min_offset, maxOffset=found.max_offset, count=count
        )
        return Reply(answer, (found.sizes.astype(">i4").tobytes(), found.body))

    def _wanted(self, header: BulkReadRequestHeader) -> Filter:
        """Raises InvalidFilter, or ServerFault for SQL92 while property filters are off."""
        if header.sql is None:
            return parse_subscription(header.tags, TAG, property_filter=self._property_filter)
        if header.tags is not None:
            raise InvalidFilter("Tags and a SQL92 expression exclude each other.")
        return parse_subscription(header.sql, SQL92, property_filter=self._property_filter)


def check_target(topics: TopicTable, topic: str, queue_id: int) -> None:
    """Raises TopicNotFound, NoPermission or InvalidQueue unless bulks may be sent to this queue."""
    config = topics.require(topic)
    if (topic in NOT_SENDABLE and topic not in PARKING_TOPICS) or topic.startswith(RETRY_PREFIX):
        raise _forbidden(topic)
    if not config.perm & Perm.WRITE:
        raise NoPermission(f"Topic {topic!r} may not be written.")
    if not 0 <= queue_id < max(config.readQueueNums, config.writeQueueNums):
        raise InvalidQueue(f"Topic {topic!r} has {config.writeQueueNums} queues to write to, there is no {queue_id}.")


def _forbidden(topic: str) -> NoPermission:
    return NoPermission(f"Topic {topic!r} takes no bulk sends.", hint="Send to a topic of your own.")


def open_bulk(
    header: BulkSendRequestHeader | TxnHalfRequestHeader, body: memoryview, parked: ParkedBulks
) -> RecordBatch | BulkRows:
    """What a bulk brings, in the memory of its body. Raises RecordError where body and header disagree, and what keeps
    its messages from waiting, or from not waiting.

    What else is inside the records is the store's to check before it takes them.
    """
    if crc32(body) != header.bodyCrc32:
        raise RecordError(_DAMAGED)
    bulk = read_bulk(body, header.count, header.recordSize)
    if header.topic in PARKING_TOPICS:
        parked.check(header.topic, header.queueId, bulk)
    elif isinstance(bulk, RecordBatch):
        _refuse_what_must_wait(bulk)
    return bulk


_REFUSED_PROPERTIES: Final = tuple(
    name.encode()
    for name in (
        Property.DELAY,
        Property.TIMER_DELAY_SEC,
        Property.TIMER_DELAY_MS,
        Property.TIMER_DELIVER_MS,
        Property.TRANSACTION_PREPARED,
    )
)


def _refuse_what_must_wait(records: RecordBatch) -> None:
    """Raises NotSupported for messages that must not be delivered at once."""
    if records.has_any_property(_REFUSED_PROPERTIES):
        names = ", ".join(name.decode() for name in _REFUSED_PROPERTIES)
        raise NotSupported(
            f"A message of the bulk has one of the properties that bulk sends do not support: {names}.",
            hint="Messages that are to wait are sent one by one, or in bulks to where they wait.",
        )
