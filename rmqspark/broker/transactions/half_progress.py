"""How far the half queue and its op queue are through: the offsets of RocketMQ's group CID_RMQ_SYS_TRANS in both.

An offset that survived a power loss better than the log would pass over halves that nobody ended. So each is committed
only once what it rests on is on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.protocol.names import CHECK_GROUP, HALF_TOPIC, OP_HALF_TOPIC

if TYPE_CHECKING:
    from rmqspark.broker.state.offsets import ConsumerOffsets
    from rmqspark.store.message_store import MessageStore


class _Noted(NamedTuple):
    end_offset: int  # physical: up to where the log has to be on disk
    half_offset: int
    op_offset: int


class HalfProgress:
    """Belongs to the event loop's thread."""

    def __init__(self, store: MessageStore, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        self._noted: _Noted | None = None

    def committed(self, topic: str) -> int:
        """The committed offset of one of the two queues; where there is none, its beginning."""
        offset = self._offsets.committed(CHECK_GROUP, topic, 0)
        return self._store.queues.min_offset(topic, 0) if offset is None else offset

    def save(self, half_offset: int, op_offset: int) -> None:
        """Commits the offsets noted before, if the log is on disk that far, and notes these instead."""
        noted = self._noted
        if noted is not None:
            if self._store.flushed_offset < noted.end_offset:
                return
            self._commit(HALF_TOPIC, noted.half_offset)
            self._commit(OP_HALF_TOPIC, noted.op_offset)
        self._noted = _Noted(self._store.end_offset, half_offset, op_offset)

    def _commit(self, topic: str, offset: int) -> None:
        if self.committed(topic) != offset:
            self._offsets.commit(CHECK_GROUP, topic, 0, offset)
