"""A task of a shared group makes sure, before it reads and when it has read, that its queue is still the query's.

So a driver that was away for longer than its leases last fails the batch: what another member reads meanwhile is not
written twice, unless a sink that writes at least once has written some of it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.client.group_reading import lease
from rmqspark.client.patience import patiently
from rmqspark.errors import LeaseLost
from rmqspark.rebalance.handover import Held, Steps

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.model import MessageQueue
    from rmqspark.source.options import RetryPolicy
    from rmqspark.source.partitions import QueueLease

_NOT_COMMITTED = -1


def make_sure(client: ClusterClient, queue: MessageQueue, held: QueueLease, retry: RetryPolicy) -> None:
    """Renews the lease. Raises LeaseLost."""
    if not held.number:
        return
    steps = Steps({queue: Held(held.number, _NOT_COMMITTED)}, {}, [])
    broker = client.broker(queue.broker_name)
    answer = patiently(
        lambda: lease(broker, held.group, held.member, steps).result(), retry.pauses_ms, client.clock.sleep_ms
    )
    if queue not in answer.granted:
        raise lease_lost(queue, held.group)


def lease_lost(queue: MessageQueue, group: str) -> LeaseLost:
    return LeaseLost(
        f"Queue {queue} was given to another member of group {group!r} while this query was reading it: its lease ran "
        "out. The batch is not committed.",
        hint="Start the query again: it goes on with what is its own then. If it was not paused, lengthen the brokers' "
        "consume_group_lock_live_time.",
    )
