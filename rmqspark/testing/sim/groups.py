"""A consumer group whose members are this project's own push consumers: they join, leave, die, are cut off.

Law 10: a queue that is consumed in order is one member's at a time, and no message of it comes before the one before it
is consumed. Of any group: every message that is there is consumed, by somebody, and what is committed is consumed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from rmqspark.client.push_consumer import PushConsumer
from rmqspark.client.pushing.config import PushConfig
from rmqspark.client.pushing.process_queue import LOCK_LIVE_MS
from rmqspark.errors import OffsetNotFound, RmqError
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.consume import OffsetResponseHeader, QueryConsumerOffsetRequestHeader
from rmqspark.remoting.access import OPEN
from rmqspark.testing.sim.plots import PlacesAndReaders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.message_queue import MessageQueue
    from rmqspark.model import ReceivedMessage
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.processes import SimProcess
    from rmqspark.testing.sim.world import World

_MOST_FAILURES: Final = 2
_HASTE: Final = 0.1
"""Of the time that a call of the listener takes, once all is healed and only the backlog is left."""
_TIMEOUT_MS: Final = 5_000
_LOCK_IN_DOUBT_S: Final = LOCK_LIVE_MS / 1000 + 10
"""For so long a member may be at a queue whose lock its broker has forgotten with its last life."""


class GroupPlan(NamedTuple):
    """What a group is like. Times in seconds."""

    name: str
    members: int
    is_ordered: bool
    threads: int
    batch_size: int
    fails: float
    """How often a listener fails, of a message that it has not failed at twice."""
    slowest_s: float
    """Of a call of the listener."""
    rebalance_ms: int
    commit_ms: int


class _Call(NamedTuple):
    member: str
    process: SimProcess


class GroupLaws:
    """What the members of one group may do with the messages of `topic`, and what must have become of these."""

    def __init__(self, world: World, cluster: Cluster, plan: GroupPlan, topic: str) -> None:
        self._world = world
        self._plan = plan
        self.topic = topic
        self._at_work: dict[MessageQueue, list[_Call]] = {}
        self._consumed: dict[MessageQueue, set[int]] = {}
        self._given: dict[MessageQueue, dict[int, str]] = {}
        self._names: set[str] = set()
        self._failures: dict[str, int] = {}
        self._doubtful_until_s: dict[str, float] = {}
        self.calls = 0
        for name in cluster.brokers:
            cluster.when_master_ends(name, partial(self._broker_ended, name))

    def began(self, process: SimProcess, messages: Sequence[ReceivedMessage]) -> None:
        """A listener was called."""
        self.calls += 1
        queue, offset = messages[0].queue, messages[0].queue_offset
        self._world.note(f"{process.name} has {queue} {offset}+{len(messages)}")
        if any(each.topic != self.topic for each in messages):
            self._world.violated(f"{self._plan.name} was given messages of {sorted({each.topic for each in messages})}")
        for each in messages:
            self._given.setdefault(each.queue, {})[each.queue_offset] = each.keys[0] if each.keys else ""
        if not self._plan.is_ordered or queue.topic != self.topic:
            return
        calls = self._at_work.setdefault(queue, [])
        others = [call.member for call in calls if not call.process.life.is_over]
        if others and self._is_certain(queue):
            self._world.violated(f"Law 10: {process.name} consumes {queue} at {offset}, and {others} at the same time")
        calls.append(_Call(process.name, process))
        must_be_done = offset > self._world.expired.begin(queue) and self._has_kept(queue, offset - 1)
        if must_be_done and offset - 1 not in self._consumed.get(queue, ()):
            self._world.violated(
                f"Law 10: {process.name} was given {offset} of {queue}, before the one before was consumed"
            )

    def ended(self, process: SimProcess, messages: Sequence[ReceivedMessage], *, failed: bool) -> None:
        queue = messages[0].queue
        if self._plan.is_ordered and queue.topic == self.topic:
            self._at_work[queue].remove(_Call(process.name, process))
        for message in messages:
            name = message.keys[0] if message.keys else ""
            if failed:
                self._failures[name] = self._failures.get(name, 0) + 1
            else:
                if name in self._names:
                    self._world.trace.reached("consumed again")
                self._names.add(name)
                self._consumed.setdefault(queue, set()).add(message.queue_offset)

    def may_fail(self, messages: Sequence[ReceivedMessage]) -> bool:
        return all(self._failures.get(each.keys[0], 0) < _MOST_FAILURES for each in messages if each.keys)

    def missing(self, queue: MessageQueue, end: int) -> list[int]:
        """Offsets before the queue's end whose messages nobody has consumed, of those that have not expired."""
        if not self._world.has_kept(queue.broker_name):
            return []
        given = self._given.get(queue, {})
        begin = self._world.expired.begin(queue)
        missing = (offset for offset in range(begin, end) if given.get(offset) not in self._names)
        return [offset for offset in missing if self._has_kept(queue, offset)]

    def _has_kept(self, queue: MessageQueue, offset: int) -> bool:
        """Whether this is the only message that was ever there, and there for good."""
        return self._world.has_kept(queue.broker_name) and offset not in self._world.heirs.reused.get(queue, ())

    def _broker_ended(self, name: str) -> None:
        self._doubtful_until_s[name] = self._world.loop.time() + _LOCK_IN_DOUBT_S

    def _is_certain(self, queue: MessageQueue) -> bool:
        """Whether its broker knows of all locks that it gave."""
        return self._world.loop.time() > self._doubtful_until_s.get(queue.broker_name, 0.0)


