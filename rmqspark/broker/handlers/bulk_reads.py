"""RMQ_BULK_READ (30002) and RMQ_TOPICS_READ (30005): ranges of one queue, or of many, go out in one answer.

These are rmqspark's own; stock brokers answer them with REQUEST_CODE_NOT_SUPPORTED. There is no Python per message:
what goes out is a slice of the log with the sizes of its records ahead, uncopied where its reader makes sure of it.
Layouts: `protocol/headers/bulk.py`, `protocol/bulk/topic_ranges.py`. Of many queues nothing is chosen by SQL92: an
expression costs so much more than a request that nothing would be gained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.departures import NO_GROUP
from rmqspark.broker.pulling.subscriptions import parse_subscription
from rmqspark.errors import InvalidFilter, OffsetMoved, RmqError
from rmqspark.protocol.bodies.client import SQL92, TAG
from rmqspark.protocol.bulk.topic_ranges import TopicRange, decode_ranges, encode_found
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.bulk import (
    MAX_READ_BYTES,
    BulkReadRequestHeader,
    BulkReadResponseHeader,
    TopicsReadRequestHeader,
    TopicsReadResponseHeader,
)
from rmqspark.protocol.headers.consume import DELETION_NOT_KNOWN
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.metrics.departures import Departures
    from rmqspark.broker.pulling.subscriptions import Filter
    from rmqspark.broker.replica.copied_queues import CopiedQueues
    from rmqspark.broker.state.groups import SubscriptionGroups
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore


class BulkReadHandlers:
    """Of many ranges it answers about the first, as many as there is room for."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        copied: CopiedQueues,
        topics: TopicTable,
        groups: SubscriptionGroups,
        stats: BrokerStats,
        departures: Departures,
        clock: Clock,
    ) -> None:
        self._max_read_bytes = min(config.max_bulk_read_bytes, MAX_READ_BYTES)
        self._property_filter = config.enable_property_filter
        self._is_slave = config.is_slave
        self._store = store
        self._copied = copied
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._stats = stats
        self._departures = departures

    def routes(self) -> Routes:
        return {
            RequestCode.RMQ_BULK_READ: Route(BulkReadRequestHeader, self.read),
            RequestCode.RMQ_TOPICS_READ: Route(TopicsReadRequestHeader, self.read_topics),
        }

    def read(self, request: Request[BulkReadRequestHeader]) -> Reply:
        header = request.header
        topic, queue_id, group = header.topic, header.queueId, self._permitted(header.group)
        self._require(TopicRange(topic, queue_id, header.queueOffset, header.endOffset, header.topicDeleted))
        wanted = self._wanted(header)
        try:
            found = self._store.read_bulk(
                topic,
                queue_id,
                header.queueOffset,
                header.endOffset,
                max_count=max(1, header.maxCount),
                max_bytes=self._max_bytes(header.maxBytes),
                tag_codes=wanted.tag_codes,
                record_filter=wanted.sql,
                unchecked=self._may_be_unchecked(header),
            )
        except OffsetMoved as error:
            low, high = error.next_offset, self._store.queues.max_offset(topic, queue_id)
            moved = BulkReadResponseHeader(nextBeginOffset=low, minOffset=low, maxOffset=high, count=0)
            return Reply(moved, code=ResponseCode.PULL_OFFSET_MOVED, remark=str(error))
        count = len(found.sizes)
        self._stats.count_get(count)
        self._departures.count(topic, group, count, int(found.sizes.sum()))
        answer = BulkReadResponseHeader(
            nextBeginOffset=found.next_offset,
            minOffset=found.min_offset,
            maxOffset=found.max_offset,
            count=count,
            topicDeleted=DELETION_NOT_KNOWN if self._is_slave else self._store.deletions.deleted_ms(topic),
        )
        return Reply(answer, (found.sizes.astype(">i4").tobytes(), *(found.regions or (found.body,))))

    def read_topics(self, request: Request[TopicsReadRequestHeader]) -> Reply:
        header = request.header
        group = self._permitted(header.group)
        wanted = parse_subscription(header.tags, TAG, property_filter=False)
        ranges = self._readable(decode_ranges(request.body, header.ranges))
        found = self._store.read_ranges(
            ranges,
            max_count=max(1, header.maxCount),
            max_bytes=self._max_bytes(header.maxBytes),
            tag_codes=wanted.tag_codes,
            unchecked=self._may_be_unchecked(header),
        )
        count = len(found.sizes)
        self._stats.count_get(count)
        first = 0
        for each, of_range in zip(ranges, found.counts.tolist(), strict=False):
            sizes = found.sizes[first : first + of_range]
            self._departures.count(each.topic, group, of_range, int(sizes.sum()))
            first += of_range
        return Reply(TopicsReadResponseHeader(ranges=len(found.counts), count=count), encode_found(found))

    def _permitted(self, group: str | None) -> str:
        """The group it is read for, which may consume; none is as good."""
        if group:
            self._groups.permit(group, self._clock.now_ms())
        return group or NO_GROUP

    def _require(self, wanted: TopicRange) -> None:
        """Raises what forbids to read a range."""
        self._topics.require_readable(wanted.topic, wanted.queue_id)
        self._store.deletions.require_not_remade(wanted.topic, wanted.topic_deleted_ms)
        self._copied.require_first_of(wanted.topic, wanted.queue_id, wanted.start, wanted.end)

    def _readable(self, ranges: Sequence[TopicRange]) -> Sequence[TopicRange]:
        """Those before the first that may not be read. Raises what is wrong with that where it is the very first: the
        others are answered, and whoever asks on hears of it then."""
        for number, wanted in enumerate(ranges):
            try:
                self._require(wanted)
            except RmqError:
                if not number:
                    raise
                return ranges[:number]
        return ranges

    def _may_be_unchecked(self, header: BulkReadRequestHeader | TopicsReadRequestHeader) -> bool:
        """Whether records may go out as they lie. Those of a slave, whose log may be cut and written anew, might be
        others when they leave."""
        return bool(header.readerChecks) and not self._is_slave

    def _max_bytes(self, asked: int) -> int:
        return max(1, min(asked, self._max_read_bytes))

    def _wanted(self, header: BulkReadRequestHeader) -> Filter:
        """Raises InvalidFilter, or ServerFault for SQL92 while property filters are off."""
        if header.sql is None:
            return parse_subscription(header.tags, TAG, property_filter=self._property_filter)
        if header.tags is not None:
            raise InvalidFilter("Tags and a SQL92 expression exclude each other.")
        return parse_subscription(header.sql, SQL92, property_filter=self._property_filter)
