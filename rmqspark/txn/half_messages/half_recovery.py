"""What is open in a store, read from its queues, its log and its index. Writes nothing.

The op records behind the committed offset say what ended; committed messages say it too, where their op record is
missing (`prepared_scan.py`), and so do the last of those that were set aside: a message and its op record are written
in one go, of which a process that dies may leave the first. A copy that an Apache broker put back may belong to a half
below the committed offset, which none of these leads to: for such the index is asked whether the transaction's message
is there. Without an index such a copy counts as open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from rmqspark.errors import InvalidArgument, RecordError
from rmqspark.protocol.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from rmqspark.protocol.records.properties import Property
from rmqspark.protocol.records.record import SysFlag, decode_record
from rmqspark.txn.half_messages.half_message import HalfMessage, identity_of
from rmqspark.txn.half_messages.half_operations import OperationQueue, decode_operation
from rmqspark.txn.half_messages.half_replay import HalfReplay
from rmqspark.txn.half_messages.prepared_scan import prepared_offsets
from rmqspark.txn.queue_reader import QueueReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rmqspark.protocol.records.record import Record
    from rmqspark.store.message_store import MessageStore
    from rmqspark.txn.half_messages.half_message import Identity

_END_OF_TIME_MS: Final = (1 << 63) - 1
_MOST_COPIES: Final = 64
_LATELY: Final = 64  # messages; one at most for each start that could not mark what it found

log = structlog.get_logger("rmqspark.txn")


class Recovered(NamedTuple):
    """The open halves, the queue offsets of those that ended without an op record, where the half queue goes on, and
    the op records that are still needed."""

    open: list[HalfMessage]
    unmarked: list[int]
    next_offset: int
    operations: OperationQueue


def recover_halves(store: MessageStore, half_offset: int, op_offset: int) -> Recovered:
    """Everything from the committed offsets of both queues on."""
    operations = OperationQueue(op_offset)
    marked: set[int] = set()
    for record in QueueReader(store, OP_HALF_TOPIC, op_offset).all():
        named = decode_operation(record.body)
        operations.add(record.queue_offset, named)
        marked.update(offset for offset in named if offset >= half_offset)
    reader = QueueReader(store, HALF_TOPIC, half_offset)
    replay = HalfReplay(marked)
    for half in halves_among(reader.all()):
        replay.see(half)
    oldest = replay.first_unmarked
    found, unmarked = replay.settle(prepared_offsets(store, oldest.physical_offset) if oldest else set())
    open_halves = []
    aside = _set_aside_lately(store) if found else {}
    for half in found:
        was_set_aside = aside.get(half.identity, -1) > half.physical_offset  # and was not resumed since
        if was_set_aside or (half.is_copy and was_committed(store, half)):
            unmarked.append(half.queue_offset)
        else:
            open_halves.append(half)
    return Recovered(open_halves, unmarked, max(half_offset, reader.next_offset), operations)


def _set_aside_lately(store: MessageStore) -> dict[Identity, int]:
    """Where in the log the last messages lie that were set aside, by the half messages that they were."""
    begin, end = store.queues.bounds(CHECK_MAX_TIME_TOPIC, 0)
    records = QueueReader(store, CHECK_MAX_TIME_TOPIC, max(begin, end - _LATELY)).all()
    return {identity_of(record, record.property_map()): record.physical_offset for record in records}


def halves_among(records: Iterable[Record]) -> Iterator[HalfMessage]:
    """Those that are half messages; one that is none must not hold up the others (RocketMQ's issue 9500)."""
    for record in records:
        try:
            yield HalfMessage.of(record)
        except InvalidArgument as error:
            log.error("passed over in the half queue", queue_offset=record.queue_offset, reason=str(error))


def was_committed(store: MessageStore, half: HalfMessage) -> bool:
    """Whether the message of this half's transaction is in its topic, whichever copy was committed."""
    return any(found.sys_flag & SysFlag.COMMITTED for found in records_of(store, half, half.real_topic))


def records_of(store: MessageStore, half: HalfMessage, topic: str) -> Iterator[Record]:
    """Records of the half's transaction in a topic, as the index leads to them."""
    identity = half.identity
    for raw in store.query(topic, identity.unique_key, 0, _END_OF_TIME_MS, _MOST_COPIES):
        try:
            record = decode_record(raw)
        except RecordError:
            continue  # damaged: it says nothing of whose it is
        properties = record.property_map()
        same = properties.get(Property.UNIQ_KEY), properties.get(Property.PRODUCER_GROUP), record.born_timestamp_ms
        if record.topic == topic and same == (identity.unique_key, identity.group, identity.born_timestamp_ms):
            yield record
