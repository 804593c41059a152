"""Topics seen from the name server: GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206), GET_TOPICS_BY_CLUSTER (224),
GET_SYSTEM_TOPIC_LIST_FROM_NS (304), unit topics (311 to 313), DELETE_TOPIC_IN_NAMESRV (216),
REGISTER_TOPIC_IN_NAMESRV (217), WIPE_ and ADD_WRITE_PERM_OF_BROKER (205, 327).

As RocketMQ's DefaultRequestProcessor. What 205 and 327 set lasts until the broker registers a change of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqspark.errors import ServerFault
from rmqspark.protocol.bodies.route import TopicList, TopicRouteData
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import (
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetTopicsByClusterRequestHeader,
    RegisterTopicRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
    WritePermOfBrokerRequestHeader,
)
from rmqspark.remoting.router import Reply, Request, Route, Routes

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqspark.namesrv.config import NamesrvConfig
    from rmqspark.namesrv.route_table import RouteTable

_UNIT = 1  # bits of topicSysFlag
_UNIT_SUB = 2


class TopicHandlers:
    """Lists of topics, and changes to them by an administrator's hand."""

    def __init__(self, table: RouteTable, config: NamesrvConfig) -> None:
        self._table = table
        self._config = config

    def routes(self) -> Routes:
        return {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Route(None, self.all_topics),
            RequestCode.GET_TOPICS_BY_CLUSTER: Route(GetTopicsByClusterRequestHeader, self.of_cluster),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: Route(None, self.system_topics),
            RequestCode.GET_UNIT_TOPIC_LIST: Route(None, self._flagged(lambda flag: flag & _UNIT != 0)),
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: Route(None, self._flagged(lambda flag: flag & _UNIT_SUB != 0)),
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Route(
                None, self._flagged(lambda flag: flag & (_UNIT | _UNIT_SUB) == _UNIT_SUB)
            ),
            RequestCode.DELETE_TOPIC_IN_NAMESRV: Route(DeleteTopicFromNamesrvRequestHeader, self.delete),
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: Route(RegisterTopicRequestHeader, self.register),
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: Route(WritePermOfBrokerRequestHeader, self.wipe_write_permission),
            RequestCode.ADD_WRITE_PERM_OF_BROKER: Route(WritePermOfBrokerRequestHeader, self.add_write_permission),
        }

    def all_topics(self, request: Request[Any]) -> Reply:
        if not self._config.enable_all_topic_list:
            raise ServerFault("disable")  # RocketMQ's word
        return Reply(body=TopicList(self._table.topics()).encode())

    def of_cluster(self, request: Request[GetTopicsByClusterRequestHeader]) -> Reply:
        return self._list(self._table.topics_of_cluster(request.header.cluster))

    def system_topics(self, request: Request[Any]) -> Reply:
        """The names of clusters and brokers, each of which is a topic, and the address of some broker."""
        return self._list(self._table.system_names(), self._table.any_address())

    def delete(self, request: Request[DeleteTopicFromNamesrvRequestHeader]) -> Reply:
        self._table.delete_topic(request.header.topic, request.header.clusterName or None)
        return Reply()

    def register(self, request: Request[RegisterTopicRequestHeader]) -> Reply:
        self._table.add_topic(request.header.topic, TopicRouteData.decode_request(request.body).queueDatas)
        return Reply()

    def wipe_write_permission(self, request: Request[WritePermOfBrokerRequestHeader]) -> Reply:
        count = self._table.set_write_permission(request.header.brokerName, allowed=False)
        return Reply(WipeWritePermOfBrokerResponseHeader(count))

    def add_write_permission(self, request: Request[WritePermOfBrokerRequestHeader]) -> Reply:
        count = self._table.set_write_permission(request.header.brokerName, allowed=True)
        return Reply(AddWritePermOfBrokerResponseHeader(count))

    def _flagged(self, wanted: Callable[[int], bool]) -> Callable[[Request[Any]], Reply]:
        return lambda request: self._list(self._table.topics_flagged(wanted))

    def _list(self, topics: list[str], address: str | None = None) -> Reply:
        if not self._config.enable_topic_list:
            raise ServerFault("disable")
        return Reply(body=TopicList(topics, address).encode())
