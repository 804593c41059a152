"""A run from its begin to its verdict: faults, then healing, then everything must work and everything must be there."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from rmqspark.errors import BrokerNotRegistered
from rmqspark.protocol.bodies.admin import SubscriptionGroupConfig
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import CreateTopicRequestHeader
from rmqspark.protocol.names import AUTO_CREATE_TOPIC
from rmqspark.testing.sim.batches import judge_rows
from rmqspark.testing.sim.cast import BATCH_TOPIC, TOPIC, Cast
from rmqspark.testing.sim.cluster import BROKER_PORT, build
from rmqspark.testing.sim.faults import Faults
from rmqspark.testing.sim.group_offsets import GROUP
from rmqspark.testing.sim.readers import QueueReader
from rmqspark.testing.sim.replicas import Replicas
from rmqspark.testing.sim.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

    from rmqspark.message_queue import MessageQueue
    from rmqspark.testing.sim.clients import SimClient
    from rmqspark.testing.sim.draw import Draw

_LOOK_AGAIN_S: Final = 0.05
_START_S: Final = 30.0
_SENDING_S: Final = 240.0
_HEALED_S: Final = 60.0
_DECIDED_S: Final = 180.0
_SETTLED_S: Final = 240.0
_STOP_S: Final = 30.0
_HELD_S: Final = 25.0
"""Within which a pull is answered that nothing comes for: 15 s, and up to five for the broker to look."""
_WOKEN_S: Final = 2.0
"""Within which a waiting pull hears of a message. The broker looks at all that wait every five seconds."""


class Story:
    """One run of a draw."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.world = World(draw.seed)
        self.world.loop.permutes = draw.permutes
        self.world.loses_nothing = draw.syncs_flush and not draw.disks_fail
        self.world.masters_move = draw.masters_move
        if draw.masters_move:
            self.world.promises_copies = draw.plan.broker.waits_for_slaves
            self.world.heirs.watch()
        self.cluster = build(self.world, draw.plan)
        self.replicas = Replicas(self.world, self.cluster)
        self.cast = Cast(self.world, draw, self.cluster, self.replicas)
        if draw.expires:
            self.world.expired.watch(self.cluster.brokers, self.cast.all_queues)
        self._faults = Faults(self.world, draw, self.cluster, self.cast.hosts)

    def run(self) -> None:
        """Its verdict is in `world.violations`."""
        self.world.run(self._tell())

    async def _tell(self) -> None:
        self.world.note(str(self.draw))
        await self._start()
        cast = self.cast
        reading = [reader.client.spawn(reader.follow()) for reader in (*cast.readers, *cast.batch_readers)]
        committing = [committer.client.spawn(committer.run()) for committer in cast.committers]
        self._faults.begin()
        writing = [writer.client.spawn(writer.run()) for writer in cast.writers]
        sending = [producer.client.spawn(producer.run(self.draw.workload.sends)) for producer in cast.producers]
        plotting = [task for plot in cast.plots for task in plot.begin()]
        await self._wait_for(lambda: _are_done(sending), _SENDING_S, "", fails=False)
        await self._faults.heal()
        self.world.is_healed = True
        if self.draw.expires:
            await self._copy_anew()
        if self.draw.masters_move:
            self.cast.leave_lost_slaves()
            await self._wait_for(self._all_serve, _HEALED_S, "", fails=False)
            await self._operate(self._create_anew())
        for plot in cast.plots:
            plot.healed()
        for producer in cast.producers:
            producer.is_to_stop = True
        await self._wait_for(lambda: _are_done(sending), _HEALED_S, "a send did not end")
        await self._wait_for(lambda: _are_done(writing), _DECIDED_S, "a batch was not decided")
        await self._prove_that_it_lives()
        await self._settle(plotting)
        cast.stop()
        await self._wait_for(lambda: _are_done(reading + committing), _HEALED_S, "a request was never answered")
        for task in filter(asyncio.Task.done, (*sending, *writing, *reading, *committing, *plotting)):
            task.result()
        await self._operate(self._last_words())
        await self._stop()
        self.world.checker.finish()

    # --- the phases --------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        for node in self.cluster.nodes:
            node.start()
        await self._wait_for(self._all_serve, _START_S, "a server did not start")
        await self._operate(self._create_topic(self.cast.operator))

    async def _create_topic(self, operator: SimClient) -> None:
        """And a group, on all brokers."""
        queues, patience_ms = self.draw.workload.queues, int(_START_S * 1000)
        for node in self.cluster.brokers.values():
            address = f"{node.host}:{BROKER_PORT}"
            for topic in (TOPIC, BATCH_TOPIC, *(topic for plot in self.cast.plots for topic in plot.topics)):
                header = CreateTopicRequestHeader(topic, AUTO_CREATE_TOPIC, queues, queues, 6, "SINGLE_TAG")
                code = RequestCode.UPDATE_AND_CREATE_TOPIC
                (await operator.call(address, code, header, timeout_ms=patience_ms)).raise_for_code()
            for name in (GROUP, *(name for plot in self.cast.plots for name in plot.groups)):
                group = SubscriptionGroupConfig(groupName=name).encode()
                code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
                (await operator.call(address, code, None, group, timeout_ms=patience_ms)).raise_for_code()

    async def _create_anew(self) -> None:
        """What a slave that was made the master had not heard of; by somebody who has no old connections."""
        await self._create_topic(self.cast.client("creator"))

    async def _copy_anew(self) -> None:
        """What a slave says has to be done where its master has let go of what it lacks."""
        await self._wait_for(self._all_serve, _HEALED_S, "", fails=False)
        for slave in self.replicas.left_behind() if self._all_serve() else []:
            self.world.trace.reached("slave copied anew")
            await slave.start_anew()

    def _all_serve(self) -> bool:
        return all(node.serves for node in self.cluster.nodes)

    async def _prove_that_it_lives(self) -> None:
        """All servers serve; each queue takes a message, and each reader comes to its end."""
        await self._wait_for(self._all_serve, _HEALED_S, lambda: f"not healed: {self._failures()}")
        await self._operate(self._send_to_all())
        await self._wait_for(
            self.replicas.all_have_come_up,
            _HEALED_S,
            lambda: f"a slave did not come up with its master: {self.replicas}",
        )
        self.replicas.compare()
        await self._operate(self._come_to_the_ends())

    async def _end_of(self, queue: MessageQueue) -> int:
        """As soon as is known where it is: a name server that has just begun again may have heard of no broker yet."""
        reader = QueueReader(self.cast.client("looker"), queue)
        end_s = self.world.loop.time() + _HEALED_S
        while True:
            try:
                return await reader.end()
            except BrokerNotRegistered:
                if self.world.loop.time() >= end_s:
                    raise
            await asyncio.sleep(_LOOK_AGAIN_S)

    def _failures(self) -> list[str]:
        return [f"{node.name}: {node.failure!r}" for node in self.cluster.nodes if not node.serves]

    async def _send_to_all(self) -> None:
        producer = self.cast.patient_producer()
        for queue in self.cast.queues:
            if not await producer.send(queue):
                self.world.violated(f"{queue} takes no message after all was healed")

    async def _come_to_the_ends(self) -> None:
        """Then each waits there; one message more has to wake it."""
        ends = {queue: await self._end_of(queue) for queue in self.cast.queues}
        await self._wait_for(
            lambda: all(self._is_at_the_end(reader, ends[reader.queue]) for reader in self.cast.readers),
            _HEALED_S,
            lambda: (
                f"not read to the end: {[(str(each.queue), each.position) for each in self.cast.readers]} of {ends}"
            ),
        )
        for reader in self.cast.readers:
            reader.is_patient = True
        await self._wait_for(lambda: all(r.waits_long for r in self.cast.readers), _HEALED_S, "no reader came to wait")
        await asyncio.sleep(0.5)
        waiting = [reader for reader in self.cast.readers if reader.waits_long]
        await self._send_to_all()
        await self._wait_for(
            lambda: all(reader.position > ends[reader.queue] for reader in waiting),
            _WOKEN_S,
            "a waiting pull was not woken",
        )
        told_nothing = [(reader, reader.empty_answers) for reader in self.cast.readers]
        await self._wait_for(
            lambda: all(reader.empty_answers > before for reader, before in told_nothing),
            _HELD_S,
            "a pull for which nothing came was not answered",
        )

    async def _settle(self, plotting: list[asyncio.Task[Any]]) -> None:
        for plot in self.cast.plots:
            await self._wait_for(lambda plot=plot: not plot.unsettled(), _SETTLED_S, plot.unsettled)  # type: ignore[misc]
            plot.end()
        await self._wait_for(lambda: _are_done(plotting), _HEALED_S, "a process did not end")
        for plot in self.cast.plots:
            await self._operate(plot.judge(self.cast.client("after")))

    def _is_at_the_end(self, reader: QueueReader, end: int) -> bool:
        """A slave that was empty when its master's log had several files has the last of them, and no queue before."""
        return reader.position >= end or self.replicas.lacks_the_begin(reader.queue.broker_name, reader.broker_id)

    async def _last_words(self) -> None:
        """What groups have committed, and every queue of every replica to its end."""
        cast = self.cast
        for committer in cast.committers:
            await committer.ask()
        found: Counter[str] = Counter()
        for queue in cast.targets:
            reader = QueueReader(cast.client("after"), queue)
            await reader.scan()
            found.update(reader.names)
        found += self.world.expired.names(cast.targets)
        if self.world.promises_copies or self.world.has_kept_everywhere:
            for violation in judge_rows(cast.writers, found):
                self.world.violated(violation)
        for broker_id in range(self.draw.plan.slaves + 1):
            for queue in cast.queues:
                if broker_id <= len(self.cluster.slaves[queue.broker_name]):
                    await QueueReader(cast.client("after"), queue, broker_id).scan()

    async def _stop(self) -> None:
        """In order; nothing may be left of a server then."""
        for node in reversed(self.cluster.nodes):
            life = node.life
            stopping = asyncio.ensure_future(node.stop())
            await self._wait_for(stopping.done, _STOP_S, f"{node.name} did not stop")
            left = [str(task) for task in (life.tasks if life is not None else []) if not task.done()]
            if left:
                self.world.violated(f"{node.name} has stopped and left {left}")
            if node.failure is not None:
                self.world.violated(f"{node.name} stopped with {node.failure!r}")

    # --- how ---------------------------------------------------------------------------------------------------------

    async def _operate(self, work: Coroutine[Any, Any, None]) -> None:
        """As a client that nobody disturbs."""
        task = self.cast.operator.spawn(work)
        await asyncio.wait([task])
        task.result()

    async def _wait_for(
        self, condition: Callable[[], bool], at_most_s: float, else_say: str | Callable[[], str], *, fails: bool = True
    ) -> None:
        end_s = self.world.loop.time() + at_most_s
        while not condition():
            if self.world.loop.time() >= end_s:
                if fails:
                    self.world.violated(
                        f"{else_say if isinstance(else_say, str) else else_say()} within {at_most_s:g} s"
                    )
                return
            await asyncio.sleep(_LOOK_AGAIN_S)


def _are_done(tasks: Iterable[asyncio.Task[Any]]) -> bool:
    return all(task.done() for task in tasks)
