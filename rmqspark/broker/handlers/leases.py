"""RMQ_GROUP_LEASES (30031): how queries that share a group own its queues.

rmqspark's own; see `rebalance/handover.py` for what a member does with it, `broker/locks.py` for the leases. All of a
request happens at once: what is released is committed before anybody else can take it, and who takes a queue is told
the group's offset of that moment. Nothing happens where a later run of the query has one of the queues. A lease that
was given or given up is on disk before it is answered, also to who asks again after an error, and so is what was
committed with it; renewals are not written at all. Queues that this broker does not have are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.model import MessageQueue
from rmqspark.protocol.bodies.client import GroupLeasesAnswerBody, GroupLeasesBody, LeasedQueue
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import GroupLeasesRequestHeader
from rmqspark.protocol.names import check_client_id
from rmqspark.remoting.reply import Reply, reply_after
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator

    from rmqspark.broker.config import BrokerConfig
    from rmqspark.broker.tables import BrokerTables
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request

_NEVER_COMMITTED = -1


class LeaseHandlers:
    """Leases queues to the members of known and new groups."""

    def __init__(self, config: BrokerConfig, tables: BrokerTables, clock: Clock) -> None:
        self._broker_name = config.broker_name
        self._tables = tables
        self._locks = tables.locks
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._clock = clock

    def routes(self) -> Routes:
        return {RequestCode.RMQ_GROUP_LEASES: Route(GroupLeasesRequestHeader, self.leases)}

    def leases(self, request: Request[GroupLeasesRequestHeader]) -> Reply | Awaitable[Reply]:
        header, body = request.header, GroupLeasesBody.decode_request(request.body)
        group, client_id = header.consumerGroup, check_client_id(header.clientId)
        self._groups.find_or_create(group, self._clock.now_ms())
        run = self._run(group, client_id, header.run, body)
        held = self._keep(group, client_id, body.keep, run)
        release = dict(self._numbered(body.release))
        self._locks.unlock(
            group, client_id, self._locks.keep(group, client_id, release, self._clock.monotonic_ms(), run)
        )
        held += self._take(group, client_id, body.take, run)
        reply = Reply(body=GroupLeasesAnswerBody(self._locks.lease_ms, held, run).encode())
        return reply if self._tables.lease_file.is_saved else reply_after(self._tables.save, reply)

    def _run(self, group: str, client_id: str, run: int | None, body: GroupLeasesBody) -> int:
        """The number of the run that asks. Raises LeaseLost for one that a later run has taken over from."""
        if run is None:
            return self._locks.begin_run()
        self._locks.check_run(group, client_id, run, map(_queue, (*body.keep, *body.release, *body.take)))
        return run

    def _keep(self, group: str, client_id: str, wanted: Iterable[LeasedQueue], run: int) -> list[LeasedQueue]:
        offsets = {_queue(each): each.offset for each in wanted}
        leases = dict(self._numbered(wanted))
        taken_over = self._locks.of_earlier_runs(group, run, leases)
        kept = self._locks.keep(group, client_id, leases, self._clock.monotonic_ms(), run)
        for queue in kept:
            # Who takes over may have read its checkpoint before the other run went on, and have been frozen since.
            lowest = self._committed(group, queue) if queue in taken_over else _NEVER_COMMITTED
            if offsets[queue] > lowest:
                self._offsets.commit(group, queue.topic, queue.queue_id, offsets[queue])
        return [self._held(group, queue, leases[queue]) for queue in kept]

    def _take(self, group: str, client_id: str, wanted: Iterable[LeasedQueue], run: int) -> list[LeasedQueue]:
        queues = [queue for queue, _ in self._numbered(wanted)]
        taken = self._locks.take(group, client_id, queues, self._clock.monotonic_ms(), run)
        return [self._held(group, queue, number) for queue, number in taken.items()]

    def _held(self, group: str, queue: MessageQueue, number: int) -> LeasedQueue:
        return LeasedQueue(*queue, number, self._committed(group, queue))

    def _committed(self, group: str, queue: MessageQueue) -> int:
        committed = self._offsets.committed(group, queue.topic, queue.queue_id)
        return _NEVER_COMMITTED if committed is None else committed

    def _numbered(self, wanted: Iterable[LeasedQueue]) -> Iterator[tuple[MessageQueue, int]]:
        """Those that are here, with the lease that is meant."""
        for each in wanted:
            topic = self._topics.get(each.topic)
            if topic is not None and each.brokerName == self._broker_name and 0 <= each.queueId < topic.readQueueNums:
                yield _queue(each), each.lease


def _queue(leased: LeasedQueue) -> MessageQueue:
    return MessageQueue(leased.topic, leased.brokerName, leased.queueId)
