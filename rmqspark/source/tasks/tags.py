"""The exact test of tags: brokers filter by hash, which two tags may share; the reader looks at the tags themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqspark.protocol.buffers.spans import equal_to

if TYPE_CHECKING:
    from rmqspark.protocol.filters import TagFilter
    from rmqspark.protocol.records.record_batch import RecordBatch


def matching(records: RecordBatch, wanted: TagFilter) -> RecordBatch:
    """The records whose tag is one of the wanted; all of them, untouched, where no hash deceived."""
    starts, lengths = records.property_spans(b"TAGS")
    matches = np.zeros(len(records), np.bool_)
    for tag in sorted(wanted.tags):
        text = tag.encode()
        rows = np.flatnonzero(lengths == len(text))
        matches[rows] |= equal_to(records.buffer, starts[rows], text)
    return records.where(matches)
