"""RMQ_TOPICS_READ (30005): ranges of many queues, of any topics, in one request.

rmqspark's own; a stock broker answers REQUEST_CODE_NOT_SUPPORTED. What RMQ_BULK_READ does for one queue, but for SQL92:
an expression costs so much more than a request that nothing would be gained. Layouts: `protocol/bulk/topic_ranges.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.departures import NO_GROUP
from rmqspark.broker.subscriptions import parse_subscription
from rmqspark.errors import RmqError
from rmqspark.protocol.bodies.client import TAG
from rmqspark.protocol.bulk.topic_ranges import decode_ranges, encode_found
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import MAX_READ_BYTES, TopicsReadRequestHeader, TopicsReadResponseHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.copied_queues import CopiedQueues
    from rmqspark.broker.groups import SubscriptionGroups
    from rmqspark.broker.metrics.departures import Departures
    from rmqspark.broker.stats import BrokerStats
    from rmqspark.broker.topics import TopicTable
    from rmqspark.clock import Clock
    from rmqspark.protocol.bulk.topic_ranges import TopicRange
    from rmqspark.remoting.request import Request
    from rmqspark.store.message_store import MessageStore


class RangeReadHandlers:
    """Answers about the first ranges of a request, as many as there is room for."""

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
        self._store = store
        self._copied = copied
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._stats = stats
        self._departures = departures

    def routes(self) -> Routes:
        return {RequestCode.RMQ_TOPICS_READ: Route(TopicsReadRequestHeader, self.read)}

    def read(self, request: Request[TopicsReadRequestHeader]) -> Reply:
        header = request.header
        group = header.group or NO_GROUP
        if group:
            self._groups.permit(group, self._clock.now_ms())
        wanted = parse_subscription(header.tags, TAG, property_filter=False)
        ranges = self._readable(decode_ranges(request.body, header.ranges))
        found = self._store.read_ranges(
            ranges,
            max_count=max(1, header.maxCount),
            max_bytes=max(1, min(header.maxBytes, self._max_read_bytes)),
            tag_codes=wanted.tag_codes,
        )
        count = len(found.sizes)
        self._stats.count_get(count)
        first = 0
        for each, of_range in zip(ranges, found.counts.tolist(), strict=False):
            sizes = found.sizes[first : first + of_range]
            self._departures.count(each.topic, group, of_range, int(sizes.sum()))
            first += of_range
        return Reply(TopicsReadResponseHeader(ranges=len(found.counts), count=count), encode_found(found))

    def _readable(self, ranges: Sequence[TopicRange]) -> Sequence[TopicRange]:
        """Those before the first that may not be read. Raises what is wrong with that where it is the very first: the
        others are answered, and whoever asks on hears of it then."""
        for number, wanted in enumerate(ranges):
            try:
                self._topics.require_readable(wanted.topic, wanted.queue_id)
                self._store.deletions.require_not_remade(wanted.topic, wanted.topic_deleted_ms)
                self._copied.require_first_of(wanted.topic, wanted.queue_id, wanted.start, wanted.end)
            except RmqError:
                if not number:
                    raise
                return ranges[:number]
        return ranges
