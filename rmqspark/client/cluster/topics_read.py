"""Records of many queues of one broker in one answer: rmqspark's own request, spoken only where `capabilities` says so.

Layouts: `protocol/bulk/topic_ranges.py`. Needs NumPy at import.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.client.cluster.bulk import TIMEOUT_MS
from rmqspark.client.cluster.futures import then
from rmqspark.client.cluster.in_place import are_in_place, made_sure_of
from rmqspark.errors import BodyError
from rmqspark.protocol.bulk.topic_ranges import MAX_RANGES, decode_found, encode_ranges
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.bulk import TopicsReadRequestHeader, TopicsReadResponseHeader

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.protocol.bulk.topic_ranges import FoundRanges, TopicRange
    from rmqspark.remoting.response import Response


def topics_read(
    broker: BrokerClient,
    ranges: Sequence[TopicRange],
    *,
    max_count: int,
    max_bytes: int,
    tags: str | None = None,
    group: str | None = None,
) -> Future[FoundRanges]:
    """What there is in the first of these ranges, at least in one; never waits for new messages.

    A range that starts below its queue is no error here: it brings nothing, and its `min_offsets` says so. `tags` are
    tested by their hash only: test the records' own tags again. Fails with BodyError where the broker answers what
    cannot be, and with what is wrong with the first range. `group` as in `bulk_read`.
    """
    asked = ranges[:MAX_RANGES]
    body = encode_ranges(asked)

    def ask(reader_checks: bool, timeout_ms: int) -> Future[FoundRanges]:
        header = TopicsReadRequestHeader(
            len(asked), max_count, max_bytes, tags, broker.name, group, reader_checks or None
        )
        answer = broker.submit(RequestCode.RMQ_TOPICS_READ, header, body, timeout_ms=timeout_ms)
        return then(answer, lambda response: _found(response, len(asked)))

    return made_sure_of(ask, partial(_is_in_place, asked), TIMEOUT_MS, broker.clock)


def _is_in_place(asked: Sequence[TopicRange], found: FoundRanges) -> bool:
    counts = found.counts
    answered = asked[: len(counts)]
    queue_ids = np.repeat([each.queue_id for each in answered], counts)
    starts = np.repeat([each.start for each in answered], counts)
    return are_in_place(found.records, found.sizes, queue_ids, starts, np.repeat(found.next_offsets, counts), counts)


def _found(response: Response, asked: int) -> FoundRanges:
    header = response.raise_for_code().header(TopicsReadResponseHeader)
    if not 0 < header.ranges <= asked:
        raise BodyError(f"The broker answers about {header.ranges} ranges where {asked} were asked for.")
    return decode_found(memoryview(response.body), header.ranges, header.count)
