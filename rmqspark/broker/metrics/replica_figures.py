"""How far slaves are, as their master knows it, and whether a slave follows its own. RocketMQ has no names for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.broker.metrics.families import (
    FOLLOWING,
    REFUSED_SLAVES,
    SLAVE_BEHIND,
    SLAVES,
    SLAVES_IN_SYNC,
    SLAVES_WANTED,
)
from rmqspark.broker.replica.replicating import SlaveRole
from rmqspark.remoting.address import parse_address

if TYPE_CHECKING:
    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.broker.replica.replicating import MasterRole
    from rmqspark.replication.acks import Slaves


def tell_replicas(figures: Figures, config: BrokerConfig, role: MasterRole | SlaveRole, end_offset: int) -> None:
    """`end_offset` is where the broker's log ends."""
    if isinstance(role, SlaveRole):
        figures.add(FOLLOWING, (), role.slave.is_connected)
        return
    slaves = role.master.slaves
    figures.add(SLAVES, (), len(slaves))
    figures.add(SLAVES_IN_SYNC, (), slaves.in_step(end_offset, config.ha_max_gap_not_in_sync))
    figures.add(SLAVES_WANTED, (), config.in_sync_replicas - 1 if config.waits_for_slaves else 0)
    for host, behind in _most_behind(slaves, end_offset).items():
        figures.add(SLAVE_BEHIND, (host,), behind)
    for reason, count in role.master.admission.refused.items():
        figures.add(REFUSED_SLAVES, (reason,), count)


def _most_behind(slaves: Slaves, end_offset: int) -> dict[str, int]:
    """By host: the port of a connection is another each time."""
    found: dict[str, int] = {}
    for slave in slaves:
        host, _ = parse_address(slave.address)
        found[host] = max(found.get(host, 0), end_offset - max(0, slave.acked_offset))
    return found
