"""Batch reads of store directories, with no broker: option `store`.

The directory is a store, or a folder of stores as `rmq up` makes one (`DIR/broker-a` …); also one that Apache RocketMQ
wrote. What is not asked for is not read: times and offsets choose ranges of the queues, and these the files.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmqspark.clock import SystemClock
from rmqspark.errors import StoreError
from rmqspark.source.loss import DAMAGED, DELETED, Fate, lose
from rmqspark.source.planning.dealing import check_task_size, split
from rmqspark.source.planning.log_plan import stretches
from rmqspark.source.planning.planner import range_in
from rmqspark.source.planning.start import resolve
from rmqspark.source.planning.stored_queues import StoredQueues
from rmqspark.source.queue_range import QueueRange
from rmqspark.source.tasks.choice import Choice
from rmqspark.source.tasks.columns import columns_of
from rmqspark.source.tasks.direct import limits_of
from rmqspark.spark_worker import settle
from rmqspark.store.direct.read import Unread, Wanted, read_ranges
from rmqspark.store.direct.tails import Tail
from rmqspark.store.direct.view import StoreView, identity_of
from rmqspark.store.disk_errors import as_store_errors
from rmqspark.store.posix_files import PosixFileSystem
from rmqspark.travelling import Travelling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from rmqspark.source.options import SourceOptions

ROWS_OF_A_TASK = 250_000


@dataclass
class StorePartition(Travelling, InputPartition):
    """One task's share of a store without a broker: its path, ranges of some queues, and those of their entries that
    the queues' files lack."""

    path: str
    ranges: tuple[QueueRange, ...]
    tails: dict[tuple[str, int], Tail]


class RmqStoreReader(Travelling, DataSourceReader):
    """Reads the stores at or in one directory once."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Stretches of the logs, fixed when the query is planned."""
        options, now_ms = self._options, SystemClock().now_ms()
        assert options.store is not None
        with StoredQueues(options.store, options.subscription) as stored:
            snapshot = stored.snapshot()
            starts = resolve(options.start, snapshot, stored, now_ms)
            ends = resolve(options.end, snapshot, stored, now_ms)
            by_store: dict[str, list[QueueRange]] = defaultdict(list)
            for queue, start in sorted(starts.items()):
                if start < ends[queue]:
                    found = range_in(snapshot.store_of(queue), queue, start, ends[queue])
                    by_store[queue.broker_name].append(found)
            for name in by_store:
                stored.check_log(name)
            return [
                StorePartition(stored.paths[name], tuple(task), stored.tails(task))
                for name, ranges in by_store.items()
                for task in _tasks(stored, ranges, options)
            ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, StorePartition):  # else it is what Spark plans where there is nothing to read
            settle()
            yield from read_store(partition, self._options, self._schema)


def read_store(partition: StorePartition, options: SourceOptions, schema: StructType) -> Iterator[Any]:
    """The Arrow batches of a partition. Raises StoreError where the files cannot be read or are another store's by now,
    and DataLoss."""
    columns = columns_of(options.for_tasks, schema, *(wanted.queue for wanted in partition.ranges))
    choice = Choice(options.for_tasks)
    wanted = [
        Wanted(queue.topic, queue.queue_id, start, end, topic_deleted_ms)
        for queue, start, end, topic_deleted_ms, _ in partition.ranges
    ]
    files = PosixFileSystem(partition.path)
    with as_store_errors("read", partition.path, files):
        view = StoreView(files)
    if not view.log.segments:
        raise StoreError(f"There is no store at {partition.path} where this task runs.", hint="Tasks need its files.")
    with view:
        _check_identity(files, partition)
        gaps = _Gaps(view, partition.ranges, tolerant=not options.fail_on_data_loss)
        late = view.pages_may_come_late  # or never, where a broker died with its machine: checksums tell
        for found in read_ranges(
            view,
            wanted,
            limits_of(schema),
            choice.tag_codes,
            partition.tails,
            check_crc=late,
            pages_may_come_late=False,
            nobody_else_has_them=True,
        ):
            if isinstance(found, Unread):
                gaps.add(found)
            else:
                yield from columns.batches(choice.of(found))
        gaps.tell()


class _Gaps:
    """What the files of a partition do not give. It is found in pieces, one of each queue for every few thousand
    messages in the log; those that follow each other are told as one."""

    def __init__(self, view: StoreView, ranges: Sequence[QueueRange], *, tolerant: bool) -> None:
        self._view = view
        self._ranges = ranges
        self._tolerant = tolerant
        self._untold: dict[int, Unread] = {}

    def add(self, found: Unread) -> None:
        """Raises DataLoss at the first one, if that is not to be borne."""
        before = self._untold.get(found.number, found._replace(end=found.start))
        if before.end == found.start:
            found = found._replace(start=before.start)
        else:
            self._lose(before)
        self._untold[found.number] = found
        if not self._tolerant:
            self.tell()

    def tell(self) -> None:
        """All that has been found, and is not told yet."""
        for each in self._untold.values():
            self._lose(each)
        self._untold.clear()

    def _lose(self, gap: Unread) -> None:
        planned = self._ranges[gap.number]
        lose(planned.queue, gap.start, gap.end, _fate(self._view, planned), tolerant=self._tolerant)


def _check_identity(files: PosixFileSystem, partition: StorePartition) -> None:
    """Raises StoreError where another store has come to the place of the one that was planned for: its offsets are
    other messages'."""
    planned = partition.ranges[0].store_id
    found = identity_of(files)
    if planned and (found is None or found.store_id != planned):
        raise StoreError(
            f"At {partition.path} is another store than when this read was planned.",
            hint="Load it anew: a frame reads what was there at its first action.",
        )


def _fate(view: StoreView, planned: QueueRange) -> Fate:
    """What has become of messages that the files do not give."""
    with suppress(OSError, StoreError):
        deletion = view.deletions().get(planned.queue.topic)
        if deletion is not None and deletion.deleted_ms > planned.topic_deleted_ms:
            return DELETED
    return DAMAGED


def _tasks(stored: StoredQueues, ranges: Sequence[QueueRange], options: SourceOptions) -> list[list[QueueRange]]:
    check_task_size(ranges, options.max_records_per_partition)
    total = sum(wanted.size for wanted in ranges)
    pieces = split(ranges, at_least=options.min_partitions)
    count = len(pieces) if options.min_partitions else -(-total // ROWS_OF_A_TASK)
    queues = {wanted.queue: stored.source(wanted.queue) for wanted in ranges}
    return stretches(queues, ranges, count, options.max_records_per_partition or total)
