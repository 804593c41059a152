"""Header of what is asked about Spark queries; the reports themselves are in `bodies/queries.py`."""

from __future__ import annotations

from rmqspark.protocol.headers.types import Header


class QueryListRequestHeader(Header):
    """RMQ_QUERY_LIST; answer's body: QueryTable. `queryId`: this query alone."""

    queryId: str | None = None
