"""groupMode=shared: several queries divide the queues of their group between them.

Queues change hands between two micro-batches, and a queue that changes hands is read in neither: the old owner commits
and releases in one request, when its batch is done; the new one takes it at that offset, has it recorded, and reads it
from its next batch on. While a batch runs its leases are renewed (`membership`), and its tasks make sure of them before
and after they read (`leases`). What happens to a lease in between, when a driver is paused or dies, its number tells.

A batch that Spark runs again after a crash leaves out what somebody else has been given since: from the group's
committed offset on it is read there. Where the group has none, for it was deleted, nobody else knows where to go on:
such queues are leased anew, and stay in the batch and in the offset.

Brokers that are out of sight are asked nothing: what is read of them stays in the offset as it is, under the leases it
had, and whether those still count is asked when the brokers are back. Until then nothing is read there by anybody.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rmqspark.client.cluster.group_reading import Member, lease
from rmqspark.client.cluster.patience import patiently
from rmqspark.errors import NotSupported
from rmqspark.rebalance.handover import Grant, Held, Standing, Steps, renewal, standing, steps
from rmqspark.source.groups.membership import Membership
from rmqspark.source.loss import bear, overrun
from rmqspark.source.planning.planner import Snapshot, is_idle
from rmqspark.source.tasks.leases import lease_lost, no_master

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.patience import Patience
    from rmqspark.message_queue import MessageQueue
    from rmqspark.source.groups.sharing import Sharing
    from rmqspark.source.offsets import Offsets, StoreIdentity
    from rmqspark.source.options import SourceOptions
    from rmqspark.source.queue_range import QueueRange

    Join = Callable[[ClusterClient, Member, str | None, str | None], Membership]

IDLE_LOOK_MS = 1_000  # how often an idle query looks at the group; one that is busy looks between its batches

_log = logging.getLogger(__name__)


class SharedGroup:
    """The driver's side of one member. Raises what a last try raised where a broker cannot be asked, and LeaseLost
    where a later run of the query has taken over."""

    def __init__(
        self, client: ClusterClient, options: SourceOptions, sharing: Sharing, join: Join = Membership
    ) -> None:
        self._client = client
        self._options = options
        self._sharing = sharing
        self._join_as = join
        self._membership: Membership | None = None
        self._standing = Standing({}, {}, [])
        self._shown: Collection[MessageQueue] = ()
        """All queues that the members divide, as of the last look: each of them says so to their brokers."""
        self._lease_ms = 0
        self._settled: dict[str, Any] | None = None
        self._settled_ms = 0
        self._planned: dict[str, Any] | None = None
        self._is_reading = False
        self._read_under: Mapping[MessageQueue, int] = {}
        self._told_strategies: tuple[str, ...] = ()
        self._goes_on = False
        """Whether an offset of this member is in its checkpoint: what the group has never read came later than that."""
        self._left: dict[MessageQueue, tuple[int, StoreIdentity]] = {}  # where it was in queues when it lost them

    def settle(self, start: Offsets, snapshot: Snapshot) -> Offsets:
        recorded, now_ms = start.to_json(), self._client.clock.monotonic_ms()
        self._standing = Standing({queue: start.leases.get(queue, 0) for queue in start.positions}, {}, [])
        self._goes_on = bool(start.member)
        if (
            recorded == self._settled
            and now_ms - self._settled_ms < IDLE_LOOK_MS
            and is_idle(start, self.owned(snapshot))
        ):
            return start
        self._shown = snapshot.ends.keys()
        membership = self._join(start, self._shown, self._options.retry.beginning)
        had = {queue: Held(start.leases.get(queue, 0), at) for queue, at in start.positions.items()}
        away = {queue: each.lease for queue, each in had.items() if queue.broker_name not in snapshot.stores}
        held = {queue: each for queue, each in had.items() if queue not in away}
        asked = steps(held, self._wanted(membership, held, snapshot))
        self._standing = standing(asked, self._ask(membership, asked, self._options.retry.beginning))
        self._standing.kept.update(away)
        self._leave_lost(membership, start, asked)
        self._is_reading = False  # not before it is committed: whoever gives queues up then has others read them again
        membership.hold(self._leases(), self._lease_ms)
        self._settled, self._settled_ms = recorded, now_ms
        kept = self._standing.kept
        return replace(start.at({queue: start.positions[queue] for queue in kept}), leases=kept)

    def _leave_lost(self, membership: Membership, start: Offsets, asked: Steps) -> None:
        """What is not leased to it any more, and cannot be had anew, leaves the offset. What can enters in this very
        step: where the group was deleted, no other offset would say how far the query was."""
        lost = self._standing.lost
        self._left |= {queue: (start.positions[queue], start.store_of(queue)) for queue in lost}
        if again := [queue for queue in lost if queue not in asked.release]:
            anew = Steps({}, {}, again)
            self._standing.entering.update(self._ask(membership, anew, self._options.retry.beginning))
        for queue in lost:
            if queue not in self._standing.entering:
                _log.warning(
                    "Queue %s is not leased to %s any more: it is left to others.", queue, membership.member.client_id
                )

    def owned(self, snapshot: Snapshot) -> Snapshot:
        mine = self._standing.kept.keys() | self._standing.entering.keys()
        return replace(snapshot, ends={queue: end for queue, end in snapshot.ends.items() if queue in mine})

    def outruns(self, snapshot: Snapshot) -> bool:
        return any(
            grant.committed > snapshot.ends[queue]
            for queue, grant in self._standing.entering.items()
            if grant.committed is not None and queue in snapshot.ends
        )

    def enter(self, snapshot: Snapshot) -> Snapshot:
        """A queue begins where the group has come. Where it never was, that is decided now, for whoever has it next: as
        groupOffsetReset says for a member that is new itself. One that goes on reads what came later, a queue that was
        added or a topic that was made anew, from its first message, for that was sent to be read; and goes on in what
        was its own, where the group was deleted.

        What has expired since is for the tasks to miss. One that has gone out of sight since it was leased begins when
        it is back. Raises DataLoss for a queue that ends before the group's place.
        """
        entering = {queue: grant for queue, grant in self._standing.entering.items() if queue in snapshot.ends}
        self._bear_losses(entering, snapshot)
        places = {queue: self._place(queue, grant, snapshot) for queue, grant in entering.items()}
        first = {
            queue: Held(grant.lease, places[queue]) for queue, grant in entering.items() if grant.committed is None
        }
        if first and self._membership is not None:
            self._ask(self._membership, Steps(first, {}, []), self._options.retry.beginning)
        self._left = {queue: there for queue, there in self._left.items() if queue not in entering}
        return replace(snapshot, begins={**snapshot.begins, **places})

    def seal(self, end: Offsets) -> Offsets:
        leases = self._leases()
        member = end.member if self._membership is None else self._membership.member.client_id
        sealed = replace(end, leases={queue: leases[queue] for queue in end.positions}, member=member)
        self._planned = sealed.to_json()
        return sealed

    def hold(self, planned: list[QueueRange], end: Offsets, silent: Collection[str]) -> list[QueueRange]:
        """LeaseLost where a queue went away since the batch was planned; after a restart it is its new owner's."""
        self._is_reading = True
        patience = self._options.retry.under_way  # what is planned waits for its brokers
        divided = {*self._shown, *end.positions}  # its own are not all that it subscribes to, nor of all brokers
        membership = self._join(end, [queue for queue in divided if queue.broker_name not in silent], patience)
        brokers = membership.reached | {each.queue.broker_name for each in planned}
        asked = {queue: number for queue, number in end.leases.items() if queue.broker_name in brokers}
        granted = self._ask(membership, renewal(asked), patience)
        lost = sorted({each.queue for each in planned} - granted.keys())
        if lost and end.to_json() == self._planned:
            raise lease_lost(lost[0], end.group)
        granted |= self._placeless(membership, lost, patience)
        others = {queue: number for queue, number in end.leases.items() if queue not in asked}
        self._read_under = {**others, **{queue: grant.lease for queue, grant in granted.items()}}
        membership.hold(self._read_under, self._lease_ms)
        for queue in lost:
            if queue not in granted:
                _log.warning("Queue %s has been given to another member since: this batch leaves it out.", queue)
        return [each for each in planned if each.queue in granted]

    def _placeless(
        self, membership: Membership, lost: list[MessageQueue], patience: Patience
    ) -> dict[MessageQueue, Grant]:
        """Leases anew those of these queues in which the group has no place. Whoever was given one has made it one."""
        if not lost:
            return {}
        free = self._ask(membership, Steps({}, {}, lost), patience)
        others = {queue: grant.lease for queue, grant in free.items() if grant.committed is not None}
        if others:
            self._ask(membership, renewal(others)._replace(release=others), patience)
        return {queue: grant for queue, grant in free.items() if queue not in others}

    @property
    def read_under(self) -> Mapping[MessageQueue, int]:
        return self._read_under

    @property
    def runs(self) -> Mapping[str, int]:
        return {} if self._membership is None else self._membership.member.runs

    def leave(self) -> None:
        """Between two batches others may have the queues at once. In the middle of one, its lease has to run out."""
        if self._membership is not None:
            self._membership.leave(release=not self._is_reading)

    def _join(self, start: Offsets, queues: Iterable[MessageQueue], patience: Patience) -> Membership:
        if self._membership is None:
            client_id = start.member or self._sharing.draw_member(self._client.ip, self._client.entropy)
            member, wanted = Member(start.group, client_id, strategy=self._sharing.strategy.word), self._options
            self._membership = self._join_as(self._client, member, wanted.tags, wanted.sql)
        membership = self._membership
        patiently(lambda: membership.announce(queues), patience, self._client.clock)
        return membership

    def _wanted(self, membership: Membership, had: Iterable[MessageQueue], snapshot: Snapshot) -> set[MessageQueue]:
        """This member's share; and what it has that its broker does not show just now."""
        by_topic: dict[str, list[MessageQueue]] = {}
        for queue in snapshot.ends:
            by_topic.setdefault(queue.topic, []).append(queue)
        unseen = set(had) - snapshot.ends.keys()
        wanted = {queue for queue in unseen if self._options.subscription.includes(queue)}
        for queues in by_topic.values():
            ids = membership.others({queue.broker_name for queue in queues})
            wanted.update(self._sharing.strategy.allocate(membership.member.client_id, queues, ids))
        return wanted

    def _leases(self) -> dict[MessageQueue, int]:
        return self._standing.kept | {queue: grant.lease for queue, grant in self._standing.entering.items()}

    def _ask(self, membership: Membership, asked: Steps, patience: Patience) -> dict[MessageQueue, Grant]:
        """All brokers concerned, the requests on their way before the first answer is awaited."""
        return patiently(lambda: self._ask_all(membership, asked), patience, self._client.clock)

    def _ask_all(self, membership: Membership, asked: Steps) -> dict[MessageQueue, Grant]:
        names = {queue.broker_name for queue in (*asked.keep, *asked.take)}
        brokers = [self._client.broker(name) for name in sorted(names)]
        for broker in brokers:
            able = broker.capabilities()
            if not able.groups:
                raise NotSupported(
                    f"Broker {broker.name!r} leases no queues: groupMode=shared needs brokers of rmqspark.",
                    hint="Leave groupMode out, and give each query its own queues (assign).",
                )
            if able.is_slave:
                raise no_master(broker.name)
        answers = [lease(broker, membership.member, asked) for broker in brokers]
        leases = [answer.result() for answer in answers]
        self._lease_ms = min((each.lease_ms for each in leases), default=self._lease_ms)
        self._tell_strategies(membership, next((each.strategies for each in leases if each.strategies), ()))
        return {queue: grant for each in leases for queue, grant in each.granted.items()}

    def _tell_strategies(self, membership: Membership, strategies: tuple[str, ...]) -> None:
        """Warns, once, where the members of the group divide its queues differently."""
        if strategies and strategies != self._told_strategies:
            self._told_strategies = strategies
            _log.warning(
                "Members of group %s divide its queues by different strategies, %s: some queues may be read by nobody. "
                "Give all of them the same allocateStrategy.",
                membership.member.group,
                " and ".join(strategies),
            )

    def _place(self, queue: MessageQueue, grant: Grant, snapshot: Snapshot) -> int:
        end = snapshot.ends[queue]
        if grant.committed is None:
            return self._place_of_none(queue, snapshot)
        return min(grant.committed, end)

    def _place_of_none(self, queue: MessageQueue, snapshot: Snapshot) -> int:
        """Of a queue of which the group has committed nothing."""
        if not self._goes_on and not self._sharing.from_earliest:
            return snapshot.ends[queue]
        position, store = self._left.get(queue, (0, snapshot.store_of(queue)))
        is_known = not store.begins_anew(snapshot.store_of(queue))
        return min(max(position if is_known else 0, snapshot.begins[queue]), snapshot.ends[queue])

    def _bear_losses(self, entering: Mapping[MessageQueue, Grant], snapshot: Snapshot) -> None:
        committed = {queue: grant.committed for queue, grant in entering.items() if grant.committed is not None}
        bear(overrun(committed, snapshot), tolerant=not self._options.fail_on_data_loss)
