"""A cluster as a client sees it: routes from the name servers, and a connection to each broker in use.

Everything in this package that talks to a cluster goes through one of these: it is shared between threads, keeps
routes for 30 seconds, and opens one pipelined connection per address.
"""

from __future__ import annotations

import os
import threading
import weakref
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqspark.client.closing import ClosedByWith
from rmqspark.client.cluster.access import resolve_access
from rmqspark.client.cluster.addresses import parse_addresses, resolve_namesrv
from rmqspark.client.cluster.broker_client import BrokerClient
from rmqspark.client.cluster.broker_places import BrokerPlaces
from rmqspark.client.cluster.connections import Connections
from rmqspark.client.cluster.futures import rephrased
from rmqspark.client.cluster.heartbeats import Heartbeats
from rmqspark.client.cluster.identity import client_id, local_ip
from rmqspark.client.cluster.known_coordinators import KnownCoordinators
from rmqspark.client.cluster.namesrv_client import NameServers
from rmqspark.client.cluster.outages import Outages
from rmqspark.client.cluster.routes import RouteCache, TopicRoute, borrowed_route, no_broker, topic_route
from rmqspark.clock import SystemClock
from rmqspark.entropy import SystemEntropy
from rmqspark.errors import BrokerNotRegistered, HandshakeFailed, RmqError, TopicNotFound, Unreachable
from rmqspark.protocol.names import AUTO_CREATE_TOPIC, check_topic, is_made_by_brokers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import msgspec

    from rmqspark.client.cluster.connections import OnBrokerRequest
    from rmqspark.clock import Clock
    from rmqspark.entropy import Entropy
    from rmqspark.message_queue import MessageQueue
    from rmqspark.protocol.bodies.route import ClusterInfo
    from rmqspark.remoting.access import Access
    from rmqspark.remoting.blocking import BlockingConnection

DEFAULT_TIMEOUT_MS = 3000  # RocketMQ's mqClientApiTimeout
KNOWN_TIMEOUT_MS = 1_000  # for a name server to say whether what it told before still holds
REGISTERED_MS = 1_000  # for which name servers that knew a broker are not asked again whether they do
AUTO_CREATE_QUEUES = 4  # RocketMQ's defaultTopicQueueNums of a producer
_MOST_BROKERS = 1_000  # that are kept; the first are made again when they are asked for

_clients: weakref.WeakSet[ClusterClient] = weakref.WeakSet()


