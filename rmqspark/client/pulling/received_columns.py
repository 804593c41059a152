"""A chunk of thousands of records → messages, column by column. Same outcome as `received`, many times faster.

NumPy finds every field of all records at once (`protocol/records/record_batch`); what is left per message is a slice
for its body, a dict for its properties and the construction of the message, each a call in C where it can be.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmqspark.client.pulling.inflate import inflated
from rmqspark.client.pulling.property_maps import decoded_properties, slices, span_bytes, texts
from rmqspark.message_queue import MessageQueue
from rmqspark.model import ReceivedMessage
from rmqspark.protocol.buffers.spans import items_at
from rmqspark.protocol.records.message_id import IPV4_HOST_BYTES
from rmqspark.protocol.records.offset_ids import offset_msg_ids
from rmqspark.protocol.records.properties import Property, split_keys
from rmqspark.protocol.records.record import SysFlag
from rmqspark.protocol.records.record_batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from rmqspark.client.pulling.property_maps import DecodedProperties

_SHORT_RUN: Final = 4  # equal numbers; to look for shorter ones on the average does not pay
_INFLATED_AT_ONCE: Final = 16  # at most 256 MiB


def received_batch(batch: RecordBatch, broker_name: str) -> list[ReceivedMessage]:
    """The messages of all records, in their order. RecordError names the first record that is not sound."""
    if not len(batch):
        return []
    raw = batch.buffer.data
    # The dicts first: they make garbage collections due, which go through every list that is there then.
    properties = decoded_properties(batch, raw)
    bodies = _bodies(batch)
    first_topic = span_bytes(batch.buffer, batch.topics, 0)
    topic = first_topic.decode("utf-8", "replace") if batch.is_all_of_topic(first_topic) else None
    topics = list(texts(raw, batch.topics)) if topic is None else repeat(topic)
    offset_ids = _offset_ids(raw, batch)
    return list(
        map(
            ReceivedMessage,
            topics,
            bodies,
            properties.values(Property.TAGS, None),
            _keys(properties),
            properties.maps,
            _message_ids(properties, offset_ids),
            _queues(topic, topics, batch, broker_name),
            batch.queue_offsets.tolist(),
            _numbers(batch.born_timestamps_ms),
            _numbers(batch.store_timestamps_ms),
            _numbers(batch.reconsume_times),
            _numbers(batch.flags),
            offset_ids,
        )
    )


def received_within(batch: RecordBatch, broker_name: str, max_bytes: int) -> list[ReceivedMessage]:
    """The same, but where some are compressed only of the first: until their bodies have about so many bytes, inflated.

    What is stored says nothing of that: of four kilobytes each there may be four megabytes.
    """
    if not (batch.sys_flags & SysFlag.COMPRESSED).any():
        return received_batch(batch, broker_name)
    messages: list[ReceivedMessage] = []
    size_bytes = 0
    for first in range(0, len(batch), _INFLATED_AT_ONCE):
        piece = slice(first, first + _INFLATED_AT_ONCE)
        some = received_batch(RecordBatch(batch.buffer, batch.positions[piece], batch.sizes[piece]), broker_name)
        messages += some
        size_bytes += sum([len(message.body) for message in some])
        if size_bytes >= max_bytes:
            break
    return messages


def _keys(properties: DecodedProperties) -> Iterable[tuple[str, ...]]:
    """As tuples, which the garbage collector soon leaves alone; lists when they are asked for (ReceivedMessage)."""
    joined = properties.values(Property.KEYS, "")
    if isinstance(joined, repeat):
        return repeat(tuple(split_keys(next(joined))))
    return [tuple(split_keys(text)) for text in joined]


def _numbers(column: NDArray[np.integer[Any]]) -> Iterable[int]:
    """One object for each run of equal numbers: times of messages often come in long ones, counts are all the same."""
    ends = np.flatnonzero(column[1:] != column[:-1]) + 1
    if not len(ends):
        return repeat(int(column[0]), len(column))
    if len(ends) > len(column) // _SHORT_RUN:
        each: list[int] = column.tolist()
        return each
    bounds = np.concatenate(([0], ends, [len(column)]))
    return chain.from_iterable(map(repeat, column[bounds[:-1]].tolist(), np.diff(bounds).tolist()))


def _bodies(batch: RecordBatch) -> list[bytes]:
    bodies = batch.checked_bodies()
    for index in np.flatnonzero(batch.sys_flags & SysFlag.COMPRESSED).tolist():
        bodies[index] = inflated(bodies[index], int(batch.sys_flags[index]))
    return bodies


def _queues(topic: str | None, topics: Iterable[str], batch: RecordBatch, broker_name: str) -> Iterable[MessageQueue]:
    """One object for each queue there is, which is mostly one."""
    queue_ids = _numbers(batch.queue_ids)
    if topic is not None and isinstance(queue_ids, repeat):
        return repeat(MessageQueue(topic, broker_name, next(queue_ids)))
    places = list(zip(topics, batch.queue_ids.tolist(), strict=False))  # topics may be without end
    queues = {place: MessageQueue(place[0], broker_name, place[1]) for place in set(places)}
    return map(queues.__getitem__, places)


def _offset_ids(raw: memoryview, batch: RecordBatch) -> list[str]:
    """Store host and physical offset in hex (spec: storage, section 10)."""
    hosts, offsets = batch.store_hosts, batch.physical_offsets
    if (hosts.lengths == IPV4_HOST_BYTES).all():
        return offset_msg_ids(items_at(batch.buffer, hosts.starts, f"V{IPV4_HOST_BYTES}"), offsets).split(",")
    places = zip(slices(raw, hosts), offsets.view(np.uint64).tolist(), strict=True)
    return [f"{host.hex().upper()}{offset:016X}" for host, offset in places]


def _message_ids(properties: DecodedProperties, offset_ids: list[str]) -> Iterable[str]:
    """The sender's id of each message, or the broker's where there is none."""
    if properties.shared is not None and Property.UNIQ_KEY not in properties.shared:
        return offset_ids
    unique_keys = properties.values(Property.UNIQ_KEY, None)
    return [offset_id if key is None else key for key, offset_id in zip(unique_keys, offset_ids, strict=True)]
