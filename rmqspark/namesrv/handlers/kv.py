"""Key-value configurations: PUT_KV_CONFIG (100), GET_KV_CONFIG (101), DELETE_KV_CONFIG (102),
GET_KVLIST_BY_NAMESPACE (219). Their one use is the order configuration of topics (`kv_table.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import NotFound
from rmqspark.protocol.bodies.route import KVTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.cluster import (
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from rmqspark.remoting.router import Reply, Request, Route, Routes

if TYPE_CHECKING:
    from rmqspark.namesrv.kv_table import KvTable


class KvHandlers:
    """As RocketMQ's DefaultRequestProcessor, its remarks included."""

    def __init__(self, kv: KvTable) -> None:
        self._kv = kv

    def routes(self) -> Routes:
        return {
            RequestCode.PUT_KV_CONFIG: Route(PutKVConfigRequestHeader, self.put),
            RequestCode.GET_KV_CONFIG: Route(GetKVConfigRequestHeader, self.get),
            RequestCode.DELETE_KV_CONFIG: Route(GetKVConfigRequestHeader, self.delete),
            RequestCode.GET_KVLIST_BY_NAMESPACE: Route(GetKVListByNamespaceRequestHeader, self.list_namespace),
        }

    def put(self, request: Request[PutKVConfigRequestHeader]) -> Reply:
        self._kv.put(request.header.namespace, request.header.key, request.header.value)
        return Reply()

    def get(self, request: Request[GetKVConfigRequestHeader]) -> Reply:
        namespace, key = request.header.namespace, request.header.key
        value = self._kv.get(namespace, key)
        if value is None:
            raise NotFound(f"No config item, Namespace: {namespace} Key: {key}")
        return Reply(GetKVConfigResponseHeader(value))

    def delete(self, request: Request[GetKVConfigRequestHeader]) -> Reply:
        self._kv.delete(request.header.namespace, request.header.key)
        return Reply()

    def list_namespace(self, request: Request[GetKVListByNamespaceRequestHeader]) -> Reply:
        namespace = request.header.namespace
        table = self._kv.namespace(namespace)
        if table is None:
            raise NotFound(f"No config item, Namespace: {namespace}")
        return Reply(body=KVTable(dict(table)).encode())
