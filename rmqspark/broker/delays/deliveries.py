"""What becomes of messages that waited when their time has come, and what a start finds in the log of it.

RocketMQ notes now and then how far it has come, and after a kill delivers again what came since. Here every delivery
says which record it is of (`parking.source_of`), so that each message comes once, over any kill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import structlog

from rmqspark.broker.delays.parking import delivered_draft, place_of
from rmqspark.broker.metrics.if_memory_allows import IF_MEMORY_ALLOWS
from rmqspark.broker.state.topics import queue_by_now
from rmqspark.errors import DecodeError, InvalidArgument
from rmqspark.protocol.records.record import SysFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqspark.broker.metrics.arrivals import Arrivals
    from rmqspark.errors import RmqError
    from rmqspark.protocol.bodies.route import TopicConfig
    from rmqspark.protocol.records.record import Record
    from rmqspark.store.draft import Appended, Draft
    from rmqspark.store.message_store import MessageStore

FindTopic: TypeAlias = "Callable[[str, int, int], TopicConfig | None]"
"""Given the topic, the queue, and the physical offset of the message that is for it."""

log = structlog.get_logger("rmqspark.broker")


class Append(Protocol):
    def __call__(self, drafts: Sequence[Draft], *, makes_room: bool = False) -> list[Appended]:
        """Stores messages, all or none; with `makes_room` on a disk that is full for others, too."""


class Deliveries:
    """Puts messages that waited where they belong. `append` is `Appender.append_together`, `find_topic` is
    `LostTopics.find`."""

    def __init__(self, store: MessageStore, append: Append, find_topic: FindTopic, arrivals: Arrivals) -> None:
        self._store = store
        self._append = append
        self._find_topic = find_topic
        self._arrivals = arrivals
        self.left_out = 0
        """How many there were that can be delivered nowhere. The log names each; they stay where they waited."""

    def deliver(self, records: Sequence[Record], more: bytes = b"") -> int:
        """All of these, with `more` behind their properties, or where one cannot be delivered the first of them;
        returns how many are done with. The one is left out when it is the first: it would hold up all behind it for
        ever. Raises what else the store refuses them with, all of them then.

        What waits is kept from expiring: only when it is delivered can a full disk be emptied.
        """
        try:
            self._deliver(records, more)
        except (DecodeError, InvalidArgument) as error:
            if len(records) > 1:
                return self.deliver(records[: len(records) // 2], more)
            self._leave_out(records[0], error)
        return len(records)

    def _deliver(self, records: Sequence[Record], more: bytes) -> None:
        drafts = [draft for record in records if (draft := self._draft_of(record, more)) is not None]
        if drafts:
            places = self._append(drafts, makes_room=True)
            with IF_MEMORY_ALLOWS:
                self._arrivals.tell_stored("delay", drafts, places)

    def sources_from(self, log_offset: int) -> list[int]:
        """What the deliveries at or behind `log_offset`, the end of a record, say of their sources, in order."""
        found: set[int] = set()
        for batch in self._store.records.since(max(log_offset, self._store.min_physical_offset)):
            found.update(np.unique(batch.prepared_transaction_offsets).tolist())
        return sorted(found - {0})

    def _draft_of(self, record: Record, more: bytes) -> Draft | None:
        """What is delivered of a record; None, which is logged, where there is nobody to deliver it to. Raises
        DecodeError, InvalidArgument."""
        place = place_of(record)
        sent_at = _sent_at(record)
        config = self._find_topic(place.topic, place.queue_id, sent_at)
        if config is None or self._store.deletions.took(place.topic, sent_at):
            log.warning("a delayed message has no topic any more", topic=place.topic, queue_offset=record.queue_offset)
            return None
        return delivered_draft(record, place._replace(queue_id=queue_by_now(config, place.queue_id)), more)

    def _leave_out(self, record: Record, error: RmqError) -> None:
        self.left_out += 1
        log.error(
            "a delayed message is left out",
            topic=record.topic,
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            physical_offset=record.physical_offset,
            reason=str(error),
        )


def _sent_at(record: Record) -> int:
    """The physical offset at which the message came: that of a transaction with its half, before it was committed. One
    that a consumer sends back has the flag of such, and names no half."""
    is_committed = record.sys_flag & SysFlag.TRANSACTION_MASK == SysFlag.COMMITTED
    return (record.prepared_transaction_offset if is_committed else 0) or record.physical_offset
