"""The servers of a world as production has them: name servers, brokers, slaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.broker.broker import Broker
from rmqspark.broker.config import BrokerConfig
from rmqspark.namesrv.config import NamesrvConfig
from rmqspark.namesrv.server import NameServer
from rmqspark.remoting.limits import Limits
from rmqspark.store.appending.beside import at_once
from rmqspark.store.config import StoreConfig
from rmqspark.testing.sim.node import Node

if TYPE_CHECKING:
    from rmqspark.message_queue import MessageQueue
    from rmqspark.store.message_store import MessageStore
    from rmqspark.testing.sim.world import World

NAMESRV_PORT = 9876
BROKER_PORT = 10911
STORE_DIR = "/simulated/store"  # absolute: brokers tell it, and a seed must not go by where it is run


@dataclass(frozen=True)
class Plan:
    """Which servers there are, and what they are told."""

    brokers: int = 1
    namesrvs: int = 1
    slaves: int = 0
    """Of each broker."""
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    limits: Limits = field(default_factory=Limits)

    @property
    def namesrv_addr(self) -> str:
        return ";".join(f"{_namesrv_host(number)}:{NAMESRV_PORT}" for number in range(self.namesrvs))

    @property
    def broker_names(self) -> list[str]:
        return [f"broker-{chr(ord('a') + number)}" for number in range(self.brokers)]


class BrokerPlace(NamedTuple):
    """Which broker a node is."""

    name: str
    broker_id: int
    role: str


@dataclass
class Cluster:
    """The nodes by what they are; slaves by the name of their master."""

    namesrvs: list[Node] = field(default_factory=list)
    brokers: dict[str, Node] = field(default_factory=dict)
    slaves: dict[str, list[Node]] = field(default_factory=dict)
    _on_succession: list[tuple[str, Callable[[], None]]] = field(default_factory=list)

    @property
    def with_stores(self) -> list[Node]:
        return [*self.brokers.values(), *(slave for of_one in self.slaves.values() for slave in of_one)]

    @property
    def nodes(self) -> list[Node]:
        return [*self.namesrvs, *self.with_stores]

    def store_of(self, queue: MessageQueue) -> MessageStore:
        """The master's, which must serve."""
        store: MessageStore = self.brokers[queue.broker_name].server.store
        return store

    def end_of(self, queue: MessageQueue) -> int:
        """One past the last offset that can be read."""
        return self.store_of(queue).read(queue.topic, queue.queue_id, 0, max_count=1, max_bytes=1).max_offset

    def when_master_ends(self, name: str, call: Callable[[], None]) -> None:
        """Has it called whenever a life of whoever is the master of this name is over."""

        def told(node: Node) -> None:
            if self.brokers[name] is node:
                call()

        for node in (self.brokers[name], *self.slaves[name]):
            node.on_end.append(partial(told, node))

    def when_succeeded(self, name: str, call: Callable[[], None]) -> None:
        """Has it called when a slave is made the master of this name, before it starts."""
        self._on_succession.append((name, call))

    def succeeded(self, name: str) -> None:
        for of_name, call in self._on_succession:
            if of_name == name:
                call()


def build(world: World, plan: Plan) -> Cluster:
    """Adds them to the world; nothing is started yet."""
    cluster = Cluster()
    for number in range(plan.namesrvs):
        cluster.namesrvs.append(_add_namesrv(world, number))
    for number, name in enumerate(plan.broker_names):
        node = cluster.brokers[name] = _add_broker(world, plan, name, f"127.0.2.{number + 1}")
        node.on_listen = opened_by(world, name, node)
        cluster.slaves[name] = [
            _add_broker(world, plan, name, f"127.0.{3 + slave}.{number + 1}", broker_id=slave + 1)
            for slave in range(plan.slaves)
        ]
    return cluster


class _Opened:
    """Says once a life, before any client is let in, which incarnation of its store a broker has."""

    def __init__(self, world: World, name: str, node: Node) -> None:
        self._world = world
        self._name = name
        self._node = node
        self._told = 0

    def __call__(self) -> None:
        if self._told < self._node.lives:
            self._told = self._node.lives
            store = self._node.server.store
            self._world.opened(self._name, store.store_id, store.incarnation)
            self._world.expired.opened(self._name, store)


def opened_by(world: World, name: str, node: Node) -> Callable[[], None]:
    """What a node is to call when it begins to listen as the master of this name."""
    return _Opened(world, name, node)


def _namesrv_host(number: int) -> str:
    return f"127.0.1.{number + 1}"


def _add_namesrv(world: World, number: int) -> Node:
    config = NamesrvConfig(listen_port=NAMESRV_PORT, bind_address=_namesrv_host(number))
    return world.add(f"namesrv-{number}", config.bind_address, lambda node: NameServer(config, clock=node.clock))


def _add_broker(world: World, plan: Plan, name: str, host: str, *, broker_id: int = 0) -> Node:
    role = "SLAVE" if broker_id else plan.broker.broker_role
    make = _broker_of(plan, host, BrokerPlace(name, broker_id, role))
    return world.add(f"{name}-{broker_id}" if broker_id else name, host, make)


def place(plan: Plan, node: Node, where: BrokerPlace) -> None:
    """From its next start on the node, which keeps its disk and its host, is that broker."""
    node.make = _broker_of(plan, node.host, where)


def _broker_of(plan: Plan, host: str, where: BrokerPlace) -> Callable[[Node], Broker]:
    config = replace(
        plan.broker,
        broker_name=where.name,
        broker_id=where.broker_id,
        broker_role=where.role,
        bind_address=host,
        listen_port=BROKER_PORT,
        namesrv_addr=plan.namesrv_addr,
    )

    def make(node: Node) -> Broker:
        return Broker(
            config,
            plan.store,
            store_dir=STORE_DIR,
            files=node.files,
            clock=node.clock,
            entropy=node.entropy,
            limits=plan.limits,
            write_beside=at_once,
        )

    return make
