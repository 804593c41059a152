"""Takes a group out of everything that a broker knows of it: tables and locks.

In memory that is one step, so that no request meets half of it. It is on disk when tables are saved next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock


class GroupDeletion:
    """Who is told that a group goes."""

    def __init__(self, tables: BrokerTables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock

    def forget(self, group: str, *, with_offsets: bool) -> None:
        """From here on the group is not there, nor what it held: members that are there still take their queues anew.

        Its offsets and resets stay for the next group of its name, unless they are to go, too.
        """
        tables = self._tables
        tables.groups.remove(group, self._clock.now_ms())
        tables.locks.forget_group(group)
        if with_offsets:
            tables.offsets.forget_group(group)
