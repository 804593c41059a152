"""Transactions of Spark's batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.schemas.transactions import TransactionView
from rmqspark.client.decisions import state_of
from rmqspark.client.txn import transactions as states

if TYPE_CHECKING:
    from rmqspark.client.cluster_client import ClusterClient
    from rmqspark.errors import RmqError


def transactions(client: ClusterClient) -> tuple[list[TransactionView], dict[str, str]]:
    """Those that are open first; and which brokers do not answer, so that what they know is left out, and why."""
    silent: dict[str, str] = {}

    def note(broker_name: str, error: RmqError) -> None:
        silent[broker_name] = error.message

    views = [TransactionView.of(state) for state in states(client, on_silent=note)]
    return sorted(views, key=lambda view: (not view.open, view.transactional_id)), silent


def transaction(client: ClusterClient, transactional_id: str) -> TransactionView:
    """NotFound; Unreachable where a broker that may know does not answer."""
    return TransactionView.of(state_of(client, transactional_id))
