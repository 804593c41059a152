"""Clients of a simulation: they ask, give up in time, try again, and write down what they saw."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rmqspark.errors import BrokerNotRegistered, RequestTimeout, RmqError, Unreachable
from rmqspark.protocol.bodies.route import TopicRouteData
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.headers.cluster import GetRouteInfoRequestHeader
from rmqspark.remoting.connection import AsyncConnection
from rmqspark.testing.sim.loop import Life, spawn

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    import msgspec

    from rmqspark.model import MessageQueue
    from rmqspark.remoting.response import Response
    from rmqspark.testing.sim.world import World

_CONNECT_TIMEOUT_MS = 3_000
_ROUTE_TIMEOUT_MS = 3_000
_MASTER = 0
_ROUTE_S = 10.0


class SimClient:
    """A process with a connection to each server it talks to. `random` is a stream of its own."""

    def __init__(self, world: World, name: str, host: str, namesrvs: Sequence[str]) -> None:
        self.world = world
        self.name = name
        self.random = world.random(name)
        self.life = Life(host)
        self.namesrvs = list(namesrvs)
        self._connections: dict[str, AsyncConnection] = {}
        self._connecting: dict[str, asyncio.Lock] = {}
        self._routes: dict[str, TopicRouteData] = {}
        self._asked_s: dict[str, float] = {}

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
        return spawn(self.world.loop, self.life, work)

    async def pause(self, longest_s: float) -> None:
        await asyncio.sleep(self.random.random() * longest_s)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def call(
        self,
        address: str,
        code: RequestCode,
        header: msgspec.Struct | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int,
    ) -> Response:
        """The answer, whatever its code. A connection on which an answer was missed is not used again."""
        connection = await self._connection(address)
        try:
            return await connection.call(code, header, body, timeout_ms=timeout_ms)
        except RequestTimeout:
            self.world.trace.reached("client gave up")
            if self._connections.get(address) is connection and self.random.random() < 0.5:
                del self._connections[address]
                self.spawn(connection.close())
            raise

    async def _connection(self, address: str) -> AsyncConnection:
        async with self._connecting.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or connection.closed:
                connection = await AsyncConnection.open(address, timeout_ms=_CONNECT_TIMEOUT_MS)
                self._connections[address] = connection
        return connection

    # --- routes ------------------------------------------------------------------------------------------------------

    async def route(self, topic: str) -> TopicRouteData:
        """By whichever name server answers first; where none does, as it was known last. Raises RmqError."""
        for namesrv in self.random.sample(self.namesrvs, len(self.namesrvs)):
            try:
                answer = await self.call(
                    namesrv,
                    RequestCode.GET_ROUTEINFO_BY_TOPIC,
                    GetRouteInfoRequestHeader(topic),
                    timeout_ms=_ROUTE_TIMEOUT_MS,
                )
                if answer.code == ResponseCode.SUCCESS:
                    self._routes[topic] = TopicRouteData.decode(answer.body)
                    return self._routes[topic]
            except RmqError:
                continue
        if topic not in self._routes:
            raise Unreachable(f"No name server gives a route of {topic}.", address=";".join(self.namesrvs))
        self.world.trace.reached("went by a route that was known")
        return self._routes[topic]

    def _known_route(self, topic: str) -> TopicRouteData | None:
        """None for one that is to be asked for, anew where brokers move."""
        now_s = self.world.loop.time()
        if self.world.masters_move and now_s - self._asked_s.get(topic, 0.0) > _ROUTE_S:
            self._asked_s[topic] = now_s
            return None
        return self._routes.get(topic)

    async def address_of(self, queue: MessageQueue, broker_id: int = _MASTER) -> str:
        """Of the broker of a queue. Raises RmqError."""
        route = self._known_route(queue.topic) or await self.route(queue.topic)
        for broker in route.brokerDatas:
            if broker.brokerName == queue.broker_name and broker_id in broker.brokerAddrs:
                return broker.brokerAddrs[broker_id]
        self._routes.pop(queue.topic)
        raise BrokerNotRegistered(f"{queue.broker_name} is not in the route of {queue.topic}.")
