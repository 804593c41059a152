"""The records of many ranges of queues of one broker, as batches: some of several ranges, each range in its order.

With a few messages in each of a thousand queues it is the requests that cost, one and more for each range, and all that
is done once for each answer. So brokers that can are asked for many ranges at a time, and what comes is handled
together. Each range is read, lost and tried again as `fetch` does it, and of other brokers, or by SQL92, it is `fetch`
that does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rmqspark.client.cluster.futures import asked
from rmqspark.errors import StoreReplaced
from rmqspark.protocol.filters import TagFilter
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.source.loss import BEYOND_THE_END, DAMAGED, DELETED, REMOVED, REPLACED, TOPIC_IS_GONE, Fate, lose
from rmqspark.source.tasks.asking import Asking
from rmqspark.source.tasks.fetch import CHUNK_BYTES, CHUNK_RECORDS, fetch
from rmqspark.source.tasks.tags import matching

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.protocol.bulk.topic_ranges import FoundRanges
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions


def fetch_together(client: ClusterClient, wanted: Sequence[QueueRange], options: TaskOptions) -> Iterator[RecordBatch]:
    """The records of ranges of one broker that match the tags or the expression. Raises DataLoss, or what a last try
    raised."""
    asking = Asking(client, wanted[0].queue.broker_name, options)
    if len(wanted) == 1 or options.sql is not None or not asking.able().topics_read:
        for each in wanted:
            yield from fetch(client, each, options)
        return
    tags = TagFilter.parse(options.tags)
    for found in _Rounds(asking, wanted, options, is_filtered=tags is not None):
        records = RecordBatch.from_sizes(found.records, found.sizes)
        records = records if tags is None else matching(records, tags)
        if len(records):
            yield records


class _Rounds:
    """Iterates over the answers about ranges, one request ahead."""

    def __init__(
        self, asking: Asking, wanted: Sequence[QueueRange], options: TaskOptions, *, is_filtered: bool
    ) -> None:
        self._asking = asking
        self._wanted = wanted
        self._options = options
        self._is_filtered = is_filtered

    def __iter__(self) -> Iterator[FoundRanges]:
        left = list(self._wanted)
        ahead = asked(partial(self._request, left))
        while left:
            found = self._receive(ahead, left)
            left = left[1:] if found is None else self._left(found, left)
            if left:
                ahead = asked(partial(self._request, left))
            if found is not None:
                yield found

    def _receive(self, ahead: Future[FoundRanges], left: Sequence[QueueRange]) -> FoundRanges | None:
        """The answer; asked again where that may help. None where the topic of the first range is gone, or its
        store."""
        try:
            return self._asking.answer(ahead, partial(self._request, left), left[0])
        except TOPIC_IS_GONE:
            self._lose(left[0], left[0].end, DELETED)
        except StoreReplaced:
            self._lose(left[0], left[0].end, REPLACED)
        return None

    def _request(self, ranges: Sequence[QueueRange]) -> Future[FoundRanges]:
        from rmqspark.client.cluster.topics_read import topics_read
        from rmqspark.protocol.bulk.topic_ranges import TopicRange

        asked = [TopicRange(q.topic, q.queue_id, start, end, deleted_ms) for q, start, end, deleted_ms, _ in ranges]
        return topics_read(
            self._asking.broker,
            asked,
            max_count=CHUNK_RECORDS,
            max_bytes=CHUNK_BYTES,
            tags=self._options.tags,
            group=self._options.reads_for,
        )

    def _left(self, found: FoundRanges, asked: Sequence[QueueRange]) -> list[QueueRange]:
        """What is to be asked for yet: the ranges that were begun, from where they go on, and those not answered."""
        answers = zip(
            asked, found.next_offsets.tolist(), found.min_offsets.tolist(), found.counts.tolist(), strict=False
        )
        begun = [
            each._replace(start=next_offset)
            for each, *told in answers
            if (next_offset := self._reached(each, *told)) < each.end
        ]
        return [*begun, *asked[len(found.counts) :]]

    def _reached(self, asked: QueueRange, next_offset: int, min_offset: int, count: int) -> int:
        """Where a range goes on. What cannot be read of it is an error, or a warning."""
        _, at, end, *_ = asked
        if min_offset > at:
            self._lose(asked, min(min_offset, end), REMOVED)
        elif next_offset <= at:
            self._lose(asked, end, BEYOND_THE_END)
            return end
        elif not self._is_filtered and next_offset - at > count:
            self._lose(asked, next_offset, DAMAGED, next_offset - at - count)
        return next_offset

    def _lose(self, asked: QueueRange, end: int, fate: Fate, count: int | None = None) -> None:
        tolerant = not self._options.fail_on_data_loss
        lose(asked.queue, asked.start, end, fate, tolerant=tolerant, count=count)
