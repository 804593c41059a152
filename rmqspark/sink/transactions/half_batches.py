"""The rows of one attempt as half batches: held by the brokers until their transaction is decided.

What is sent is what would be appended, so that deciding costs the broker no look at a row. Every half has a number
within the attempt and the broker, and is stored once however often it arrives. What the driver needs to have exactly
these halves committed is counted as they are made: for each broker, how many, and a digest over their checksums.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from rmqspark.client.spark.coordinator import require_transactions
from rmqspark.client.spark.txn import submit_half
from rmqspark.errors import NotSupported
from rmqspark.fault_points import fault_point
from rmqspark.protocol.bodies.txn import HeldAttempt
from rmqspark.protocol.bulk.bulk_rows import AS_ROWS_WITH_PROPERTIES
from rmqspark.protocol.headers.txn import TxnHalfRequestHeader
from rmqspark.protocol.records.message_id import UNIQUE_PREFIX_CHARACTERS
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.rows.checksum import RowChecksum
from rmqspark.sink.rows.hashes import add_bodies, add_rows
from rmqspark.sink.rows.rows import body_name, column
from rmqspark.sink.sends.bulk_send import BulkSend

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.records.record_builder import EncodedRecords
    from rmqspark.sink.rows.rows import Rows
    from rmqspark.sink.transactions.attempt import Attempt

_PORT_AT = 4  # of the ids that brokers give: host, port, offset


class HalfSend(NamedTuple):
    """One half, as it can be sent again and again."""

    bulk: BulkSend
    header: TxnHalfRequestHeader

    @property
    def broker_name(self) -> str:
        return self.bulk.broker_name

    @property
    def queues(self) -> frozenset[MessageQueue]:
        return self.bulk.queues

    def __str__(self) -> str:
        return str(self.bulk)

    @property
    def reusable(self) -> Bytes | None:
        return self.bulk.reusable

    @property
    def rows(self) -> int:
        return self.bulk.rows

    def submit(self, broker: BrokerClient) -> Future[Any]:
        require_transactions(broker)
        if self.bulk.record_size == AS_ROWS_WITH_PROPERTIES:
            _require_properties_of_rows(broker)
        held = submit_half(broker, self.header, [part.data for part in self.bulk.parts])
        fault_point("half_sent")
        return held


class HalfBatches:
    """The delivery of an exactly-once write: `held` and `total` are what its commit message says; with
    `topics_count` the topic of each row is a part of `total`."""

    joins_topics = False  # a half batch is held, voted for and appended for one queue

    def __init__(self, attempt: Attempt, *, topics_count: bool = False) -> None:
        self._attempt = attempt
        self._topics_count = topics_count
        self._key_prefix = key_prefix(attempt)
        self.total = RowChecksum()
        self.held: dict[str, HeldAttempt] = {}  # by broker name

    def ids(self, now_ms: int, rows: int) -> IdRange:
        """Ids that a row keeps when it is written again: its number within the partition decides, in the order in which
        the rows are sent. Where they are divided by queue, that is theirs of this attempt."""
        return IdRange(self._key_prefix, self.total.rows)

    def note(self, batch: Any, rows: Rows) -> None:
        topic = rows.topic if self._topics_count else None
        if rows.sys_flags.any():  # compressed: what it becomes is another matter than what it says
            add_bodies(self.total, column(batch.column(body_name(batch))), topic)
        else:
            add_rows(self.total, rows.crcs, rows.bodies.spans().lengths, topic)

    def pack(self, queue: MessageQueue, bulk: EncodedRecords | BulkRows) -> HalfSend:
        return self._half(BulkSend.of(queue, bulk))

    def _half(self, bulk: BulkSend) -> HalfSend:
        queue = bulk.queue
        held = self.held.setdefault(queue.broker_name, HeldAttempt(self._attempt.partition, self._attempt.name))
        header = self._header(bulk, held.halves)
        held.halves += 1
        held.rows += bulk.rows
        held.bytes += sum(len(part) for part in bulk.parts)
        held.digest += bulk.crc
        return HalfSend(bulk, header)

    def _header(self, bulk: BulkSend, sequence: int) -> TxnHalfRequestHeader:
        attempt = self._attempt
        return TxnHalfRequestHeader(
            attempt.transactional_id,
            attempt.epoch,
            attempt.version,
            attempt.partition,
            attempt.name,
            sequence,
            bulk.queue.topic,
            bulk.queue.queue_id,
            bulk.rows,
            bulk.record_size,
            bulk.crc,
        )


def _require_properties_of_rows(broker: BrokerClient) -> None:
    """Raises NotSupported for a broker that is older. It cannot be sent records instead: what a version consists of is
    told by the checksums of its halves, which have been counted."""
    able = broker.capabilities()
    if not able.takes_properties_of_rows:
        raise NotSupported(
            f"Broker {broker.name!r} is {able.product}, which takes no tags, keys and sharding keys in columns.",
            hint="Upgrade the brokers before the clients.",
        )


def key_prefix(attempt: Attempt) -> str:
    """The 20 hex digits that the ids of a partition's rows begin with, whoever writes them."""
    name = f"{attempt.transactional_id}\0{attempt.version}\0{attempt.partition}"
    digest = bytearray(blake2b(name.encode(), digest_size=UNIQUE_PREFIX_CHARACTERS // 2).digest())
    digest[_PORT_AT] |= 0x80  # no port is that large, so nobody takes it for the id that a broker gives
    return digest.hex().upper()
