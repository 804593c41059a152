"""What goes wrong in a run, each kind by a task of its own, until all is healed."""

from __future__ import annotations

import asyncio
from errno import EIO
from typing import TYPE_CHECKING, Final

from rmqspark.testing.sim.draw import LATER_FAULTS, SUCCESSION_FAULTS
from rmqspark.testing.sim.drawn_parts import LATE_FAULTS, NODE_FAULTS
from rmqspark.testing.sim.loop import Life, spawn
from rmqspark.testing.sim.replicas import is_copied
from rmqspark.testing.sim.successions import Return, Succession

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from random import Random
    from typing import Any

    from rmqspark.testing.sim.cluster import Cluster
    from rmqspark.testing.sim.draw import Draw
    from rmqspark.testing.sim.node import Node
    from rmqspark.testing.sim.world import World

_LOOK_AGAIN_S: Final = 0.05
_LONGEST_DOWN_S: Final = 5.0
_LONGEST_CUT_S: Final = 15.0
_MOST_OPERATIONS: Final = 60
_CALLS_TO_DIE_IN_S: Final = 10.0
_LARGEST_STEP_MS: Final = 3_600_000
_LONGEST_UNNOTICED_S: Final = 10.0


class Faults:
    """Belongs to one run. `lock_of` keeps two from happening to one node at a time."""

    def __init__(self, world: World, draw: Draw, cluster: Cluster, client_hosts: list[str]) -> None:
        self._world = world
        self._draw = draw
        self._cluster = cluster
        self._client_hosts = client_hosts
        self._life = Life("127.0.9.1")
        self._busy: dict[str, asyncio.Lock] = {node.name: asyncio.Lock() for node in cluster.nodes}
        self._tasks: list[asyncio.Task[Any]] = []
        self._kinds: dict[str, Callable[[Random], Coroutine[Any, Any, None]]] = {
            "name server killed": self._kill_name_server,
            "stall": self._stall,
            "one way only": self._cut_one_way,
            "reset": self._reset,
            "half-close": self._half_close,
            "refuse": self._refuse,
        }

        self._ambushed: dict[str, Node] = {}
        self._waits_for_decision: dict[str, bool] = {}
        self._successions: dict[str, Succession] = {}
        self._copies: set[str] = set()
        """The slaves that had all that their masters had at one moment: what is acknowledged since then they have."""
        self._random = world.random("ambush")

    def begin(self) -> None:
        self._world.on_promise = self._spring
        self._world.network.weather = self._draw.weather
        self._world.loop.slowest_work_s = self._draw.slowest_work_s
        for kind, mean_s in self._draw.mean_s.items():
            if kind in SUCCESSION_FAULTS:
                for name in self._cluster.brokers:
                    self._tasks.append(spawn(self._world.loop, self._life, self._lose_masters(kind, mean_s, name)))
                continue
            nodes = self._cluster.with_stores if kind in (*NODE_FAULTS, *LATE_FAULTS, *LATER_FAULTS) else [None]
            for node in nodes:
                self._tasks.append(spawn(self._world.loop, self._life, self._again_and_again(kind, mean_s, node)))

    async def heal(self) -> None:
        """Nothing goes wrong any more; all servers are started that are down."""
        self._life.end()
        self._ambushed.clear()
        world = self._world
        world.network.mend_all()
        world.network.weather.calm()
        world.loop.slowest_work_s = 0.005
        for succession in self._successions.values():
            succession.finish()
        for node in self._cluster.nodes:
            node.files.heal()
            node.files.set_budget(None)
            node.clock.wrong_by_ms = max(0, node.clock.wrong_by_ms)
            if not node.serves or self._draw.disks_fail:
                node.kill()
                node.start()

    async def _again_and_again(self, kind: str, mean_s: float, node: Node | None) -> None:
        random = self._world.random(f"{kind}/{node.name if node else ''}")
        while True:
            await asyncio.sleep(random.expovariate(1 / mean_s))
            if node is None:
                self._tell(kind)
                await self._kinds[kind](random)
            else:
                async with self._busy[node.name]:
                    if node not in self._cluster.with_stores:  # it is gone for good
                        return
                    self._tell(kind, node)
                    await self._befall(kind, node, random)

    def _tell(self, kind: str, node: Node | None = None) -> None:
        self._world.trace.reached(kind)
        self._world.note(f"fault: {kind} {node.name if node else ''}")

    # --- what befalls a server with a disk ---------------------------------------------------------------------------

    async def _befall(self, kind: str, node: Node, random: Random) -> None:
        files = node.files
        match kind:
            case "kill":
                node.kill()
            case "power loss":
                node.lose_power(silently=random.random() < 0.5)
            case "death within a call":
                files.stop_at(random.randint(1, _MOST_OPERATIONS), after_bytes=random.choice((0, 0, 10, 600)))
                await self._until(lambda: files.has_died, _CALLS_TO_DIE_IN_S)
                self._end(node, random)
            case "power loss at an answer":
                self._ambushed[node.name] = node
                self._waits_for_decision[node.name] = random.random() < 0.7
                await self._until(lambda: node.name not in self._ambushed, _CALLS_TO_DIE_IN_S)
                if self._ambushed.pop(node.name, None) is not None:
                    return
            case "restart in order":
                await node.stop()
            case "fsync fails":
                files.fail_next("fsync")
                await asyncio.sleep(random.random() * _LONGEST_DOWN_S)
                self._end(node, random)
            case "write fails":
                files.fail_next("pwrite", OSError(EIO, "planned by the seed"), after_bytes=random.choice((0, 10, 600)))
                return
            case "read fails":
                files.fail_next("pread", OSError(EIO, "planned by the seed"))
                return
            case "disk full":
                files.set_budget(0)
                await asyncio.sleep(random.random() * _LONGEST_DOWN_S)
                files.set_budget(None)
                return
            case "clock is set":
                node.clock.wrong_by_ms += random.randint(-_LARGEST_STEP_MS, _LARGEST_STEP_MS)
                return
        await asyncio.sleep(random.random() * _LONGEST_DOWN_S)
        await self._start(node)

    def _spring(self, broker_name: str, is_decision: bool) -> None:
        """Somebody has just heard that something is safe there. Only what is on disk by now can make that true."""
        place = self._cluster.brokers[broker_name].name
        node = self._ambushed.get(place)
        if node is None or not node.is_up or (self._waits_for_decision[place] and not is_decision):
            return
        del self._ambushed[place]
        self._world.trace.reached("power loss at a decision" if is_decision else "power loss at an acknowledgement")
        succession = self._successions.get(broker_name)
        if succession is not None and not succession.is_over:
            self._world.trace.reached("master lost at an answer")
            succession.lose(silently=False)
        else:
            node.lose_power(silently=False)
        life = self._world.threads.life
        if life is not None and self._random.random() < 0.5:  # and who heard it can tell nobody
            self._world.trace.reached("who had the answer died with who gave it")
            life.process.kill()

    # --- a master that is gone for good ------------------------------------------------------------------------------

    async def _lose_masters(self, kind: str, mean_s: float, name: str) -> None:
        """As long as there is a slave to go on with."""
        random = self._world.random(f"{kind}/{name}")
        while self._cluster.slaves[name]:
            await asyncio.sleep(random.expovariate(1 / mean_s))
            master, slave = self._cluster.brokers[name], self._cluster.slaves[name][0]
            if slave.name not in self._copies:  # until it is, there is no more than one copy
                await self._until(lambda m=master, s=slave: is_copied(m, s), _CALLS_TO_DIE_IN_S)  # type: ignore[misc]
            async with self._busy[master.name], self._busy[slave.name]:
                if is_copied(master, slave):
                    self._copies.add(slave.name)
                if master.serves and slave.name in self._copies:
                    self._tell(kind, master)
                    await self._succeed(name, master, slave, random)
                    self._copies.discard(master.name)

    async def _succeed(self, name: str, master: Node, slave: Node, random: Random) -> None:
        plan = self._draw.plan
        may_be_cut = plan.broker.ha_cut_tail or not plan.broker.waits_for_slaves
        returns = random.choice([each for each in Return if may_be_cut or each is not Return.AS_IT_WAS])
        succession = Succession(self._world, self._cluster, plan, name, returns)
        self._successions[name] = succession
        if random.random() < 0.5:
            await self._lie_in_wait(master, slave, succession, random)
        succession.lose(silently=random.random() < 0.5)
        await asyncio.sleep(random.random() * _LONGEST_UNNOTICED_S)
        if random.random() < 0.5:
            await slave.stop()
        else:
            self._end(slave, random)
        await asyncio.sleep(random.random() * _LONGEST_DOWN_S)
        slave.files.heal()
        succession.promote()
        await self._until(lambda: slave.serves or slave.failure is not None or not slave.is_up, _LONGEST_DOWN_S)
        await asyncio.sleep(random.random() * _LONGEST_DOWN_S)
        succession.come_back()

    async def _lie_in_wait(self, master: Node, slave: Node, succession: Succession, random: Random) -> None:
        """Until somebody hears of a promise; half of the time none may be made, for the slave gets nothing any more."""
        self._ambushed[master.name] = master
        self._waits_for_decision[master.name] = random.random() < 0.5
        is_cut = random.random() < 0.5
        if is_cut:
            self._world.network.cut(master.host, slave.host)
        await self._until(lambda: succession.is_lost, _CALLS_TO_DIE_IN_S)
        self._ambushed.pop(master.name, None)
        if is_cut:
            self._world.network.mend(master.host, slave.host)

    def _end(self, node: Node, random: Random) -> None:
        if random.random() < 0.5:
            node.kill()
        else:
            node.lose_power(silently=random.random() < 0.5)

    async def _start(self, node: Node) -> None:
        """A start may fail as its disk does: then once more, without the rest of what was planned."""
        node.files.heal()
        node.start()
        await self._until(lambda: node.serves or node.failure is not None or not node.is_up, _LONGEST_DOWN_S)

    async def _until(self, condition: Callable[[], bool], at_most_s: float) -> None:
        end_s = self._world.loop.time() + at_most_s
        while not condition() and self._world.loop.time() < end_s:  # noqa: ASYNC110 - in simulated time it costs nothing
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _kill_name_server(self, random: Random) -> None:
        node = random.choice(self._cluster.namesrvs)
        async with self._busy[node.name]:
            node.kill()
            await asyncio.sleep(random.random() * _LONGEST_CUT_S)
            node.start()

    # --- what befalls the network ------------------------------------------------------------------------------------

    def _two_hosts(self, random: Random) -> tuple[str, str]:
        servers = [node.host for node in self._cluster.nodes]
        first = random.choice(servers)
        second = random.choice([host for host in (*servers, *self._client_hosts) if host != first])
        return (first, second) if random.random() < 0.5 else (second, first)

    async def _cut(self, random: Random, ways: list[tuple[str, str]]) -> None:
        for source, target in ways:
            self._world.network.cut(source, target)
        await asyncio.sleep(random.random() * _LONGEST_CUT_S)
        for source, target in ways:
            self._world.network.mend(source, target)

    async def _stall(self, random: Random) -> None:
        source, target = self._two_hosts(random)
        await self._cut(random, [(source, target), (target, source)])

    async def _cut_one_way(self, random: Random) -> None:
        await self._cut(random, [self._two_hosts(random)])

    async def _reset(self, random: Random) -> None:
        connections = self._world.network.connections()
        if connections:
            random.choice(connections).break_off()

    async def _half_close(self, random: Random) -> None:
        connections = self._world.network.connections()
        if connections:
            random.choice(connections).end_halfway()

    async def _refuse(self, random: Random) -> None:
        host = random.choice(self._cluster.nodes).host
        self._world.network.refuse(host)
        await asyncio.sleep(random.random() * _LONGEST_DOWN_S)
        self._world.network.accept(host)
