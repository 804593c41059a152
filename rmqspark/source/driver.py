"""The driver's side of a read: what asks the cluster and deals the work to tasks.

Apart from `reader`, because Spark makes a reader in processes that only pickle it, and starts new ones for every query:
what they do not need they should not import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.cluster.shared import shared_client
from rmqspark.source.groups.group import GroupProgress
from rmqspark.source.groups.ownership import WholeGroup
from rmqspark.source.partitions import Holder, QueuePartition
from rmqspark.source.planning.cluster_view import ClusterView
from rmqspark.source.planning.dealing import check_task_size, split, together
from rmqspark.source.planning.planner import range_in, ranges
from rmqspark.source.planning.progress import Progress
from rmqspark.source.planning.rewinds import Rewinds
from rmqspark.source.planning.start import resolve
from rmqspark.source.tasks.columns import check_bad_records

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.source.groups.ownership import Ownership
    from rmqspark.source.offsets import Offsets
    from rmqspark.source.options import SourceOptions
    from rmqspark.source.queue_range import QueueRange


def batch_partitions(options: SourceOptions) -> list[InputPartition]:
    """What a batch reads, as of now. Raises what the cluster's last answer to a patient question raised."""
    client = shared_client(options.namesrv, options.access)
    view = ClusterView(client, options.subscription, options.retry)
    snapshot = view.snapshot()
    now_ms = client.clock.now_ms()
    starts = resolve(options.start, snapshot, view, now_ms)
    ends = resolve(options.end, snapshot, view, now_ms)
    planned = [
        range_in(snapshot.store_of(queue), queue, start, ends[queue])
        for queue, start in sorted(starts.items())
        if start < ends[queue]
    ]
    check_bad_records(options.for_tasks)
    return _partitions(client, planned, options, Holder())


def progress_of(options: SourceOptions) -> Progress:
    """One run of a streaming query, at its beginning. Nobody is asked anything yet."""
    client = shared_client(options.namesrv, options.access)
    view = ClusterView(client, options.subscription, options.retry, of_masters=options.sharing is not None)
    rewinds = Rewinds(client, options.retry)
    return Progress(options, view, _ownership(client, options), rewinds, clock=client.clock, entropy=client.entropy)


def stream_partitions(options: SourceOptions, progress: Progress, start: Offsets, end: Offsets) -> list[InputPartition]:
    """What lies between two offsets, as far as it is there still, and this query's. Raises DataLoss, LeaseLost."""
    check_bad_records(options.for_tasks)
    planned = progress.hold(progress.readable(ranges(start, end), end), end)
    group = end.group if options.commit_offsets else ""
    holder = Holder(group, end.member, progress.read_under, end.epochs, progress.runs)
    client = shared_client(options.namesrv, options.access)
    return _partitions(client, planned, options, holder, progress.silent)


def _ownership(client: ClusterClient, options: SourceOptions) -> Ownership:
    if options.sharing is None:
        return WholeGroup(GroupProgress(client, enabled=options.commit_offsets))
    from rmqspark.source.groups.shared import SharedGroup  # few queries share their group
    from rmqspark.source.planning.termination import exit_when_terminated

    exit_when_terminated()
    return SharedGroup(client, options, options.sharing)


def _partitions(
    client: ClusterClient,
    planned: list[QueueRange],
    options: SourceOptions,
    holder: Holder,
    silent: frozenset[str] = frozenset(),
) -> list[InputPartition]:
    check_task_size(planned, options.max_records_per_partition)
    asked = options.for_tasks._replace(reads_for=holder.group or options.group, silent=silent)
    direct: list[InputPartition] = []
    if options.read_mode == "direct":
        from rmqspark.source.planning.direct_plan import plan_direct  # brings the store, which few queries need

        direct, planned = plan_direct(client, planned, options, holder, asked)
    limits = {"at_least": options.min_partitions, "max_records": options.max_records_per_partition}
    tasks = together(split(planned, **limits), **limits)
    return [*direct, *(QueuePartition(task, holder.of(task), asked) for task in tasks)]
