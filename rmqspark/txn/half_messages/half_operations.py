"""Op records: which half messages are done with, however they ended.

A record in RMQ_SYS_TRANS_OP_HALF_TOPIC with the tag `d`; its body lists queue offsets of the half topic, each followed
by a comma (`5,6,17,`). RocketMQ 4 wrote one offset and no comma. Spec: semantics, section 7; RocketMQ's
TransactionalMessageBridge.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.java_hash import tags_code
from rmqspark.protocol.names import OP_HALF_TOPIC
from rmqspark.protocol.records.properties import Property, encode_properties
from rmqspark.protocol.records.record import encode_record
from rmqspark.store.draft import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

REMOVED_TAG: Final = "d"

_PROPERTIES: Final = encode_properties({Property.WAIT: "true", Property.TAGS: REMOVED_TAG})
_MOST_DIGITS: Final = 19
_MOST_KNOWN: Final = 10_000


def encode_operation(half_offsets: Sequence[int]) -> bytes:
    """The body that says these half messages are done with."""
    return "".join(f"{offset}," for offset in half_offsets).encode()


def decode_operation(body: bytes) -> list[int]:
    """The half messages an op record names; what is no number names none."""
    return [int(piece) for piece in body.split(b",") if piece.isdigit() and len(piece) <= _MOST_DIGITS]


def operation_draft(half_offsets: Sequence[int], *, now_ms: int, host: bytes) -> Draft:
    """The op record for these halves. `host` is the broker's own host field, which RocketMQ puts in as the sender's."""
    record = encode_record(
        topic=OP_HALF_TOPIC,
        body=encode_operation(half_offsets),
        properties=_PROPERTIES,
        born_timestamp_ms=now_ms,
        born_host=host,
    )
    return Draft(OP_HALF_TOPIC, 0, record, tags_code(REMOVED_TAG))


class OperationQueue:
    """How far op records are still needed: those that name a half at or above the first open one.

    While that waits, for days where its producer wants it so, op records come with each transaction that ends. So they
    are known one by one up to a number, and beyond it some with those before them: more is needed then than had to be.
    """

    def __init__(self, first_offset: int) -> None:
        self._end_offset = first_offset
        self._rising: deque[tuple[int, int]] = deque()  # op records that name a higher half than any before, and which

    def add(self, op_offset: int, half_offsets: Sequence[int]) -> None:
        """An op record at `op_offset`, above all before; what is missing in between named nothing."""
        self._end_offset = op_offset + 1
        highest = max(half_offsets, default=-1)
        if not self._rising or highest > self._rising[-1][1]:
            self._rising.append((op_offset, highest))
        if len(self._rising) > _MOST_KNOWN:
            known = list(self._rising)
            self._rising = deque((first[0], second[1]) for first, second in zip(known[::2], known[1::2], strict=False))
            self._rising.extend(known[len(self._rising) * 2 :])

    def first_needed(self, first_open: int) -> int:
        """What RocketMQ keeps as the op queue's offset, with `first_open` as that of the half queue."""
        while self._rising and self._rising[0][1] < first_open:
            self._rising.popleft()
        return self._rising[0][0] if self._rising else self._end_offset
