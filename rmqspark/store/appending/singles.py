"""Messages that come one by one, as most do: their records are made when their places are known.

A draft is encoded first, and patched when it gets its place. Where nothing about a message is unusual, place, store
time and host can be written with the rest, and the records of a turn of the loop joined at once: half the work. A test
holds the two against each other.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from zlib_ng.zlib_ng import crc32

from rmqspark.protocol.records.record import CRC_MASK, HEAD, HEAD_BYTES
from rmqspark.store.queues.consume_queue import ENTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.store.appending.single_entries import SingleEntries
    from rmqspark.store.queues.consume_queues import ConsumeQueues

_pack_head = HEAD.pack
_pack_entry = ENTRY.pack
_pack_length = Struct(">h").pack


class Single(msgspec.Struct, gc=False):
    """A message ready to be stored, with nothing unusual about it: no flag of a transaction, an IPv4 host.

    Whoever makes one has checked the lengths of topic and properties. `index_keys` and `tags_code` are those of a
    `Draft`.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    tags_code: int
    index_keys: tuple[str, ...]
    flag: int
    born_timestamp_ms: int
    born_host: bytes
    reconsume_times: int


class Places(NamedTuple):
    """Where messages were stored, one item each."""

    queue_offsets: list[int]
    physical_offsets: list[int]


class LaidOut(NamedTuple):
    """Records back to back, and what the index is to enter: keys, and beside each the place of its message."""

    records: bytes
    places: Places
    keys: list[bytes]
    key_offsets: list[int]


def lay_out(
    singles: Sequence[Single],
    queues: ConsumeQueues,
    queued: SingleEntries,
    physical_offset: int,
    now_ms: int,
    store_host: bytes,
) -> LaidOut:
    """Gives messages their places, the first at `physical_offset`, and makes their records. Changes only `queued`.

    One loop over all there is to do: calling a function for each step would cost more than the steps.
    """
    parts: list[bytes] = []
    by_topic, get_or_make = queues.by_topic, queues.get_or_make
    next_offsets, queue_offsets = queued.next_offsets, queued.queue_offsets
    next_offset_of, add_queue, add_entry = next_offsets.get, queued.queues.append, queued.entries.append
    add_tags_code = queued.tags_codes.append
    physical_offsets: list[int] = []
    keys: list[bytes] = []
    key_offsets: list[int] = []
    for single in singles:
        topic, queue_id, body, properties = single.topic, single.queue_id, single.body, single.properties
        try:
            queue = by_topic[topic][queue_id]
        except KeyError:
            queue = get_or_make(topic, queue_id)
        queue_offset = next_offset_of(queue) or queue.next_offset
        next_offsets[queue] = queue_offset + 1
        magic, named = queue.topic_field
        body_length, properties_length = len(body), len(properties)
        size = HEAD_BYTES + body_length + len(named) + 2 + properties_length
        head = _pack_head(
            size,
            magic,
            crc32(body) & CRC_MASK,
            queue_id,
            single.flag,
            queue_offset,
            physical_offset,
            0,
            single.born_timestamp_ms,
            single.born_host,
            now_ms,
            store_host,
            single.reconsume_times,
            0,
            body_length,
        )
        parts += (head, body, named, _pack_length(properties_length), properties)
        tags_code = single.tags_code
        entry_code = now_ms + queue.delay_ms if queue.delay_ms else tags_code
        add_queue(queue)
        add_entry(_pack_entry(physical_offset, size, entry_code))
        add_tags_code(tags_code)
        for key in single.index_keys:
            keys.append(f"{topic}#{key}".encode())
            key_offsets.append(physical_offset)
        queue_offsets.append(queue_offset)
        physical_offsets.append(physical_offset)
        physical_offset += size
    return LaidOut(b"".join(parts), Places(queue_offsets, physical_offsets), keys, key_offsets)
