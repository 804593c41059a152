"""The tables that a broker remembers across restarts, each with its file under config/ (spec: storage, section 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from rmqspark.broker.groups import SubscriptionGroups
from rmqspark.broker.locks import QueueLocks
from rmqspark.broker.offsets import ConsumerOffsets
from rmqspark.broker.table_file import TableFile, save_in_order
from rmqspark.broker.topics import TopicTable
from rmqspark.protocol.bodies import ConsumerOffsetTable, QueueLeaseTable, SubscriptionGroupTable, TopicConfigTable
from rmqspark.store.json_table import JsonTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies_base import Body
    from rmqspark.store.files import FileSystem

T = TypeVar("T", bound="Body")

log = structlog.get_logger("rmqspark.broker")


class BrokerTables:
    """Topics, groups, consumer offsets and leases, loaded when made. Raises DamagedFile where a file cannot be read."""

    def __init__(self, config: BrokerConfig, files: FileSystem, clock: Clock) -> None:
        now_ms = clock.now_ms()
        topics = TopicTable(max_topics=config.max_topic_nums, now_ms=now_ms)
        groups = SubscriptionGroups(
            auto_create=config.auto_create_subscription_group, max_groups=config.max_group_nums, now_ms=now_ms
        )
        offsets = ConsumerOffsets()
        topics_json = _load(files, "topics.json", TopicConfigTable, topics.load)
        groups_json = _load(files, "subscriptionGroup.json", SubscriptionGroupTable, groups.load)
        offsets_json = _load(files, "consumerOffset.json", ConsumerOffsetTable, offsets.load)
        resets_json = _load(files, "offsetResets.json", ConsumerOffsetTable, offsets.resets.load)
        locks = QueueLocks(lease_ms=config.consume_group_lock_live_time)
        monotonic_ms = clock.monotonic_ms()
        leases_json = _load(files, "queueLeases.json", QueueLeaseTable, lambda table: locks.load(table, monotonic_ms))
        self.topics, self.groups, self.offsets, self.locks = topics, groups, offsets, locks
        self.topic_file = TableFile(topics_json, topics, topics.table)
        self.group_file = TableFile(groups_json, groups, groups.table)
        self.offset_file = TableFile(offsets_json, offsets, lambda: offsets.table(clock.now_ms()))
        self.reset_file = TableFile(resets_json, offsets.resets, offsets.resets.table)
        self.lease_file = TableFile(leases_json, locks, locks.table)

    async def save(self) -> None:
        """Writes what has changed, groups and topics behind what is known of them: what goes with one of them must not
        be there when it has gone. Raises NotWritable if a file cannot be written."""
        await save_in_order(self.reset_file, self.offset_file, self.lease_file, self.group_file, self.topic_file)


def _load(files: FileSystem, name: str, kind: type[T], take: Callable[[T], None]) -> JsonTable:
    """Has `take` take over what the file holds, if there is one. Raises DamagedFile."""
    file = JsonTable(files, f"config/{name}")
    stored = file.load(lambda text: kind.decode(text.encode()))
    if file.warning:
        log.warning("a table was read from its copy", reason=file.warning)
    if stored is not None:
        take(stored)
    return file
