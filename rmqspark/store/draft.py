"""What goes into the store, and what is known of it once it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.records.properties import Property, decode_properties
from rmqspark.protocol.records.record import encode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.records.record import Record


class Draft(msgspec.Struct, gc=False):
    """A message ready to be stored: its record with everything but place, store time and store host filled in.

    `record` is in the layout of `protocol.records.record`, and patched in place when it is appended. `index_keys` are
    the keys it can be queried by: UNIQ_KEY first, then the tokens of KEYS. `tags_code` is the hash of its tags
    (`protocol.java_hash.tags_code`); messages of the delay topic get their deliver time instead.
    """

    topic: str
    queue_id: int
    record: bytearray
    tags_code: int = 0
    index_keys: tuple[str, ...] = ()


def index_keys(properties: Mapping[str, str]) -> tuple[str, ...]:
    """What a message with these properties can be queried by."""
    unique_key, keys = properties.get(Property.UNIQ_KEY, ""), properties.get(Property.KEYS, "")
    if unique_key and keys and " " not in keys:
        return unique_key, keys
    return tuple(filter(None, (unique_key, *keys.split(" "))))


def redraft(
    record: Record,
    topic: str,
    queue_id: int,
    properties: bytes,
    *,
    sys_flag: int | None = None,
    reconsume_times: int | None = None,
    prepared_transaction_offset: int = 0,
) -> Draft:
    """A stored message for another queue, with other properties; what else is not given stays as it is."""
    encoded = encode_record(
        topic=topic,
        body=record.body,
        properties=properties,
        queue_id=queue_id,
        flag=record.flag,
        sys_flag=record.sys_flag if sys_flag is None else sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.born_host,
        reconsume_times=record.reconsume_times if reconsume_times is None else reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
    )
    found = decode_properties(properties)
    return Draft(topic, queue_id, encoded, tags_code(found.get(Property.TAGS)), index_keys(found))


class Run(NamedTuple):
    """Records of a bulk that go to one queue: so many, one after another."""

    topic: str
    queue_id: int
    length: int


class RowRun(NamedTuple):
    """Rows for one queue. `half_offset`: they are the messages of a committed half batch, which lies there."""

    queue_id: int
    rows: BulkRows
    half_offset: int | None = None


class Appended(msgspec.Struct, frozen=True, gc=False):
    """Where one message was stored. Half messages of old producers (prepared, rollback) have queue offset 0."""

    physical_offset: int
    queue_offset: int
    size: int
    store_timestamp_ms: int

    @property
    def end_offset(self) -> int:
        """Physical offset behind it."""
        return self.physical_offset + self.size


class BulkAppended(msgspec.Struct, frozen=True, gc=False):
    """Where a bulk of messages was stored: `count` consecutive queue offsets from `queue_offset` on."""

    queue_offset: int
    physical_offset: int
    count: int
    store_timestamp_ms: int
