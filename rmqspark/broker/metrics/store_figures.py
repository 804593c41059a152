"""What the store and its timers have to say at this moment. RocketMQ: DefaultStoreMetricsManager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.metrics.families import (
    DISK_FREE,
    DISK_TOTAL,
    DISPATCH_BEHIND,
    FLUSH_BEHIND,
    INCARNATION,
    LOCAL_DISK,
    RESERVE_TIME,
    STORAGE_SIZE,
    TIMER_DEQUEUE_LAG,
    TIMER_DEQUEUE_LATENCY,
    TIMER_ENQUEUE_LAG,
    TIMER_ENQUEUE_LATENCY,
    TIMER_SNAPSHOT,
    WRITABLE,
)
from rmqspark.protocol.names import TIMER_TOPIC

if TYPE_CHECKING:
    from rmqspark.broker.delays.timed_messages import TimedMessages
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.store.message_store import MessageStore

_BOUNDS_S: Final = (5, 60, 300, 900, 3600, 14400, 28800, 86400)


def tell_store(figures: Figures, store: MessageStore, now_ms: int) -> None:
    found = store.figures()
    disk, end = found.disk, found.end_physical_offset
    figures.add(STORAGE_SIZE, LOCAL_DISK, disk.total_bytes - disk.free_bytes)
    figures.add(FLUSH_BEHIND, LOCAL_DISK, end - found.flushed_physical_offset)
    figures.add(DISPATCH_BEHIND, LOCAL_DISK, end - found.readable_physical_offset)
    if found.earliest_timestamp_ms > 0:
        figures.add(RESERVE_TIME, LOCAL_DISK, now_ms - found.earliest_timestamp_ms)
    figures.add(DISK_FREE, (), disk.free_bytes)
    figures.add(DISK_TOTAL, (), disk.total_bytes)
    figures.add(WRITABLE, (), not found.refusal)
    figures.add(INCARNATION, (), store.incarnation)


def tell_timers(figures: Figures, store: MessageStore, timed: TimedMessages, now_ms: int) -> None:
    stored_ms = store.queues.store_time_at(TIMER_TOPIC, 0, timed.next_offset) if timed.unread else -1
    figures.add(TIMER_ENQUEUE_LAG, LOCAL_DISK, timed.unread)
    figures.add(TIMER_ENQUEUE_LATENCY, LOCAL_DISK, max(0, now_ms - stored_ms) if stored_ms > 0 else 0)
    figures.add(TIMER_DEQUEUE_LAG, LOCAL_DISK, timed.waiting)
    figures.add(TIMER_DEQUEUE_LATENCY, LOCAL_DISK, timed.behind_s(now_ms))
    bounds_ms = [now_ms + bound_s * 1000 for bound_s in _BOUNDS_S]
    for bound_s, count in zip(_BOUNDS_S, timed.waiting_by_time(now_ms, bounds_ms), strict=True):
        figures.add(TIMER_SNAPSHOT, (str(bound_s), *LOCAL_DISK), count)
