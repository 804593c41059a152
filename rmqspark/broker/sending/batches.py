"""The messages of batch requests on their way into the store.

Batches for one topic that come in the same moment are made into records together, without a step of Python per message
(`records_of`). Alone a batch is too small for that, and one that has anything unusual about it must be looked at
message by message: `Batch.drafts` does so, and finds the words for what is wrong. The bytes stored are the same.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from rmqspark.broker.sending.drafting import NOT_AT_ONCE, Origin, draft_of, refuse_delay, refuse_half
from rmqspark.errors import DecodeError, InvalidMessage
from rmqspark.protocol.buffers.columns import Pieces
from rmqspark.protocol.buffers.spans import as_bytes
from rmqspark.protocol.records.batch import MAX_ELEMENTS, decode_batch
from rmqspark.protocol.records.batch_columns import BatchColumns, batch_columns
from rmqspark.protocol.records.batch_tables import ElementTable
from rmqspark.protocol.records.properties import decode_properties
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.protocol.records.record_builder import encode_records
from rmqspark.store.draft import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqspark.protocol.buffers.spans import Bytes, Positions
    from rmqspark.store.draft import Draft

MAX_KEYS: Final = 1 << 17
"""Keys of one batch, ids included: two for each of the most messages it may have. Each costs a microsecond."""

_IPV4_HOST_BYTES: Final = 8
_UNUSUAL_PROPERTIES: Final = tuple(map(str.encode, NOT_AT_ONCE))


class Batch(msgspec.Struct, gc=False, frozen=True):
    """The messages of one request, as they came: they may still turn out not to be ones."""

    origin: Origin
    body: bytes
    transaction_id: str  # the sender's UNIQ_KEY for the whole
    waits_for_flush: bool

    def without_body(self) -> Batch:
        """What is left to say of it once it is stored."""
        return Batch(self.origin, b"", self.transaction_id, self.waits_for_flush)

    def drafts(self) -> list[Draft]:
        """Every message, looked at one by one. Raises BodyError, InvalidMessage, NotSupported."""
        drafts = []
        keys_left = MAX_KEYS
        for body, encoded, flag in decode_batch(self.body):
            properties = decode_properties(encoded)
            refuse_half(properties)
            refuse_delay(properties)
            draft = draft_of(self.origin, body, flag, encoded, properties)
            keys_left -= len(draft.index_keys)
            if keys_left < 0:
                raise InvalidMessage(f"The batch has more than {MAX_KEYS} keys.", hint="Send it in several.")
            drafts.append(draft)
        if not drafts:
            raise InvalidMessage("The batch has no messages in it.")
        return drafts


class Records(NamedTuple):
    """The records of several batches, and how many each batch has."""

    records: RecordBatch
    counts: list[int]

    def runs(self, batches: Sequence[Batch]) -> list[Run]:
        """How many of them each queue gets, which `batches` they are made of being told once more."""
        pairs = zip([batch.origin for batch in batches], self.counts, strict=True)
        return [
            Run(topic, queue_id, sum([count for _, count in of_queue]))
            for (topic, queue_id), of_queue in groupby(pairs, lambda pair: (pair[0].topic, pair[0].queue_id))
        ]


def records_of(batches: Sequence[Batch]) -> Records | None:
    """The records of batches for one topic, one after another; None where they must be looked at one by one."""
    if not all(_is_usual(batch.origin) for batch in batches):
        return None
    body = as_bytes(b"".join([batch.body for batch in batches]))
    found = _records_alike(batches, body) or _records_of_any(batches, body)
    return None if found is None or found.records.has_any_property(_UNUSUAL_PROPERTIES) else found


def _is_usual(origin: Origin) -> bool:
    return len(origin.born_host) == _IPV4_HOST_BYTES and not origin.reconsume_times


def _records_alike(batches: Sequence[Batch], body: Bytes) -> Records | None:
    """The records of messages that are all of one size; None for others."""
    table = ElementTable.find(body)
    if table is None:
        return None
    counts = [len(batch.body) // table.size for batch in batches]
    if min(counts) < 1 or max(counts) > MAX_ELEMENTS or any([len(batch.body) % table.size for batch in batches]):
        return None
    records = table.records(batches[0].origin.topic, [batch.origin for batch in batches], counts)
    return None if records is None else Records(records, counts)


def _records_of_any(batches: Sequence[Batch], body: Bytes) -> Records | None:
    try:
        columns = batch_columns(body)
    except DecodeError:
        return None
    counts = _counts(columns.ends, [len(batch.body) for batch in batches])
    if counts is None:
        return None
    return Records(RecordBatch.from_sizes(*_encoded(batches, counts, body, columns)), counts.tolist())


def _counts(ends: Positions, sizes: Sequence[int]) -> Positions | None:
    """How many messages each batch has; None unless every batch ends with one, has one, and not too many."""
    bounds = np.cumsum(sizes)
    last = np.searchsorted(ends, bounds, "right")
    counts = np.diff(last, prepend=0)
    if counts.min() < 1 or counts.max() > MAX_ELEMENTS or (ends[last - 1] != bounds).any():
        return None
    return counts


def _encoded(
    batches: Sequence[Batch], counts: Positions, body: Bytes, columns: BatchColumns
) -> tuple[Bytes, NDArray[np.int32]]:
    origins = [batch.origin for batch in batches]
    hosts = np.frombuffer(b"".join([origin.born_host for origin in origins]), f"V{_IPV4_HOST_BYTES}")
    times = np.array([origin.born_timestamp_ms for origin in origins], np.int64)
    queue_ids = np.array([origin.queue_id for origin in origins], np.int32)
    sys_flags = np.array([origin.sys_flag for origin in origins], np.int32)
    return encode_records(
        origins[0].topic,
        np.repeat(queue_ids, counts),
        Pieces(body, columns.bodies),
        Pieces(body, columns.properties),
        born_timestamp_ms=np.repeat(times, counts),
        born_host=np.repeat(hosts, counts),
        flags=columns.flags,
        sys_flags=np.repeat(sys_flags, counts),
    )
