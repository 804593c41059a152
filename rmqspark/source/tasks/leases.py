"""A task of a shared group makes sure, before it reads and when it has read, that its queues are still the query's.

So a driver that was away for longer than its leases last fails the batch: what another member reads meanwhile is not
written twice, unless a sink that writes at least once has written some of it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.cluster.patience import patiently
from rmqspark.errors import LeaseLost, Unreachable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.partitions import QueueLease
    from rmqspark.source.queue_range import QueueRange
    from rmqspark.source.retry import RetryPolicy


def make_sure(
    client: ClusterClient, read: Sequence[QueueRange], held: Sequence[QueueLease], retry: RetryPolicy
) -> None:
    """Renews what these ranges, of queues of one broker, are read under. Raises LeaseLost."""
    if not any(each.number for each in held):
        return
    from rmqspark.client.cluster.group_reading import Member, lease  # few queries share their group
    from rmqspark.rebalance.handover import renewal

    steps = renewal({wanted.queue: each.number for wanted, each in zip(read, held, strict=True) if each.number})
    broker, first = client.broker(read[0].queue.broker_name), held[0]
    member = Member(first.group, first.member, {broker.name: first.run})
    answer = patiently(lambda: lease(broker, member, steps).result(), retry.under_way, client.clock)
    for queue in steps.keep:
        if queue not in answer.granted:
            raise lease_lost(queue, first.group)


def lease_lost(queue: MessageQueue, group: str) -> LeaseLost:
    return LeaseLost(
        f"Queue {queue} was given to another member of group {group!r} while this query was reading it: its lease ran "
        "out. The batch is not committed.",
        hint="Start the query again: it goes on with what is its own then. If it was not paused, lengthen the brokers' "
        "consume_group_lock_live_time.",
    )


def no_master(broker_name: str) -> Unreachable:
    return Unreachable(
        f"Of broker {broker_name!r} only a slave is there, which leases no queues to the members of a group.",
        address=broker_name,
        hint="Start its master again, or make the slave the master.",
    )
