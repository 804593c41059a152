"""Decisions on batches by hand, where nobody else decides them; spec: exactly-once, operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.client.cluster.silence import remembered
from rmqspark.client.spark.coordinator import Coordinator
from rmqspark.client.spark.txn import transactions
from rmqspark.display import time_text
from rmqspark.errors import NotFound, TransactionError

if TYPE_CHECKING:
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.cluster.silence import OnSilent
    from rmqspark.protocol.bodies.txn import TxnState
    from rmqspark.protocol.headers.txn import TxnOutcome

DONE: Final = {"COMMIT": "committed", "ROLLBACK": "rolled back"}
_EXPECTED: Final = {"COMMIT": "COMMITTED", "ROLLBACK": "FENCED"}


def state_of(client: ClusterClient, transactional_id: str, *, on_silent: OnSilent | None = None) -> TxnState:
    """How a transactional id stands; `on_silent` hears of brokers that do not answer. NotFound, where all do."""
    silence = remembered(on_silent)
    for state in transactions(client, transactional_id, on_silent=silence):
        if state.transactionalId == transactional_id:
            return state
    if silence is not None:
        silence.insist()
    raise NotFound(f"No broker knows transactional id {transactional_id!r}.", hint="They are listed by: rmq txn list")


def open_version(state: TxnState) -> int:
    """The version that waits for a decision. TransactionError where none does."""
    if state.version <= state.lastVersion:
        raise TransactionError(
            f"Nothing of {state.transactionalId!r} is open: version {state.lastVersion} was committed "
            f"by {decided(state.decidedBy, state.decidedAtMs)}, and a decision stays."
        )
    return state.version


def decide(client: ClusterClient, transactional_id: str, version: int, decision: TxnOutcome, who: str) -> str:
    """Commits or rolls back for good; says what was done. TransactionError where it contradicts what was decided."""
    outcome = Coordinator(client, transactional_id).resolve(version, decision, who)
    if outcome.outcome != _EXPECTED[decision]:
        raise TransactionError(
            f"Nothing of {transactional_id!r} was {DONE[decision]}. {outcome.remark or outcome.outcome}",
            hint=f"How it stands: rmq txn describe {transactional_id}",
        )
    return outcome.remark or f"Version {version} of {transactional_id} is {DONE[decision]}, decided by {who}."


def decided(by: str, at_ms: int) -> str:
    """`ann@laptop, 2026-01-31 12:00:00`."""
    return f"{by}, {time_text(at_ms)}"
