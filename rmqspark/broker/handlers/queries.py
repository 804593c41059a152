"""RMQ_QUERY_REPORT, RMQ_QUERY_LIST (30040, 30041): how Spark queries stand, for operators.

rmqspark's own; docs/wire-format.md has the fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.bodies.queries import QueryReport, QueryTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.queries import QueryListRequestHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.queries import SparkQueries
    from rmqspark.clock import Clock
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields
    from rmqspark.txn.coordinator.inputs import InputReports


class QueryHandlers:
    """Thin: bodies in, the table out."""

    def __init__(self, queries: SparkQueries, inputs: InputReports, clock: Clock) -> None:
        self._queries = queries
        self._inputs = inputs
        self._clock = clock

    def routes(self) -> Routes:
        return {
            RequestCode.RMQ_QUERY_REPORT: Route(None, self.report),
            RequestCode.RMQ_QUERY_LIST: Route(QueryListRequestHeader, self.list),
        }

    def report(self, request: Request[NoFields]) -> Reply:
        self._queries.report(QueryReport.decode_request(request.body), self._clock.now_ms())
        return Reply()

    def list(self, request: Request[QueryListRequestHeader]) -> Reply:
        known = self._queries.known(self._inputs.of, request.header.queryId)
        return Reply(body=QueryTable(known, self._clock.now_ms()).encode(standard=True))