class GroupPlot(PlacesAndReaders):
    """A group of push consumers reads the queues that producers send to."""

    def __init__(
        self, world: World, cluster: Cluster, plan: GroupPlan, queues: Sequence[MessageQueue], namesrvs: list[str]
    ) -> None:
        super().__init__(world, namesrvs)
        self.groups = [plan.name]
        self._cluster = cluster
        self._plan = plan
        self._queues = queues
        self._laws = laws = GroupLaws(world, cluster, plan, queues[0].topic)
        for number in range(plan.members):
            self.add_place(
                f"{plan.name}-{number}", f"127.0.7.{number + 1}", lambda process: Member(process, plan, laws)
            )

    def unsettled(self) -> str:
        missing = {
            str(queue): at for queue in self._queues if (at := self._laws.missing(queue, self._cluster.end_of(queue)))
        }
        return f"group {self._plan.name} has not consumed {missing}" if missing else ""

    async def judge(self, operator: SimClient) -> None:
        for queue in self._queues:
            if not self._world.has_kept(queue.broker_name):
                continue
            header = QueryConsumerOffsetRequestHeader(
                self._plan.name, queue.topic, queue.queue_id, setZeroIfNotFound=False, bname=queue.broker_name
            )
            address = await operator.address_of(queue)
            answer = await operator.call(address, RequestCode.QUERY_CONSUMER_OFFSET, header, timeout_ms=_TIMEOUT_MS)
            try:
                committed = answer.raise_for_code().header(OffsetResponseHeader).offset
            except OffsetNotFound:
                committed = 0
            end = self._cluster.end_of(queue)
            if committed != end:
                self._world.violated(
                    f"Law 10: {self._plan.name} has left at {committed} of {queue}, which ends at {end}"
                )


class Member:
    """What a member's process does."""

    def __init__(self, process: SimProcess, plan: GroupPlan, laws: GroupLaws) -> None:
        self.is_to_stop = self.is_done = False
        self._process = process
        self._plan = plan
        self._laws = laws

    def run(self) -> None:
        while not self.is_to_stop:
            consumer = self._consumer()
            try:
                consumer.subscribe(self._laws.topic)
                consumer.start()
            except RmqError as error:
                self._process.world.trace.reached(f"join {type(error).__name__}")
                self._process.pause(1.0)
                continue
            self._process.world.trace.reached("member joined")
            while not self.is_to_stop:
                self._process.pause(0.2)
            consumer.close()

    def _consumer(self) -> PushConsumer:
        plan, process = self._plan, self._process
        return PushConsumer(
            process.namesrv,
            plan.name,
            listener=self._listen,
            ordered=plan.is_ordered,
            consume_from="earliest",
            consume_threads=plan.threads,
            consume_message_batch_max_size=plan.batch_size,
            config=PushConfig(rebalance_interval=plan.rebalance_ms, persist_consumer_offset_interval=plan.commit_ms),
            clock=process.clock,
            entropy=process.entropy,
            access=OPEN,
        )

    def _listen(self, messages: list[ReceivedMessage]) -> None:
        process, laws = self._process, self._laws
        laws.began(process, messages)
        failed = False
        try:
            process.pause(self._plan.slowest_s * (_HASTE if process.world.is_healed else 1.0))
            failed = process.random.random() < self._plan.fails and laws.may_fail(messages)
        finally:
            if not process.world.is_over:
                laws.ended(process, messages, failed=failed)
        if failed:
            process.world.trace.reached("listener failed")
            raise _Failed


class _Failed(RmqError):
    def __init__(self) -> None:
        super().__init__("planned by the seed")
