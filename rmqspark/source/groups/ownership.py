"""Which queues of its group a query reads: all of them, or those that it has leased.

`Progress` asks in this order for every micro-batch that is planned: `settle` says how far the last one came, and what
of its offset still counts; `outruns` says whether the look at the cluster is too old for that; `owned` leaves of the
cluster's queues those that are this query's; `enter` says where those begin that have just become so; `seal` completes
the offset. `hold` is asked once more before the batch is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.groups.group import GroupProgress
    from rmqspark.source.offsets import Offsets
    from rmqspark.source.planning.planner import Snapshot
    from rmqspark.source.queue_range import QueueRange


class Ownership(Protocol):
    """How a query shares its group, or does not."""

    def settle(self, start: Offsets, snapshot: Snapshot) -> Offsets:
        """Reports that everything before `start` is done with; `start` without queues that are not read on."""

    def outruns(self, snapshot: Snapshot) -> bool:
        """Whether somebody has read further than the snapshot knows of, in a queue that has just become this query's:
        it was taken before that."""

    def owned(self, snapshot: Snapshot) -> Snapshot:
        """The queues that this query reads."""

    def enter(self, snapshot: Snapshot) -> Snapshot:
        """Where queues begin that enter, as the snapshot's `begins`."""

    def seal(self, end: Offsets) -> Offsets:
        """`end`, with what says whose it is."""

    def hold(self, planned: list[QueueRange], end: Offsets, silent: Collection[str]) -> list[QueueRange]:
        """Of what the batch that ends at `end` would read, that which is still this query's to read. Brokers that are
        known to be `silent` are asked only where something of theirs is to be read."""

    @property
    def read_under(self) -> Mapping[MessageQueue, int]:
        """The leases that what `hold` gave last is read under."""

    @property
    def runs(self) -> Mapping[str, int]:
        """By broker name, the number of this run where it has leases."""

    def leave(self) -> None:
        """The query ends."""


class WholeGroup:
    """groupMode=exclusive: the query reads every queue, and reports how far it is."""

    def __init__(self, progress: GroupProgress) -> None:
        self._progress = progress

    def settle(self, start: Offsets, snapshot: Snapshot) -> Offsets:
        self._progress.report(start.at({queue: at for queue, at in start.positions.items() if queue in snapshot.ends}))
        return start

    def outruns(self, snapshot: Snapshot) -> bool:
        del snapshot
        return False

    def owned(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def enter(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def seal(self, end: Offsets) -> Offsets:
        return end

    def hold(self, planned: list[QueueRange], end: Offsets, silent: Collection[str]) -> list[QueueRange]:
        del end, silent
        return planned

    @property
    def read_under(self) -> Mapping[MessageQueue, int]:
        return {}

    @property
    def runs(self) -> Mapping[str, int]:
        return {}

    def leave(self) -> None:
        """Nobody waits for its queues."""
