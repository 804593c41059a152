"""`rmq txn`: transactions of batches, as their coordinators keep them, and decisions where nobody else decides."""

from __future__ import annotations

import getpass
import re
import socket
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_facts, print_json, print_table, safe
from rmqspark.cli.terminal.silent import telling
from rmqspark.protocol.names import MAX_TRANSACTIONAL_ID_LENGTH
from rmqspark.words import counted, duration, size

if TYPE_CHECKING:
    from rmqspark.protocol.bodies.txn import ManualDecision, TxnState
    from rmqspark.protocol.headers.txn import TxnOutcome

app = VerbGroup(help="Exactly-once transactions of Spark's batches. Example: rmq txn list")
Id = Annotated[str, typer.Argument(metavar="ID", help="The transactional id: spark-<query id>, or your own.")]
Version = Annotated[
    int | None, typer.Option("--version", help="Which version is decided. Default: the one that is open.", min=0)
]


@app.command("list")
def list_transactions(namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Lists transactional ids: what was decided, what is open. Example: rmq txn list --json"""
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.txn import transactions

    with telling() as silence, ClusterClient(namesrv) as client:
        states = transactions(client, on_silent=silence)
    if as_json:
        print_json([_document(state) | {"silent": silence.reasons} for state in states])
        return
    columns = ("id", "epoch", "version", "state", "age", "brokers", "rows", "size")
    rows = [
        (
            s.transactionalId,
            str(s.epoch),  # a name, not an amount, as is the version
            str(s.version),
            s.state,
            duration(s.ageMs) if s.coordinator else "unknown",
            ", ".join(s.brokers),
            s.rows,
            size(s.bytes),
        )
        for s in states
    ]
    print_table(columns, rows, empty="No transactions yet. One appears when Spark writes exactly-once.")


@app.command("describe")
def describe(transactional_id: Id, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Shows one transactional id in full. Example: rmq txn describe nightly-orders"""
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.decisions import decided, state_of

    with telling() as silence, ClusterClient(namesrv) as client:
        state = state_of(client, transactional_id, on_silent=silence)
    if as_json:
        print_json(_document(state) | {"silent": silence.reasons})
        return
    print_facts(
        {
            "id": state.transactionalId,
            "query": state.queryId or "none",
            "coordinator": state.coordinator or "none that answers",
            "epoch": str(state.epoch),
            "version": str(state.version),
            "state": state.state,
            "for": duration(state.ageMs) if state.coordinator else "unknown",
            "last committed": "none" if state.lastVersion < 0 else str(state.lastVersion),
            "last decided by": decided(state.decidedBy, state.decidedAtMs) if state.decidedBy else "nobody yet",
            "brokers": ", ".join(state.brokers) or "none",
            "rows": state.rows,
            "size": size(state.bytes),
        }
        | ({"by hand": "; ".join(map(_by_hand, state.manual))} if state.manual else {})
    )


@app.command("commit")
def commit(
    transactional_id: Id, version: Version = None, yes: Yes = False, namesrv: Namesrv = None, as_json: Json = False
) -> None:
    """Commits what is open, if its driver has asked for that. Example: rmq txn commit nightly-orders --version 7"""
    from rmqspark.protocol.headers.txn import TxnOutcome

    question = "make its rows readable"
    _decide(transactional_id, version, TxnOutcome.COMMIT, question, yes=yes, namesrv=namesrv, as_json=as_json)


@app.command("rollback")
def rollback(
    transactional_id: Id, version: Version = None, yes: Yes = False, namesrv: Namesrv = None, as_json: Json = False
) -> None:
    """Gives up what is open; nothing of it becomes readable. Example: rmq txn rollback nightly-orders --version 7"""
    from rmqspark.protocol.headers.txn import TxnOutcome

    question = "drop its rows"
    _decide(transactional_id, version, TxnOutcome.ROLLBACK, question, yes=yes, namesrv=namesrv, as_json=as_json)


def _decide(
    transactional_id: str,
    version: int | None,
    decision: TxnOutcome,
    question: str,
    *,
    yes: bool,
    namesrv: str | None,
    as_json: bool,
) -> None:
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.decisions import DONE, decide, open_version, state_of

    with ClusterClient(namesrv) as client:
        with telling() as silence:
            state = state_of(client, transactional_id, on_silent=silence)
        if version is None:
            version = open_version(state)
        is_settled = version <= state.lastVersion  # nothing will be done: the coordinator says why
        confirm(f"{_story(state, version)} Version {version}: {question} for good?", yes=yes or is_settled)
        story = decide(client, transactional_id, version, decision, _who())
    if as_json:
        print_json(
            {"transactionalId": transactional_id, "version": version, "decision": DONE[decision], "story": story}
        )
    else:
        print(safe(story))


def _who() -> str:
    """Who decides, as far as this machine knows, in characters that a coordinator takes."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have a number alone
        user = "unknown"
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", f"{user}@{socket.gethostname()}")[:MAX_TRANSACTIONAL_ID_LENGTH]


def _by_hand(decision: ManualDecision) -> str:
    from rmqspark.client.spark.decisions import DONE, decided

    return f"version {decision.version} {DONE[decision.decision]} by {decided(decision.by, decision.atMs)}"


def _story(state: TxnState, version: int) -> str:
    if version != state.version:
        return f"Version {version} of {state.transactionalId} (the newest is {state.version}: {state.state})."
    held = f"{counted(state.rows, 'row')}, {size(state.bytes)} on {', '.join(state.brokers) or 'no broker'}"
    if not state.coordinator:
        return f"{state.transactionalId}: {state.state} ({held})."
    return f"{state.transactionalId}: {state.state}, last heard of {duration(state.ageMs)} ago ({held})."


def _document(state: TxnState) -> dict[str, Any]:
    from msgspec import to_builtins

    document: dict[str, Any] = to_builtins(state)
    return document
