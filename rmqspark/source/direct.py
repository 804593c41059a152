"""readMode=direct: tasks read the files of the broker's store themselves; the broker gives only offsets.

The broker says which store it has and where that lies. A task that finds this very store there (its id counts, not the
path) reads it; one that does not, on another machine say, reads through the broker and says so once per process. The
same goes for each message that the files cannot vouch for (`store/direct/read.py`): the newest few, which the broker
has not written to its queue files yet; those whose file expired under the task; those of a broker that died in the
middle; and those of a topic that was deleted and made anew after the offsets were planned. So what is lost and what is
not is always the broker's word, as without direct reads.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.shared import shared_client
from rmqspark.errors import RmqError, StoreError
from rmqspark.source.arrow import rows_of_a_batch
from rmqspark.source.choice import Choice
from rmqspark.source.columns import columns_of
from rmqspark.source.dealing import split
from rmqspark.source.fetch import fetch
from rmqspark.source.log_plan import stretches
from rmqspark.source.partitions import DirectPartition, StorePlace
from rmqspark.store.direct.read import Limits, Unread, Wanted, read_ranges
from rmqspark.store.direct.view import StoreView, identity_of
from rmqspark.store.posix_files import PosixFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.arrow import ArrowColumns
    from rmqspark.source.options import SourceOptions
    from rmqspark.source.partitions import Holder
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions
    from rmqspark.source.value_columns import ValueColumns

CHUNK_BYTES = 4 << 20
MOST_TASKS = 64  # of a batch, unless minPartitions says otherwise: each has a part of each queue
ROWS_OF_A_TASK = 50_000  # a batch that has fewer for each queue is dealt to fewer tasks than it has queues

_log = logging.getLogger(__name__)
_said: set[str] = set()  # paths of stores that this process could not read, once said


def plan_direct(
    client: ClusterClient,
    planned: Sequence[QueueRange],
    options: SourceOptions,
    holder: Holder,
    asked: TaskOptions,
) -> tuple[list[InputPartition], list[QueueRange]]:
    """Partitions for the queues of brokers that say where their stores are, and the ranges of all others; and of other
    stores than these, of which the broker tells what became of them."""
    by_broker: dict[str, list[QueueRange]] = defaultdict(list)
    for wanted in planned:
        by_broker[wanted.queue.broker_name].append(wanted)
    partitions: list[InputPartition] = []
    others: list[QueueRange] = []
    for broker_name, ranges in by_broker.items():
        place = _place(client, broker_name)
        if place is None:
            others += ranges
            continue
        others += [each for each in ranges if each.store_id not in ("", place.store_id)]
        there = [each for each in ranges if each.store_id in ("", place.store_id)]
        partitions += [
            DirectPartition(tuple(task), holder.of(task), asked, place) for task in _tasks(place, there, options)
        ]
    return partitions, others


def read_direct(partition: DirectPartition, schema: StructType) -> Iterator[Any]:
    """The Arrow batches of a partition. Raises what reading from the broker raises."""
    options = partition.options
    columns = columns_of(options, schema, *(wanted.queue for wanted in partition.ranges))
    view = _open(partition.place)
    if view is None:
        for each in partition.ranges:
            yield from _from_broker(each, options, columns)
        return
    choice = Choice(options)
    wanted = [
        Wanted(queue.topic, queue.queue_id, start, end, topic_deleted_ms)
        for queue, start, end, topic_deleted_ms, _ in partition.ranges
    ]
    with view:
        late = view.pages_may_come_late
        for found in read_ranges(
            view, wanted, limits_of(schema), choice.tag_codes, check_crc=late, pages_may_come_late=late
        ):
            if isinstance(found, Unread):
                unread = partition.ranges[found.number]._replace(start=found.start, end=found.end)
                yield from _from_broker(unread, options, columns)
            else:
                yield from columns.batches(choice.of(found))


def _from_broker(wanted: QueueRange, options: TaskOptions, columns: ArrowColumns | ValueColumns) -> Iterator[Any]:
    for records in fetch(shared_client(options.namesrv, options.access), wanted, options):
        yield from columns.batches(records)


def limits_of(schema: StructType) -> Limits:
    """How much is read in one piece: one Arrow batch."""
    return Limits(rows_of_a_batch(schema), CHUNK_BYTES)


def _place(client: ClusterClient, broker_name: str) -> StorePlace | None:
    """Where the broker's store is; None of a broker that cannot say, or does not answer now."""
    try:
        said = client.broker(broker_name).capabilities()
    except RmqError as error:
        _log.warning("readMode=direct: broker %s does not answer, its messages come from it: %s", broker_name, error)
        return None
    if said.store_path:
        return StorePlace(said.store_path, said.store_id, said.incarnation)
    if broker_name not in _said:
        _said.add(broker_name)
        _log.warning("readMode=direct: broker %s does not say where its store is; messages come from it.", broker_name)
    return None


def _tasks(place: StorePlace, ranges: Sequence[QueueRange], options: SourceOptions) -> list[list[QueueRange]]:
    """The ranges of each task: stretches of the log where this process finds the store, else a piece of a queue."""
    pieces = split(ranges, at_least=options.min_partitions, max_records=options.max_records_per_partition)
    view = _open(place)
    if view is None:
        return [[piece] for piece in pieces]
    total = sum(wanted.size for wanted in ranges)
    count = len(pieces) if options.min_partitions else min(len(pieces), -(-total // ROWS_OF_A_TASK), MOST_TASKS)
    with view:
        try:
            queues = {queue: view.queue(queue.topic, queue.queue_id) for queue, *_ in ranges}
            return stretches(queues, ranges, count, options.max_records_per_partition or total)
        except (OSError, StoreError):
            return [[piece] for piece in pieces]


def _open(place: StorePlace) -> StoreView | None:
    """The store, if it is there and the one that is meant; None where it is not."""
    files = PosixFileSystem(place.path)
    found = identity_of(files)
    if found != (place.store_id, place.incarnation):
        _say(place, "there is another store" if found else "it is not there, or may not be read")
        return None
    try:
        return StoreView(files)
    except (OSError, StoreError) as error:
        _say(place, str(error))
        return None


def _say(place: StorePlace, reason: str) -> None:
    if place.path not in _said:
        _said.add(place.path)
        _log.warning(
            "readMode=direct: the store %s at %s cannot be read from here (%s); messages come from the broker.",
            place.store_id, place.path, reason,
        )  # fmt: skip
