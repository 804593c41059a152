"""Transactions of Spark's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.transactions import OneTransaction, TransactionView
from rmqspark.client.cluster.silence import Silence
from rmqspark.client.spark.decisions import state_of
from rmqspark.client.spark.txn import transactions as states

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient


def transactions(client: ClusterClient, silence: Silence) -> list[TransactionView]:
    """Those that are open first. `silence` hears of brokers that do not answer, so that what they know is left out."""
    views = [TransactionView.of(state) for state in states(client, on_silent=silence)]
    return sorted(views, key=lambda view: (not view.open, view.transactional_id))


def transaction(client: ClusterClient, transactional_id: str) -> OneTransaction:
    """NotFound; Unreachable where a broker that may know does not answer, and no other knows it."""
    silence = Silence()
    view = TransactionView.of(state_of(client, transactional_id, on_silent=silence))
    return OneTransaction(**dict(view), silent=silence.reasons)
