"""`rmq spark`: the Spark queries that read from here, how far they are, and why one is slow."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.group_change import reset
from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes
from rmqspark.cli.terminal.output import print_facts, print_json, print_table, safe
from rmqspark.cli.terminal.silent import telling
from rmqspark.errors import Conflict
from rmqspark.words import counted, duration, size

if TYPE_CHECKING:
    from rmqspark.client.cluster.silence import Silence
    from rmqspark.client.spark.query_view import OwnedQueue, QueryView

app = VerbGroup(help="Spark queries that read from here. Example: rmq spark list")

Query = Annotated[
    str,
    typer.Argument(metavar="QUERY", help="The query's name or group, its id, or how that begins (4 letters or more)."),
]


@app.command("list")
def list_queries(
    show_all: Annotated[bool, typer.Option("--all", help="Those that have ended long ago, too.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists the queries with lag and batch time, those that run first.

    Those that have stopped, or have no listener to say so, and were not heard of for ten minutes are left out but with
    --all or --json.

    Example: rmq spark list --json
    """
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.queries import by_state, seen_queries
    from rmqspark.client.spark.query_view import view_of

    with telling() as silence, ClusterClient(namesrv) as client:
        known = by_state(seen_queries(client, on_silent=silence))
        shown = [seen for seen in known if show_all or as_json or not seen.is_past]
        views = [view_of(client, seen, on_silent=silence) for seen in shown]
    if as_json:
        print_json([_summary(view) for view in views])
        return
    columns = ("query", "state", "batch", "batch time", "rows", "lag", "behind", "queues", "group", "heard of")
    times_named = Counter(view.name for view in views)
    rows = [
        (
            _called(view, is_only_one=times_named[view.name] == 1),
            view.state,
            view.last_batch,
            _batch_time(view),
            view.report.inputRows if view.report else None,
            view.lag,
            _duration(view.behind_ms),
            len(view.queues),
            ", ".join(view.groups),
            f"{duration(view.heard_ms)} ago",
        )
        for view in views
    ]
    print_table(
        columns, rows, empty="" if known else "No queries yet. One appears when Spark reads a micro-batch from here."
    )
    if len(known) > len(shown):
        past = counted(len(known) - len(shown), "query", "queries")
        print(f"{past} more, not heard of for ten minutes: rmq spark list --all", file=sys.stderr)


def _called(view: QueryView, *, is_only_one: bool) -> str:
    """With the beginning of its id, which is enough to name it, where others had the same name."""
    if not view.name:
        return view.query_id
    return view.name if is_only_one else f"{view.name} ({view.query_id[:8]})"


