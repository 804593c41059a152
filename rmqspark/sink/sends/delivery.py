"""How rows get into their topics: what a `WriteTask` leaves to the guarantee it writes under.

`AtLeastOnce` is here: rows are in their queues as soon as a send is acknowledged. `half_batches.HalfBatches` is the
other: rows are held by the brokers until their transaction is decided.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from rmqspark.protocol.records.message_id import UniqueIds
from rmqspark.protocol.records.unique_keys import IdRange
from rmqspark.sink.sends.bulk_send import BulkSend

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rmqspark.client.cluster.broker_client import BrokerClient
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.buffers.spans import Bytes
    from rmqspark.protocol.bulk.bulk_rows import BulkRows
    from rmqspark.protocol.records.record_builder import EncodedRecords
    from rmqspark.sink.rows.rows import Rows


class Send(Protocol):
    """Rows for queues of one broker, as they can be sent again and again; in words, where they go. `reusable` is memory
    that the next may be made in."""

    @property
    def broker_name(self) -> str: ...
    @property
    def queues(self) -> frozenset[MessageQueue]: ...
    @property
    def reusable(self) -> Bytes | None: ...
    @property
    def rows(self) -> int: ...

    def submit(self, broker: BrokerClient) -> Future[Any]:
        """Sends the rows; the future is done when they are stored, or raises what the broker answered."""


class Delivery(Protocol):
    """Gives rows their ids, and sends the shape in which they travel. `joins_topics` says that rows for many queues may
    travel together (`topic_sends.py`), without being noted."""

    joins_topics: bool

    def ids(self, now_ms: int, rows: int) -> IdRange:
        """The unique ids of the next rows."""

    def note(self, batch: Any, rows: Rows) -> None:
        """Sees each Arrow batch once, and the columns it has become, before they are sent."""

    def pack(self, queue: MessageQueue, bulk: EncodedRecords | BulkRows) -> Send:
        """One send of rows for a queue."""


class AtLeastOnce:
    """Fresh ids, plain bulk sends, nothing to remember."""

    joins_topics = True

    def __init__(self, client: ClusterClient) -> None:
        self._ids = UniqueIds(client.entropy.token(4), os.getpid(), client.ip)

    def ids(self, now_ms: int, rows: int) -> IdRange:
        return IdRange(self._ids.prefix, self._ids.reserve(now_ms, rows))

    def note(self, batch: Any, rows: Rows) -> None:
        """A row that is written twice is not to be found out."""

    def pack(self, queue: MessageQueue, bulk: EncodedRecords | BulkRows) -> BulkSend:
        return BulkSend.of(queue, bulk)
