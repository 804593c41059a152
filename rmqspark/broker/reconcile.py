"""Brings a broker's tables in line with what its store and its settings say, before it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from rmqspark.broker.topics import system_topics
from rmqspark.errors import InvalidName, NoPermission
from rmqspark.protocol.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.store.message_store import MessageStore

log = structlog.get_logger("rmqspark.broker")


def reconcile(config: BrokerConfig, store: MessageStore, tables: BrokerTables, now_ms: int) -> None:
    """Forgets what was known of topics since deleted, adds the topics that are missing and moves the offsets that lie
    outside their queues; logs each. A slave's offsets are its master's, whose queues may have more."""
    for damage in store.damage:
        log.warning("the log is damaged, what lies beyond is served", damage=str(damage))
    tables.forget_deleted(store.deletions.since)
    tables.known_deletion_ms = store.deletions.newest_ms
    tables.topics.add_system_topics(system_topics(config), now_ms)
    for topic in store.queues.topics():
        _restore_topic(topic, config, store, tables, now_ms)
    if config.is_slave:  # as the next master it finds in its log what was delivered, which may have been another's
        tables.delays.forget(now_ms)
        tables.timer.forget()
    moved = [] if config.is_slave else tables.offsets.clamp(store.queues.bounds)
    for queue, offset in moved:
        inside = tables.offsets.committed(*queue)
        log.warning("consumer offset outside its queue was moved", queue=str(queue), offset=offset, moved_to=inside)


def _restore_topic(topic: str, config: BrokerConfig, store: MessageStore, tables: BrokerTables, now_ms: int) -> None:
    """Only who makes a topic by sending to it waits until the table is on disk, not who sends to it meanwhile: a
    kill then leaves messages that were acknowledged, and a table that does not know their topic."""
    group = tables.groups.get(topic.removeprefix(RETRY_PREFIX)) if topic.startswith(RETRY_PREFIX) else None
    found = max(store.queues.queue_ids(topic), default=-1) + 1
    queues = min(max(found, group.retryQueueNums if group else 0), config.max_queue_nums)
    try:
        if tables.topics.restore(topic, queues, now_ms):
            log.warning("a topic that the table did not know is there again", topic=topic, queues=queues)
    except (InvalidName, NoPermission) as error:
        log.warning("a topic that the table does not know is left out", topic=topic, error=str(error))