@app.command("describe")
def describe(query: Query, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Shows one query: its last batch, and where it is in each queue. Example: rmq spark describe billing"""
    with telling() as silence:
        view = _view(query, namesrv, silence)
    if as_json:
        print_json(_document(view))
        return
    print_facts(_facts(view))
    print()
    columns = ("topic", "broker", "queue", "read up to", "ends at", "lag", "behind")
    rows = [
        (q.queue.topic, q.queue.broker_name, q.queue.queue_id, q.position, q.end, q.lag, _duration(q.behind_ms))
        for q in view.queues
    ]
    print_table(columns, rows, empty="" if _reads_nothing_now(view) else "It has read nothing yet.")


@app.command("rewind")
def rewind(
    query: Query,
    to: Annotated[str, typer.Option(help="earliest, latest, a time, -10m, an offset, or group:NAME.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    yes: Yes = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Has a query read on from another place, while it runs. Example: rmq spark rewind billing --to -1h --dry-run"""
    view = _view(query, namesrv)
    if len(view.groups) != 1:
        raise Conflict(
            f"Query {query!r} reads for {counted(len(view.groups), 'group')}; a rewind goes by its one group.",
            hint="With commitOffsets=false it has none. Of several, say which: rmq group reset GROUP --to …",
        )
    topics = sorted({owned.queue.topic for owned in view.queues})
    reset(
        view.groups[0],
        to,
        topic=topics[0] if len(topics) == 1 else None,
        dry_run=dry_run,
        yes=yes,
        namesrv=namesrv,
        as_json=as_json,
    )


@app.command("diagnose")
def diagnose(query: Query, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Says why a query is slow and which option to change. Example: rmq spark diagnose billing"""
    from dataclasses import asdict

    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.diagnosis import diagnose as findings
    from rmqspark.client.spark.queries import seen_query

    with telling() as silence, ClusterClient(namesrv) as client:
        seen = seen_query(client, query, on_silent=silence)
    found = findings(seen.known, seen.silent_ms)
    if as_json:
        print_json({"queryId": seen.known.queryId, "findings": [asdict(advice) for advice in found]})
        return
    for advice in found:
        print(safe(f"{advice.kind}: {advice.story}\n  {advice.advice}"))
    if not found:
        behind = seen.known.report.behind if seen.known.report is not None else None
        how = f"it is {behind:,} messages behind" if behind else "it keeps up"
        print(f"Nothing stands out: no phase of its batches, no queue, no broker, and {how}.")


def _view(query: str, namesrv: str | None, silence: Silence | None = None) -> QueryView:
    """As a reset has it where none is given: a broker that does not answer is an error then."""
    from rmqspark.client.cluster.cluster_client import ClusterClient
    from rmqspark.client.spark.queries import seen_query
    from rmqspark.client.spark.query_view import view_of

    with ClusterClient(namesrv) as client:
        return view_of(client, seen_query(client, query, on_silent=silence), on_silent=silence)


def _facts(view: QueryView) -> dict[str, Any]:
    report = view.report
    facts: dict[str, Any] = {
        "query": view.name or "without a name that is known",
        "id": view.query_id,
        "state": f"{view.state}, heard of {duration(view.heard_ms)} ago",
        "group": ", ".join(view.groups) or "none",
        "lag": _lag_in_words(view),
        "last batch": "none yet" if view.last_batch is None else view.last_batch,
    }
    if report is None:
        return facts | {"listener": "none: no batch times. spark.streams.addListener(LagListener(namesrv=…))"}
    facts |= {"batch time": _batch_time(view), "rows": report.inputRows}
    facts |= {f"  {phase}": f"{spent:,} ms" for phase, spent in sorted(report.durationMs.items())}
    facts |= {"Spark UI": report.uiUrl} if report.uiUrl else {}
    return facts | ({"error": report.error.splitlines()[0]} if report.error else {})


def _reads_nothing_now(view: QueryView) -> bool:
    """Others of its shared group have all queues, or no topic is there."""
    return view.report is not None and view.report.state == "running" and not view.queues


def _lag_in_words(view: QueryView) -> str:
    if _reads_nothing_now(view):
        return "none: it reads no queue just now"
    if view.lag is None:
        return "unknown"
    if not view.lag:
        return "caught up"
    text = f"{counted(view.lag, 'message')}, {_duration(view.behind_ms) or 'how long is unknown'}"
    if view.bytes_behind is not None:
        text += f", about {size(view.bytes_behind)}"
    left = view.caught_up_in_s
    return f"{text}; caught up in {duration(left * 1000)}" if left is not None else text


def _batch_time(view: QueryView) -> str | None:
    spent = view.report.durationMs.get("triggerExecution") if view.report else None
    return None if spent is None else f"{spent:,} ms"


def _duration(behind_ms: int | None) -> str | None:
    return None if behind_ms is None else duration(behind_ms)


def _summary(view: QueryView) -> dict[str, Any]:
    from msgspec.structs import asdict

    report = view.report
    return {
        "queryId": view.query_id,
        "name": view.name or None,
        "state": view.state,
        "heardSecondsAgo": view.heard_ms // 1000,
        "groups": view.groups,
        "batchId": view.last_batch,
        "batchMs": report.durationMs.get("triggerExecution") if report else None,
        "inputRows": report.inputRows if report else None,
        "lag": view.lag,
        "bytesBehind": view.bytes_behind,
        "secondsBehind": None if view.behind_ms is None else view.behind_ms // 1000,
        "caughtUpInSeconds": view.caught_up_in_s,
        **asdict(view.figures),
        "uiUrl": report.uiUrl or None if report else None,
        "queues": len(view.queues),
        "silent": view.silent,
    }


def _document(view: QueryView) -> dict[str, Any]:
    report = view.report
    return {
        **_summary(view),
        "durationMs": report.durationMs if report else None,
        "error": report.error or None if report else None,
        "queues": [_queue(queue) for queue in view.queues],
    }


def _queue(each: OwnedQueue) -> dict[str, Any]:
    return {
        "group": each.group,
        "topic": each.queue.topic,
        "brokerName": each.queue.broker_name,
        "queueId": each.queue.queue_id,
        "position": each.position,
        "latestOffset": each.end,
        "lag": each.lag,
        "secondsBehind": None if each.behind_ms is None else each.behind_ms // 1000,
    }
