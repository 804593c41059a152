"""Spark queries, as their listeners and tasks tell the brokers about them.

A query's reports go to the broker that keeps what its tasks read (`client.txn.input_keeper`); whoever lists queries
asks every broker of ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqspark.client.txn import INPUTS_TIMEOUT_MS, LIST_TIMEOUT_MS, able_brokers, input_keeper
from rmqspark.errors import NotFound
from rmqspark.protocol.bodies_queries import KnownQuery, QueryTable
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers_queries import QueryListRequestHeader

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.protocol.bodies_queries import QueryReport


@dataclass(frozen=True, slots=True)
class SeenQuery:
    """A query and how long ago its broker last heard of it."""

    known: KnownQuery
    silent_ms: int


def report_query(client: ClusterClient, report: QueryReport) -> None:
    """RMQ_QUERY_REPORT. Stock brokers keep no such thing and are not asked to."""
    keeper = input_keeper(client, report.queryId)
    if keeper.capabilities().transactions:
        keeper.call(RequestCode.RMQ_QUERY_REPORT, None, report.encode(standard=True), timeout_ms=INPUTS_TIMEOUT_MS)


def seen_queries(client: ClusterClient, query_id: str | None = None) -> list[SeenQuery]:
    """RMQ_QUERY_LIST of all brokers, by name and id. One that changed its keeper is there once, as heard of last."""
    found: dict[str, SeenQuery] = {}
    for broker in able_brokers(client):
        response = broker.call(RequestCode.RMQ_QUERY_LIST, QueryListRequestHeader(query_id), timeout_ms=LIST_TIMEOUT_MS)
        table = QueryTable.decode(response.body)
        for known in table.queries:
            seen = SeenQuery(known, max(0, table.now - _heard_ms(known)))
            other = found.setdefault(known.queryId, seen)
            if seen.silent_ms < other.silent_ms:
                found[known.queryId] = seen
    return sorted(found.values(), key=lambda seen: (name_of(seen.known), seen.known.queryId))


def seen_query(client: ClusterClient, query: str) -> SeenQuery:
    """The query with this id, or this name, or whose id begins so, or that reads for this group, which is known without
    a listener, too. NotFound, also where several would fit."""
    fitting = seen_queries(client, query) or [
        seen for seen in seen_queries(client) if _may_be_called(seen.known, query)
    ]
    if len(fitting) > 1:
        ids = ", ".join(seen.known.queryId for seen in fitting)
        raise NotFound(f"{query!r} may be any of {len(fitting)} queries.", hint=f"Name it by its id: {ids}")
    if not fitting:
        raise NotFound(
            f"No broker has heard of a query {query!r}.",
            hint="It takes a query's name, id or group: rmq spark list. One is heard of when it runs a micro-batch.",
        )
    return fitting[0]


def name_of(known: KnownQuery) -> str:
    """The name the user gave; only a listener tells it."""
    return known.report.name if known.report is not None else ""


def _may_be_called(known: KnownQuery, query: str) -> bool:
    begins_so = len(query) >= _SHORTEST_ID and known.queryId.startswith(query)
    return begins_so or name_of(known) == query or any(piece.group == query for piece in known.inputs)


_SHORTEST_ID = 4  # letters of an id that may stand for it


def _heard_ms(known: KnownQuery) -> int:
    return max(known.heardAt, known.report.reportedAt if known.report is not None else 0)
