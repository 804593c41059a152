"""Queues of this broker, leased to members of shared groups: what a member's request or a decided batch asks for.

`locks` says who has which lease, the table of offsets how far the group is. Queues that this broker does not have are
left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import LeasedQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from rmqspark.broker.shared_groups.offset_log import OffsetLog
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock

_NEVER_COMMITTED: Final = -1


class GroupLeases:
    """Gives, renews and takes back leases of this broker's queues; each call is one moment. `offset_log` takes what is
    committed."""

    def __init__(self, broker_name: str, tables: BrokerTables, offset_log: OffsetLog, clock: Clock) -> None:
        self._broker_name = broker_name
        self._tables = tables
        self._topics = tables.topics
        self._locks = tables.locks
        self._offsets = tables.offsets
        self._offset_log = offset_log
        self._clock = clock
        self.moving: Callable[[str, Collection[MessageQueue]], Collection[MessageQueue]] = lambda group, queues: ()
        """Of a group's queues those in which it is still to go on behind what was decided: nobody takes them before."""
        self.doubted: set[str] = set()
        """Groups of which a member wants queues, and all brokers are to be asked first what they have decided."""

    def begin(self, group: str, member: str, run: int | None, queues: Iterable[LeasedQueue]) -> int:
        """The number of the run that asks, a new one for None. Raises LeaseLost for one that a later run has taken over
        from."""
        self._tables.groups.find_or_create(group, self._clock.now_ms())
        if run is None:
            return self._locks.begin_run()
        self._locks.check_run(group, member, run, map(_queue, queues))
        return run

    def keep(
        self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue], coordinator: str = ""
    ) -> list[LeasedQueue]:
        """Renews leases, with how far the group is to be; those that are still this run's. `coordinator` is a broker
        that asks, as it is about to decide what was read under them, or says what it has decided. Raises Busy."""
        wanted = list(self._here(wanted))
        offsets = {_queue(each): each.offset for each in wanted}
        leases = {_queue(each): each.lease for each in wanted}
        # Who takes over may have read its checkpoint before the other run went on, and have been frozen since; and a
        # coordinator's word may have been under way for long, while the member read on.
        late = set(leases) if coordinator else self._locks.of_earlier_runs(group, run, leases)
        lowest = {queue: self._committed(group, queue) if queue in late else _NEVER_COMMITTED for queue in leases}
        news = {queue: offset for queue, offset in offsets.items() if offset > lowest[queue]}
        kept = self._locks.keep(group, member, leases, self._clock.monotonic_ms(), run)
        if coordinator:
            self._locks.await_word(group, kept, coordinator, news)
        self._offset_log.commit(group, {queue: news[queue] for queue in kept if queue in news})
        return [self._held(group, queue, leases[queue]) for queue in kept]

    def follow(self, group: str, positions: Mapping[MessageQueue, int]) -> None:
        """The group goes on behind what was decided, where it is not further already: whoever decided says so late, and
        the lease may be anybody's by now, or there is none. Raises Busy."""
        news = {queue: offset for queue, offset in positions.items() if offset >= max(0, self._committed(group, queue))}
        self._offset_log.commit(group, news, is_decided=True)

    def release(self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue]) -> None:
        """Gives leases up that are this run's."""
        leases = {_queue(each): each.lease for each in self._here(wanted)}
        self._locks.unlock(group, member, self._locks.keep(group, member, leases, self._clock.monotonic_ms(), run))

    def take(self, group: str, member: str, run: int, wanted: Iterable[LeasedQueue]) -> list[LeasedQueue]:
        """Leases what can be had, with where the group is. Raises Busy for too many."""
        if not self._is_trusted(group):
            self.doubted.add(group)
            return []
        queues = [_queue(each) for each in self._here(wanted)]
        moving = self.moving(group, queues)
        queues = [queue for queue in queues if queue not in moving]
        taken = self._locks.take(group, member, queues, self._clock.monotonic_ms(), run)
        return [self._held(group, queue, number) for queue, number in taken.items()]

    def places(self, group: str) -> list[MessageQueue]:
        """The queues of this broker of the topics that a group has read."""
        return [
            MessageQueue(topic, self._broker_name, queue_id)
            for topic in self._offsets.topics_of(group)
            if (config := self._topics.get(topic)) is not None
            for queue_id in range(config.readQueueNums)
        ]

    def trust(self, group: str) -> None:
        """It is where brokers have decided: all have said so."""
        self.doubted.discard(group)
        self._locks.trust(group)

    def _is_trusted(self, group: str) -> bool:
        """A new one has never been read, so nothing of that was decided."""
        if not self._locks.is_trusted(group) and not self._offsets.topics_of(group):
            self._locks.trust(group)
        return self._locks.is_trusted(group)

    @property
    def is_safe(self) -> bool:
        """Whether all that was given, given up and committed is where a start finds it."""
        return self._offset_log.is_safe and self._are_tables_saved

    async def make_safe(self) -> None:
        """Returns when it is. Raises NotWritable."""
        await self._offset_log.make_safe()
        if not self._are_tables_saved:
            await self._tables.save()

    @property
    def _are_tables_saved(self) -> bool:
        """That of leases as it is now, that of offsets as far as the log does not have them."""
        tables = self._tables
        return tables.lease_file.is_saved and tables.offset_file.holds(self._offset_log.unlogged_revision)

    def _held(self, group: str, queue: MessageQueue, number: int) -> LeasedQueue:
        return LeasedQueue(*queue, number, self._committed(group, queue))

    def _committed(self, group: str, queue: MessageQueue) -> int:
        committed = self._offsets.committed(group, queue.topic, queue.queue_id)
        return _NEVER_COMMITTED if committed is None else committed

    def _here(self, wanted: Iterable[LeasedQueue]) -> Iterator[LeasedQueue]:
        for each in wanted:
            topic = self._topics.get(each.topic)
            if topic is not None and each.brokerName == self._broker_name and 0 <= each.queueId < topic.readQueueNums:
                yield each


def _queue(leased: LeasedQueue) -> MessageQueue:
    return MessageQueue(leased.topic, leased.brokerName, leased.queueId)
