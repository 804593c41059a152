"""Spark queries, and the proof that one lost and doubled nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.queries import QueryDetail, QuerySummary
from rmqspark.admin.schemas.transactions import ProofView
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.spark.diagnosis import diagnose
from rmqspark.client.spark.proofs import proof as prove
from rmqspark.client.spark.queries import by_state, seen_queries, seen_query
from rmqspark.client.spark.query_view import view_of

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient


def queries(client: ClusterClient, silence: Silence, *, past: bool = False) -> list[QuerySummary]:
    """Those that run first; with `past` those that have ended long ago, too. `silence` hears of brokers that do not
    answer."""
    seen = (each for each in by_state(seen_queries(client, on_silent=silence)) if past or not each.is_past)
    return [QuerySummary.of(view_of(client, each, on_silent=silence)) for each in seen]


def query(client: ClusterClient, name: str) -> QueryDetail:
    """By its id, name or group. NotFound."""
    silence = Silence()
    seen = seen_query(client, name, on_silent=silence)
    return QueryDetail.of_all(view_of(client, seen, on_silent=silence), diagnose(seen.known, seen.silent_ms))


def proof(client: ClusterClient, name: str) -> ProofView:
    """NotFound where nothing was committed exactly-once."""
    return ProofView.of(prove(client, name))
