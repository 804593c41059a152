"""What a bulk must be like before the store looks into it, whether it is sent or held as half a batch.

That each message has the checksum of its body is looked at where not all who may write are trusted. To recovery one
that has not is the begin of a torn tail, and all that is behind it is cut off with it, whoever has sent that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zlib_ng.zlib_ng import crc32

from rmqspark.broker.sending.drafting import NOT_AT_ONCE
from rmqspark.errors import InvalidQueue, NoPermission, NotSupported, RecordError
from rmqspark.protocol.bulk.bulk_body import read_bulk
from rmqspark.protocol.bulk.topic_rows import decode_topic_rows
from rmqspark.protocol.names import NOT_SENDABLE, PARKING_TOPICS, RETRY_PREFIX, Perm
from rmqspark.protocol.records.record_batch import RecordBatch
from rmqspark.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.broker.delays.parked_bulks import ParkedBulks
    from rmqspark.broker.state.topics import TopicTable
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.bulk.topic_rows import TopicRun
    from rmqspark.protocol.headers.bulk import BulkSendRequestHeader, TopicsSendRequestHeader
    from rmqspark.protocol.headers.txn import TxnHalfRequestHeader

_REFUSED_PROPERTIES: Final = tuple(map(str.encode, NOT_AT_ONCE))


def check_target(topics: TopicTable, topic: str, queue_id: int) -> None:
    """Raises TopicNotFound, NoPermission or InvalidQueue unless bulks may be sent to this queue."""
    config = topics.require(topic)
    if (topic in NOT_SENDABLE and topic not in PARKING_TOPICS) or topic.startswith(RETRY_PREFIX):
        raise no_bulks(topic)
    if not config.perm & Perm.WRITE:
        raise NoPermission(f"Topic {topic!r} may not be written.")
    if not 0 <= queue_id < config.queue_count:
        raise InvalidQueue(
            f"Topic {topic!r} has {counted(config.writeQueueNums, 'queue')} to write to, there is no {queue_id}."
        )


def no_bulks(topic: str) -> NoPermission:
    """What is said of a topic that no bulk may be sent to."""
    return NoPermission(f"Topic {topic!r} takes no bulk sends.", hint="Send to a topic of your own.")


class BulkIntake:
    """Opens bulks. With `checks_bodies` the checksum of each message is compared with its body, too, which for small
    rows costs a broker some 40 % more."""

    def __init__(self, parked: ParkedBulks, *, checks_bodies: bool) -> None:
        self._parked = parked
        self._checks_bodies = checks_bodies

    def open(self, header: BulkSendRequestHeader | TxnHalfRequestHeader, body: memoryview) -> RecordBatch | BulkRows:
        """What a bulk for one queue brings, in the memory of its body. Raises RecordError where body and header
        disagree, or a message and its checksum, and what keeps messages from waiting, or from not waiting.

        What else is inside the records is the store's to check before it takes them.
        """
        _check_crc(body, header.bodyCrc32)
        bulk = read_bulk(body, header.count, header.recordSize)
        if self._checks_bodies:
            _check_bodies(bulk)
        if header.topic in PARKING_TOPICS:
            self._parked.check(header.topic, header.queueId, bulk)
        elif isinstance(bulk, RecordBatch):
            _refuse_what_must_wait(bulk)
        return bulk

    def open_many(self, header: TopicsSendRequestHeader, body: memoryview) -> tuple[Sequence[TopicRun], BulkRows]:
        """The same of rows for many queues, which do not wait."""
        _check_crc(body, header.bodyCrc32)
        runs, rows = decode_topic_rows(body, header.queues, header.count)
        if self._checks_bodies:
            _check_bodies(rows)
        return runs, rows


def _check_crc(body: memoryview, crc: int) -> None:
    """Raises RecordError unless this is the checksum of the bulk."""
    if crc32(body) != crc:
        raise RecordError("The checksum of the bulk is wrong: it was damaged on the way.")


def _check_bodies(bulk: RecordBatch | BulkRows) -> None:
    """Raises RecordError unless each message has the checksum of its body."""
    if isinstance(bulk, RecordBatch):
        bulk.check(check_crc=True)
    else:
        bulk.check_crcs()


def _refuse_what_must_wait(records: RecordBatch) -> None:
    """Raises NotSupported for messages that must not be delivered at once."""
    if records.has_any_property(_REFUSED_PROPERTIES):
        names = ", ".join(NOT_AT_ONCE)
        raise NotSupported(
            f"A message of the bulk has one of the properties that bulk sends do not support: {names}.",
            hint="Messages that are to wait are sent one by one, or in bulks to where they wait.",
        )
