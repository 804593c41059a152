"""The tables that a broker remembers across restarts, each with its file under config/ (spec: storage, section 9)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import structlog

from rmqspark.broker.delays.delay_table import DelayTable
from rmqspark.broker.delays.timer_table import TimerProgress
from rmqspark.broker.state.groups import SubscriptionGroups
from rmqspark.broker.state.locks import QueueLocks
from rmqspark.broker.state.offsets import ConsumerOffsets
from rmqspark.broker.state.table_file import TableFile
from rmqspark.broker.state.topics import TopicTable
from rmqspark.protocol.bodies.admin import ConsumerOffsetTable, DelayOffsetTable, SubscriptionGroupTable, TimerTable
from rmqspark.protocol.bodies.client import QueueLeaseTable
from rmqspark.protocol.bodies.route import TopicConfigTable
from rmqspark.store.json_table import JsonTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.clock import Clock
    from rmqspark.protocol.bodies.base import Body
    from rmqspark.store.files import FileSystem

T = TypeVar("T", bound="Body")

log = structlog.get_logger("rmqspark.broker")


class Loaded(NamedTuple):
    """A table's file, and up to which deletion of a topic the table had heard of them when it was saved; None where
    the file does not say, for another version or RocketMQ wrote it, or there is none."""

    file: JsonTable
    known_deletion_ms: int | None


class BrokerTables:
    """Topics, groups, consumer offsets, leases and delays, loaded when made. Raises DamagedFile where a file cannot be
    read.

    The store has a deletion of a topic on disk at once, the tables have it when they are saved next. A topic made anew
    before that may have messages that were acknowledged, and what a file says of its name after a kill is of the one
    before: groups would begin behind these messages. So each file says up to which deletion its table had heard of
    them, and nothing is believed that it says of topics deleted later (`forget_deleted`).
    """

    def __init__(self, config: BrokerConfig, files: FileSystem, clock: Clock) -> None:
        self._clock = clock
        now_ms = clock.now_ms()
        topics = TopicTable(max_topics=config.max_topic_nums, now_ms=now_ms, auto_creates=config.auto_creates_topics)
        groups = SubscriptionGroups(
            auto_create=config.auto_create_subscription_group, max_groups=config.max_group_nums, now_ms=now_ms
        )
        offsets = ConsumerOffsets()
        topics_json = _load(files, "topics.json", TopicConfigTable, topics.load)
        groups_json = _load(files, "subscriptionGroup.json", SubscriptionGroupTable, groups.load)
        offsets_json = _load(
            files, "consumerOffset.json", ConsumerOffsetTable, offsets.load, else_of="lmqConsumerOffset.json"
        )
        resets_json = _load(files, "offsetResets.json", ConsumerOffsetTable, offsets.resets.load)
        locks = QueueLocks(lease_ms=config.consume_group_lock_live_time)
        monotonic_ms = clock.monotonic_ms()
        leases_json = _load(files, "queueLeases.json", QueueLeaseTable, lambda table: locks.load(table, monotonic_ms))
        delays = DelayTable()
        delays_json = _load(files, "delayOffset.json", DelayOffsetTable, delays.load)
        timer = TimerProgress(files)
        timer_json = _load(files, "timerOffset.json", TimerTable, timer.load)
        self.topics, self.groups, self.offsets, self.locks = topics, groups, offsets, locks
        self.delays, self.timer = delays, timer
        self.known_deletion_ms: int | None = None
        """The newest deletion of a topic that these tables have heard of, by its time in the store."""
        self._of_topics = (
            (topics_json.known_deletion_ms, self._remove_topics),
            (offsets_json.known_deletion_ms, offsets.forget_topics),
            (resets_json.known_deletion_ms, offsets.resets.forget_topics),
            (leases_json.known_deletion_ms, locks.forget_topics),
        )
        self.offset_file = TableFile(offsets_json.file, offsets, self._dated(lambda: offsets.table(clock.now_ms())))
        self.reset_file = TableFile(resets_json.file, offsets.resets, self._dated(offsets.resets.table))
        self.lease_file = TableFile(leases_json.file, locks, self._dated(locks.table))
        # In the order in which they are saved. A reader that was not told of a reset commits over the offset that it
        # moved. Were a lease given up on disk and the commit before it not, its group would go back, and its owner
        # could not commit again. And the next group or topic of a name takes what is known of it for its own.
        self._files = (
            self.reset_file,
            self.offset_file,
            self.lease_file,
            TableFile(groups_json.file, groups, groups.table),
            TableFile(topics_json.file, topics, self._dated(topics.table)),
            TableFile(delays_json.file, delays, delays.table),
            TableFile(timer_json.file, timer, timer.table),
        )
        self._saving = asyncio.Lock()
        self._asked = self._saved = 0  # who asked for a save so far, and who of them has it

    def _dated(self, table: Callable[[], Any]) -> Callable[[], Any]:
        """With the newest deletion that it has heard of."""
        return lambda: msgspec.structs.replace(table(), knownDeletionMs=self.known_deletion_ms)

    def _remove_topics(self, topics: Collection[str]) -> None:
        for topic in topics:
            self.topics.remove(topic, self._clock.now_ms())

    def forget_topic(self, topic: str) -> None:
        """It is in no table any more, nor is anything that the next one of its name could take for its own."""
        for _, forget in self._of_topics:
            forget([topic])

    def forget_group(self, group: str, *, with_offsets: bool) -> None:
        """It is in no table any more, nor do its members hold a queue: those that are there still take theirs anew.

        Its offsets and resets stay for the next group of its name, unless they are to go, too.
        """
        self.groups.remove(group, self._clock.now_ms())
        self.locks.forget_group(group)
        if with_offsets:
            self.offsets.forget_group(group)

    def forget_deleted(self, deleted_since: Callable[[int], Collection[str]]) -> None:
        """Forgets what files said of topics that were deleted after these were saved, each by what it knew.
        `deleted_since` gives the topics deleted after the deletion that has this time."""
        for known_ms, forget in self._of_topics:
            if known_ms is not None:
                forget(deleted_since(known_ms))

    async def save(self) -> None:
        """Returns once the files hold at least what the tables hold now, and all changes there are with it. Whenever a
        kill comes, what is on disk of a change is its first part: one file is written when those before it are safe,
        and all as things were at one moment. Raises NotWritable at the first that cannot be written, and leaves out
        those behind it."""
        self._asked = number = self._asked + 1
        async with self._saving:
            if number <= self._saved:
                return  # whoever saved last began after this
            asked = self._asked
            for write in [file.snapshot() for file in self._files if not file.is_saved]:
                await write()
            self._saved = asked


def _load(
    files: FileSystem, name: str, kind: type[T], take: Callable[[T], None], *, else_of: str | None = None
) -> Loaded:
    """Has `take` take over what the file holds, if there is one; else what another does, in which RocketMQ's broker
    keeps the same by other settings (there enableLmq). Raises DamagedFile."""
    file = JsonTable(files, f"config/{name}")
    stored = file.load(lambda text: kind.decode(text.encode()))
    if stored is None and else_of is not None:
        stored = JsonTable(files, f"config/{else_of}").load(lambda text: kind.decode(text.encode()))
    if file.warning:
        log.warning("a table was read from its copy", reason=file.warning)
    if stored is None:
        return Loaded(file, None)
    take(stored)
    return Loaded(file, getattr(stored, "knownDeletionMs", None))
