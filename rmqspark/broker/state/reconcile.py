"""Brings a broker's tables in line with what its store and its settings say, before it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from rmqspark.broker.state.lost_topics import LostTopics
from rmqspark.broker.state.topics import system_topics

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.store.message_store import MessageStore

log = structlog.get_logger("rmqspark.broker")


def reconcile(config: BrokerConfig, store: MessageStore, tables: BrokerTables, clock: Clock) -> None:
    """Forgets what was known of topics since deleted, adds the topics that are missing and moves the offsets that lie
    outside their queues; logs each. A slave's offsets are its master's, whose queues may have more."""
    for damage in store.damage:
        log.warning("the log is damaged, what lies beyond is served", damage=str(damage))
    tables.forget_deleted(store.deletions.since)
    tables.known_deletion_ms = store.deletions.newest_ms
    tables.topics.add_system_topics(system_topics(config), clock.now_ms())
    lost = LostTopics(config, store, tables.topics, tables.groups, clock)
    for topic in store.queues.topics():
        lost.restore(topic, max(store.queues.queue_ids(topic), default=-1) + 1)
    moved = [] if config.is_slave else tables.offsets.clamp(store.queues.bounds)
    for queue, offset in moved:
        inside = tables.offsets.committed(*queue)
        log.warning("consumer offset outside its queue was moved", queue=str(queue), offset=offset, moved_to=inside)
