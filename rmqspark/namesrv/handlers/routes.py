"""Where things are: GET_ROUTEINFO_BY_TOPIC (105), GET_BROKER_CLUSTER_INFO (106), GET_BROKER_MEMBER_GROUP (901).

As RocketMQ's ClientRequestProcessor and DefaultRequestProcessor. Clients from 4.9.4 on are answered routes in standard
JSON, older ones in fastjson's with bare number keys; cluster info is always fastjson's. Left out: acting masters in
routes (`supportActingMaster`, off by default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.errors import TopicNotFound
from rmqspark.namesrv.kv_table import ORDER_TOPIC_CONFIG
from rmqspark.protocol.bodies.route import BrokerMemberGroup, BrokerMemberGroupBody
from rmqspark.protocol.codes import RequestCode, Version
from rmqspark.protocol.headers.cluster import GetBrokerMemberGroupRequestHeader, GetRouteInfoRequestHeader
from rmqspark.remoting.router import Reply, Request, Route, Routes

if TYPE_CHECKING:
    from rmqspark.namesrv.config import NamesrvConfig
    from rmqspark.namesrv.kv_table import KvTable
    from rmqspark.namesrv.route_table import RouteTable


class RouteHandlers:
    """What clients ask of the name server."""

    def __init__(self, table: RouteTable, kv: KvTable, config: NamesrvConfig) -> None:
        self._table = table
        self._kv = kv
        self._config = config

    def routes(self) -> Routes:
        return {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: Route(GetRouteInfoRequestHeader, self.route),
            RequestCode.GET_BROKER_CLUSTER_INFO: Route(None, self.cluster_info),
            RequestCode.GET_BROKER_MEMBER_GROUP: Route(GetBrokerMemberGroupRequestHeader, self.member_group),
        }

    def route(self, request: Request[GetRouteInfoRequestHeader]) -> Reply:
        """The route of a topic. Raises TopicNotFound."""
        topic = request.header.topic
        route = self._table.route(topic)
        if route is None:
            raise TopicNotFound(topic)
        if self._config.order_message_enable:
            route.orderTopicConf = self._kv.get(ORDER_TOPIC_CONFIG, topic)
        standard = request.version >= Version.V4_9_4 or bool(request.header.acceptStandardJsonOnly)
        return Reply(body=route.encode(standard=standard))

    def cluster_info(self, request: Request[Any]) -> Reply:
        return Reply(body=self._table.cluster_info().encode())

    def member_group(self, request: Request[GetBrokerMemberGroupRequestHeader]) -> Reply:
        """The addresses under a broker name; none for one that is not known."""
        name = request.header.brokerName
        broker = self._table.broker(name)
        addresses = broker.brokerAddrs if broker is not None else {}
        group = BrokerMemberGroup(request.header.clusterName, name, addresses)
        return Reply(body=BrokerMemberGroupBody(group).encode())
