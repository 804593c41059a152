"""Which files the tasks of a query with readMode=direct read, and what of them. How they do is in `tasks/direct`."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING

from rmqspark.errors import RmqError, StoreError
from rmqspark.source.partitions import DirectPartition, StorePlace
from rmqspark.source.planning.dealing import split
from rmqspark.source.planning.log_plan import stretches
from rmqspark.source.tasks.direct import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.options import SourceOptions
    from rmqspark.source.partitions import Holder
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.task_options import TaskOptions

MOST_TASKS = 64  # of a batch, unless minPartitions says otherwise: each has a part of each queue
ROWS_OF_A_TASK = 50_000  # a batch that has fewer for each queue is dealt to fewer tasks than it has queues

_log = logging.getLogger(__name__)
_said: set[str] = set()  # brokers that do not say where their stores are, once said


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


def _place(client: ClusterClient, broker_name: str) -> StorePlace | None:
    """Where the broker's store is; None of a broker that cannot say, or does not answer now."""
    try:
        said = client.broker(broker_name).capabilities()
    except RmqError as error:
        _log.warning("readMode=direct: broker %s does not answer, its messages come from it: %s", broker_name, error)
        return None
    if said.store_path:
        return StorePlace(said.store_path, said.store_id, said.incarnation, said.opening)
    if broker_name not in _said:
        _said.add(broker_name)
        _log.warning("readMode=direct: broker %s does not say where its store is; messages come from it.", broker_name)
    return None


def _tasks(place: StorePlace, ranges: Sequence[QueueRange], options: SourceOptions) -> list[list[QueueRange]]:
    """The ranges of each task: stretches of the log where this process finds the store, else a piece of a queue."""
    pieces = split(ranges, at_least=options.min_partitions, max_records=options.max_records_per_partition)
    view = open_store(place)
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
