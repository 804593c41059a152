"""Messages of many shapes, each with a name of its own, singly and as a bulk."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from rmqspark.model import Message
from rmqspark.protocol.buffers.columns import Column
from rmqspark.protocol.records.message_id import pack_host
from rmqspark.protocol.records.property_builder import build_properties
from rmqspark.protocol.records.record_builder import encode_records
from rmqspark.protocol.records.unique_keys import unique_keys
from rmqspark.sink.sends.bulk_send import BulkSend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from rmqspark.model import MessageQueue

_BODY_BYTES = (1, 10, 100, 100, 700, 5000)  # those above 4096 producers compress
_TAGS = (None, "paid", "shipped")
_PROPERTIES: tuple[dict[str, str], ...] = ({}, {}, {"colour": "red"}, {"colour": "grün", "size": "xl"})
_BORN_HOST = pack_host("127.0.0.1", 1)


def messages(topic: str, name: str, rng: Random) -> Iterator[Message]:
    """Without end; the n-th has the key `name`-n."""
    for number in count():
        size = rng.choice(_BODY_BYTES)
        body = rng.randbytes(size) if size < 1000 else f"{name}-{number} ".encode() * (size // 10)
        properties = rng.choice(_PROPERTIES)
        yield Message(topic, body, tags=rng.choice(_TAGS), keys=[f"{name}-{number}"], properties=properties)


def bulk_of(rows: Sequence[Message], queue: MessageQueue, prefix: str, born_timestamp_ms: int) -> BulkSend:
    """The same messages as finished records for one queue; `prefix` begins their unique ids, 20 hex digits."""
    properties = build_properties(
        len(rows),
        {
            "TAGS": _column([message.tags or "" for message in rows]),
            "KEYS": _column([" ".join(message.keys) for message in rows]),
            "UNIQ_KEY": unique_keys(prefix, np.arange(len(rows))),
            "colour": _column([message.properties.get("colour", "") for message in rows]),
            "size": _column([message.properties.get("size", "") for message in rows]),
        },
    )
    bodies = _column([message.body for message in rows])
    records = encode_records(
        queue.topic, queue.queue_id, bodies, properties, born_timestamp_ms=born_timestamp_ms, born_host=_BORN_HOST
    )
    return BulkSend.of(queue, records)


def _column(values: Sequence[bytes | str]) -> Column:
    encoded = [value.encode() if isinstance(value, str) else value for value in values]
    offsets = np.concatenate(([0], np.cumsum([len(value) for value in encoded]))).astype(np.int64)
    return Column(np.frombuffer(b"".join(encoded), np.uint8), offsets)
