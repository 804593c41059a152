"""What a slave's copies of queues can be asked for.

A slave may have begun later than its master, and lag behind. So of an offset that it does not have it never says that
it has moved: its master may have it (RocketMQ's `offsetCheckInSlave`, which is false).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import Busy
from rmqspark.protocol.headers.bulk import TO_THE_END

if TYPE_CHECKING:
    from rmqspark.store.message_store import MessageStore


class CopiedQueues:
    """The queues of a broker's store; a master's are no copies, and nothing is refused."""

    def __init__(self, store: MessageStore, *, is_slave: bool) -> None:
        self._store = store
        self._is_slave = is_slave

    def require_first_of(self, topic: str, queue_id: int, start: int, end: int) -> None:
        """Raises Busy where a slave does not have what the offsets [start, end) begin with, or may have what its master
        has not."""
        if not self._is_slave:
            return
        self.require_proven()
        low, high = self._store.queues.bounds(topic, queue_id)
        if start < low or start > high or start == high < end < TO_THE_END:
            raise Busy(
                f"Offset {start} of queue {queue_id} of {topic} is not on this slave, which has {low} to {high}: "
                "its master may have it.",
                hint="It is read once the master is back, or this slave is made the master.",
            )

    def require_proven(self) -> None:
        """Raises Busy where this may have been the master, and its successor may have other messages."""
        if self._is_slave and self._store.lineage.is_doubtful:
            raise Busy(
                "This slave's store was not a slave's before, and has not been compared with its master's yet.",
                hint="It is read once that was done.",
            )

    def require_begin(self, topic: str, queue_id: int) -> None:
        """Raises Busy where it may be the master alone that knows where a queue begins."""
        self.require_proven()
        if not self._is_slave or self._store.replica.is_whole:
            return
        low = self._store.queues.min_offset(topic, queue_id)
        if low:
            raise Busy(
                f"Queue {queue_id} of {topic} begins at {low} on this slave, "
                "which may have begun later than its master.",
                hint="It is known once the master is back, or this slave is made the master.",
            )
