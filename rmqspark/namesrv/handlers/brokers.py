"""Brokers register, live and go: REGISTER_BROKER (103), UNREGISTER_BROKER (104), QUERY_DATA_VERSION (322),
BROKER_HEARTBEAT (904).

As RocketMQ's DefaultRequestProcessor, except that an unregistration takes effect at once, not with the next batch.
Left out: NOTIFY_MIN_BROKER_ID_CHANGE to slaves (acting masters, off by default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.namesrv.kv_table import ORDER_TOPIC_CONFIG
from rmqspark.namesrv.registration import DEFAULT_TIMEOUT_MS, Registration
from rmqspark.namesrv.speaker import Speaker
from rmqspark.protocol.bodies.register import decode_register_body
from rmqspark.protocol.bodies.route import DataVersion, KVTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import (
    BrokerHeartbeatRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
)
from rmqspark.remoting.address import parse_address
from rmqspark.remoting.router import Reply, Request, Route, Routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.clock import Clock
    from rmqspark.namesrv.config import NamesrvConfig
    from rmqspark.namesrv.kv_table import KvTable
    from rmqspark.namesrv.route_table import RouteTable
    from rmqspark.remoting.request import Connection

_MAX_TIMEOUT_MS = 600_000


class BrokerHandlers:
    """What brokers ask of the name server."""

    def __init__(
        self,
        table: RouteTable,
        kv: KvTable,
        config: NamesrvConfig,
        clock: Clock,
        user_of: Callable[[Connection], str] = lambda _: "",
    ) -> None:
        """`user_of` says who has signed on a connection; "" where nobody does."""
        self._table = table
        self._kv = kv
        self._config = config
        self._clock = clock
        self._user_of = user_of

    def routes(self) -> Routes:
        return {
            RequestCode.REGISTER_BROKER: Route(RegisterBrokerRequestHeader, self.register),
            RequestCode.UNREGISTER_BROKER: Route(UnregisterBrokerRequestHeader, self.unregister),
            RequestCode.QUERY_DATA_VERSION: Route(UnregisterBrokerRequestHeader, self.query_data_version),
            RequestCode.BROKER_HEARTBEAT: Route(BrokerHeartbeatRequestHeader, self.heartbeat),
        }

    def register(self, request: Request[RegisterBrokerRequestHeader]) -> Reply:
        """Takes in a broker and its topics; tells a slave its master, and all the order configurations."""
        master = self._table.register(_registration(request, self._speaker(request)), self._clock.monotonic_ms())
        header = RegisterBrokerResponseHeader(haServerAddr=master.ha_address, masterAddr=master.address)
        orders = self._kv.namespace(ORDER_TOPIC_CONFIG) if self._config.return_order_topic_config_to_broker else None
        return Reply(header, KVTable(dict(orders)).encode() if orders is not None else b"")

    def unregister(self, request: Request[UnregisterBrokerRequestHeader]) -> Reply:
        header = request.header
        self._table.unregister(header.brokerName, header.brokerAddr, self._speaker(request))
        return Reply()

    def query_data_version(self, request: Request[UnregisterBrokerRequestHeader]) -> Reply:
        """Whether a broker's topics differ from those it registered; if not, this counts as a heartbeat."""
        name, address = request.header.brokerName, request.header.brokerAddr
        known = self._table.data_version(name, address)
        changed = known is None or known != DataVersion.decode_request(request.body)
        if not changed:
            self._table.heartbeat(name, address, self._speaker(request), self._clock.monotonic_ms())
        return Reply(QueryDataVersionResponseHeader(changed), known.encode() if known is not None else b"")

    def heartbeat(self, request: Request[BrokerHeartbeatRequestHeader]) -> Reply:
        header, now_ms = request.header, self._clock.monotonic_ms()
        self._table.heartbeat(header.brokerName, header.brokerAddr, self._speaker(request), now_ms)
        return Reply()

    def _speaker(self, request: Request[Any]) -> Speaker:
        connection = request.connection
        return Speaker(connection.id, connection.peer[0], self._user_of(connection))


def _registration(request: Request[RegisterBrokerRequestHeader], speaker: Speaker) -> Registration:
    header = request.header
    parse_address(header.brokerAddr)  # clients will connect there
    body = decode_register_body(
        request.body, compressed=bool(header.compressed), version=request.version, crc32=header.bodyCrc32 or 0
    )
    return Registration(
        cluster=header.clusterName,
        name=header.brokerName,
        broker_id=header.brokerId,
        address=header.brokerAddr,
        speaker=speaker,
        ha_address=header.haServerAddr,
        timeout_ms=min(header.heartbeatTimeoutMillis or DEFAULT_TIMEOUT_MS, _MAX_TIMEOUT_MS),
        acting_master=header.enableActingMaster,
        all_topics=bool(header.allTopics),
        topics=body.topicConfigSerializeWrapper,
        filter_servers=tuple(body.filterServerList),
    )