class ClusterClient(ClosedByWith):
    """A cluster, found by its name servers ("h1:9876;h2:9876"; None: $RMQ_NAMESRV, $NAMESRV_ADDR, this machine).

    Nothing is connected before it is needed. Safe to share between threads; a context manager; `close` more than once
    is allowed, anything else afterwards is AlreadyClosed.
    """

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        clock: Clock | None = None,
        entropy: Entropy | None = None,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        on_request: OnBrokerRequest | None = None,
        instance_name: str | None = None,
        access: Access | None = None,
    ) -> None:
        """`instance_name` is what the client calls itself, on its machine, instead of by its process and time. `access`
        None is what the environment says."""
        self.namesrv = resolve_namesrv(namesrv)
        self.clock = clock or SystemClock()
        self.entropy = entropy or SystemEntropy()
        self.timeout_ms = timeout_ms
        self.access = resolve_access(access)
        self._connections = Connections(timeout_ms, on_request, self.access)
        self.name_servers = NameServers(parse_addresses(self.namesrv), self._connections, timeout_ms)
        self.ip = local_ip(self.name_servers.addresses[0])
        self._instance_name = instance_name
        self.client_id = self._new_id()
        self.heartbeats = Heartbeats(self.client_id)
        self._lock = threading.Lock()  # for changes of what follows; a look-up alone is atomic
        self.coordinators = KnownCoordinators()
        self.outages = Outages(self.clock, self.broker)
        self._routes = RouteCache()
        self._places = BrokerPlaces(self.clock)
        self._brokers: dict[str, BrokerClient] = {}
        self._registered_until_ms = 0
        _clients.add(self)

    def begin_anew(self) -> None:
        """In a process that is forked: another thread of its parent may have had any lock, and is not here. It is
        another client: two of one id in a group would both read the same queues."""
        self._lock = threading.Lock()
        self.client_id = self._new_id()
        self._connections.begin_anew()
        self.heartbeats.begin_anew(self.client_id)
        for broker in self._brokers.values():
            broker.begin_anew()

    def close(self) -> None:
        """Closes every connection. What is under way fails with ConnectionLost."""
        with self._lock:
            self._closed = True
        self.heartbeats.stop()
        self._connections.close()
        self.heartbeats.join()

    @property
    def closed(self) -> bool:
        return self._closed

    # --- routes ------------------------------------------------------------------------------------------------------

    def route(self, topic: str) -> TopicRoute:
        """The topic's route, at most 30 s old. TopicNotFound; Unreachable where no name server answers, NoBrokers where
        they know of none.

        While no name server answers, or they have just started and know none of its brokers, the route as last seen
        goes on being used: messages need brokers only. Then they are asked every five seconds, and only for a moment.
        """
        route = self._found(topic)
        if route is None:
            raise self._missing(topic)
        return route

    def _found(self, topic: str) -> TopicRoute | None:
        """As `route` gives it; None where name servers know no such topic."""
        self._check_open()
        check_topic(topic)
        known = self._routes.fresh(topic, self.clock.monotonic_ms())
        last = self._routes.last_known(topic)
        if known is not None and not known.borrowed:
            return known
        if last is not None and last.borrowed:
            last = None
        try:
            data = self.name_servers.route(topic, None if last is None else KNOWN_TIMEOUT_MS)
            is_known = data is not None or last is None or self._is_any_registered(last.brokers)
        except Unreachable:
            if last is None:
                raise
            data, is_known = None, False
        if data is not None:
            return self._keep(topic_route(topic, data))
        if last is not None and not is_known:
            with self._lock:
                self._routes.keep(topic, self.clock.monotonic_ms())
            return last
        self._forget(topic)
        return None

    def _missing(self, topic: str) -> RmqError:
        """The error for a topic that name servers do not know: where they know no broker either, that says nothing."""
        if self._is_nobody_registered():
            return no_broker(self.namesrv)
        made = "Brokers make it themselves, when they have something for it." if is_made_by_brokers(topic) else ""
        return TopicNotFound(topic, hint=made)

    def look_up(self, topics: Sequence[str]) -> None:
        """Asks for the routes of these topics together, as far as they are not known, so that `route` need not ask for
        each. It raises nothing of its own: what is missing afterwards, `route` asks for and tells."""
        now_ms = self.clock.monotonic_ms()
        unknown = [topic for topic in topics if (known := self._routes.fresh(topic, now_ms)) is None or known.borrowed]
        if len(unknown) > 1:
            with suppress(Unreachable):
                for topic, data in self.name_servers.known_routes(unknown).items():
                    self._keep(topic_route(topic, data))

    def route_to_publish(self, topic: str) -> TopicRoute:
        """The topic's route; for a topic that does not exist one borrowed from TBW102, if the cluster auto-creates.

        Spec: semantics, section 2.1. TopicNotFound where it does not.
        """
        self._check_open()
        route = self._routes.fresh(topic, self.clock.monotonic_ms()) or self._found(topic)
        if route is not None:
            return route
        template = self._found(AUTO_CREATE_TOPIC)
        if template is None:
            raise self._missing(topic)
        return self._keep(borrowed_route(topic, template, AUTO_CREATE_QUEUES))

    def publish_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that may be sent to, in RocketMQ's order."""
        return list(self.route(topic).publish_queues)

    def subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """The queues that may be read, in RocketMQ's order."""
        return list(self.route(topic).subscribe_queues)

    def topics(self) -> list[str]:
        """All topics, the system's among them."""
        return sorted(self.name_servers.topics())

    def cluster_info(self, timeout_ms: int | None = None) -> ClusterInfo:
        """`timeout_ms` is for each name server; None: the client's."""
        info = self.name_servers.cluster_info(timeout_ms)
        with self._lock:
            for name, broker in info.brokerAddrTable.items():
                self._places.note(name, broker.brokerAddrs)
        if info.brokerAddrTable:
            self._registered_until_ms = self.clock.monotonic_ms() + REGISTERED_MS
        return info

    def require_brokers(self) -> None:
        """Raises NoBrokers while none is registered: that a topic is not known says nothing then."""
        if not self.cluster_info().brokerAddrTable:
            raise no_broker(self.namesrv)

    def expire_route(self, topic: str) -> None:
        """Makes the next use ask the name servers again, after something of the route did not hold."""
        with self._lock:
            self._routes.expire(topic)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def broker(self, broker_name: str) -> BrokerClient:
        """The broker of that name; it need not be there yet."""
        self._check_open()
        client = self._brokers.get(broker_name)
        if client is not None:
            return client
        with self._lock:
            client = BrokerClient(
                broker_name,
                lambda: self._connect(broker_name),
                self.timeout_ms,
                self.clock,
                lambda address: self._suspect(broker_name, address),
            )
            client = self._brokers.setdefault(broker_name, client)
            if len(self._brokers) > _MOST_BROKERS:
                del self._brokers[next(iter(self._brokers))]
            return client

    def broker_at(self, broker_name: str, address: str) -> BrokerClient:
        """One of the brokers of that name, master or slave, where it is registered."""
        self._check_open()
        return BrokerClient(broker_name, lambda: self._to(broker_name, address), self.timeout_ms, self.clock)

    def broker_address(self, broker_name: str) -> str:
        """Where the broker is: its master, else the slave with the lowest id. Then its master is looked for every two
        seconds.

        BrokerNotRegistered for one that no name server has named to this client; while a known one is away, where it
        was last.
        """
        address = self._places.certain(broker_name)
        if address is not None:
            return address
        address = self._places.address(broker_name)
        try:
            known = self.cluster_info(None if address is None else KNOWN_TIMEOUT_MS).brokerAddrTable
        except Unreachable:
            if address is None:
                self._forget_broker(broker_name)
                raise
            with self._lock:
                self._places.unanswered(broker_name)
            return address
        with self._lock:
            self._places.looked(broker_name)
        address = self._places.address(broker_name)
        if address is None:
            self._forget_broker(broker_name)
            raise BrokerNotRegistered(
                f"Broker {broker_name!r} is not registered.",
                hint=f"Registered are: {', '.join(sorted(known)) or 'none'}.",
            )
        return address

    def is_headless(self, broker_name: str) -> bool:
        """Whether `broker` is a slave, for all that is known: it decides nothing."""
        return self._places.is_headless(broker_name)

    def known_masters(self) -> dict[str, str]:
        """The addresses of the brokers whose master is known to this client."""
        with self._lock:
            return self._places.masters()

    def hear(self, masters: Mapping[str, str]) -> None:
        """Takes over what another process knows, for when no name server answers."""
        with self._lock:
            self._places.hear(masters)

    def answer(self, address: str, code: int, header: msgspec.Struct) -> None:
        """Sends a request that nobody answers to the broker that asked for it. Raises Unreachable, ConnectionLost."""
        self._connections.to(address).send_oneway(code, header)

    def _connect(self, broker_name: str) -> BlockingConnection | Future[BlockingConnection]:
        return self._to(broker_name, self.broker_address(broker_name))

    def _to(self, broker_name: str, address: str) -> BlockingConnection | Future[BlockingConnection]:
        connection = self._connections.soon(address)
        if not isinstance(connection, Future):
            return connection
        return rephrased(connection, lambda error: self._not_there(broker_name, address, error))

    def _not_there(self, broker_name: str, address: str, error: BaseException) -> BaseException:
        if not isinstance(error, Unreachable):
            return error
        self._suspect(broker_name, address)
        if isinstance(error, HandshakeFailed):
            return HandshakeFailed(
                f"Broker {broker_name!r} at {address}: {error.message}", address=address, hint=error.hint
            )
        return Unreachable(
            f"Broker {broker_name!r} at {address} does not answer: {error.message}",
            address=address,
            hint="Is it running? rmq doctor says which brokers are registered.",
        )

    def _suspect(self, broker_name: str, address: str) -> None:
        """It is not there: name servers are asked before it is called again."""
        with self._lock:
            self._places.suspect(broker_name, address)

    # --- what is known -----------------------------------------------------------------------------------------------

    def _keep(self, route: TopicRoute) -> TopicRoute:
        with self._lock:
            self._routes.put(route, self.clock.monotonic_ms())
            for name, addresses in route.brokers.items():
                self._places.note(name, addresses)
        return route

    def _is_any_registered(self, broker_names: Iterable[str]) -> bool:
        """Whether the name servers know any of these brokers: those that do can be believed about its topics."""
        return not self.cluster_info(KNOWN_TIMEOUT_MS).brokerAddrTable.keys().isdisjoint(broker_names)

    def _new_id(self) -> str:
        if self._instance_name is not None:
            return f"{self.ip}@{self._instance_name}"
        return client_id(self.ip, self.clock, self.entropy)

    def _is_nobody_registered(self) -> bool:
        """Whether the name servers say that they know no broker at all."""
        if self.clock.monotonic_ms() < self._registered_until_ms:
            return False
        try:
            return not self.cluster_info(KNOWN_TIMEOUT_MS).brokerAddrTable
        except RmqError:
            return False

    def _forget(self, topic: str) -> None:
        with self._lock:
            self._routes.forget(topic)

    def _forget_broker(self, broker_name: str) -> None:
        """Nobody has heard of it: the name may be made up, and others may follow."""
        with self._lock:
            self._brokers.pop(broker_name, None)


def _begin_anew() -> None:
    for client in list(_clients):
        client.begin_anew()


os.register_at_fork(after_in_child=_begin_anew)
