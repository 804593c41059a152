"""`rmq group`: list and describe consumer groups. What changes them is in `group_change`."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.group_change import delete, reset
from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import print_json, print_table, safe
from rmqspark.cli.terminal.silent import telling
from rmqspark.clock import SystemClock
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.client.administration.descriptions import GroupDescription, GroupQueue

app = VerbGroup(help="Consumer groups and Spark queries: who reads, how far. Example: rmq group describe billing")


@app.command("list")
def list_groups(
    system: Annotated[bool, typer.Option("--system", help="Also RocketMQ's predefined ones.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists the groups with their lag. Example: rmq group list --json"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        groups = admin.describe_groups(admin.groups(system=system, on_silent=silence), on_silent=silence)
    now_ms = SystemClock().now_ms()
    summaries = [_summary(group, now_ms) for group in groups]
    if as_json:
        print_json(summaries)
        return
    columns = ("group", "members", "topics", "lag", "seconds behind")
    rows = [(s["group"], s["members"], ", ".join(s["topics"]), s["lag"], s["secondsBehind"]) for s in summaries]
    print_table(columns, rows, empty="No groups yet. One appears when something reads with a group.")


@app.command("describe")
def describe(
    group: Annotated[str, typer.Argument(help="The group's name.")], namesrv: Namesrv = None, as_json: Json = False
) -> None:
    """Shows members, offsets and lag per queue. Never committed is unknown. Example: rmq group describe billing"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        described = admin.group(group, on_silent=silence)
        queries = admin.spark_readers(group, on_silent=silence)
    now_ms = SystemClock().now_ms()
    if as_json:
        print_json({**_document(described, now_ms), "queries": queries})
        return
    print(safe(f"{described.name}: {_total(described, now_ms)}\n"))
    rows = [
        (
            q.queue.topic,
            q.queue.broker_name,
            q.queue.queue_id,
            q.committed,
            q.max_offset,
            q.lag,
            seconds_behind(q, now_ms),
        )
        for q in described.queues
    ]
    columns = ("topic", "broker", "queue", "committed", "max offset", "lag", "seconds behind")
    print_table(columns, rows, empty="It has committed nothing and nobody is connected.")
    if described.members:
        print()
        members = [(m.client_id, m.address, m.language) for m in described.members]
        print_table(("member", "address", "language"), members, empty="")
    if queries:
        print()
    for name in queries:
        print(safe(f"Read by the Spark query {name}: rmq spark describe {quote(name)}"))


app.command("reset")(reset)
app.command("delete")(delete)


def _summary(group: GroupDescription, now_ms: int) -> dict[str, Any]:
    return {
        "group": group.name,
        "members": len(group.members),
        "topics": sorted({queue.queue.topic for queue in group.queues}),
        "lag": group.lag,
        "secondsBehind": _seconds_in_total(group, now_ms),
        "caughtUpInSeconds": group.caught_up_in_s(now_ms),
        "silent": group.silent,
    }


def _document(group: GroupDescription, now_ms: int) -> dict[str, Any]:
    return {
        **_summary(group, now_ms),
        "members": [
            {"clientId": m.client_id, "address": m.address, "language": m.language, "version": m.version}
            for m in group.members
        ],
        "queues": [
            {
                "topic": q.queue.topic,
                "brokerName": q.queue.broker_name,
                "queueId": q.queue.queue_id,
                "committed": q.committed,
                "maxOffset": q.max_offset,
                "lag": q.lag,
                "secondsBehind": seconds_behind(q, now_ms),
            }
            for q in group.queues
        ],
    }


def _total(group: GroupDescription, now_ms: int) -> str:
    if group.lag is None and group.silent:
        return f"what it has committed {_silent(group)} is unknown, and elsewhere it has nothing"
    if group.lag is None:
        return "has committed nothing, so how far it is behind is unknown"
    if not group.lag:
        return "caught up" + _unknown(group)
    behind = _seconds_in_total(group, now_ms)
    seconds = f", {counted(behind, 'second')}" if behind is not None else ""
    return f"{counted(group.lag, 'message')} behind{seconds}{_estimate(group, now_ms)}{_unknown(group)}"


def _unknown(group: GroupDescription) -> str:
    """Of what waits in queues for which it never committed the total knows nothing."""
    count = sum(queue.lag is None and queue.max_offset > 0 for queue in group.queues)
    never = f"; unknown in {counted(count, 'queue')} for which it has committed nothing" if count else ""
    return never + (f"; unknown {_silent(group)}" if group.silent else "")


def _silent(group: GroupDescription) -> str:
    return f"on {', '.join(sorted(group.silent))}"


def _estimate(group: GroupDescription, now_ms: int) -> str:
    if not group.consumed_per_second:
        return "; it has consumed nothing lately"
    left = group.caught_up_in_s(now_ms)
    rate = f"it consumes {group.consumed_per_second:,.0f} a second"
    return f"; {rate} and is caught up in {left:,} seconds" if left is not None else f"; {rate} and does not catch up"


def _seconds_in_total(group: GroupDescription, now_ms: int) -> int | None:
    """The group is as far behind as it is in its latest queue."""
    return max((s for queue in group.queues if (s := seconds_behind(queue, now_ms)) is not None), default=None)


def seconds_behind(queue: GroupQueue, now_ms: int) -> int | None:
    """How long the first message that was not consumed has been waiting; 0 where there is none, None if unknown."""
    if queue.lag == 0:
        return 0
    return None if queue.waiting_since_ms is None else max(0, now_ms - queue.waiting_since_ms) // 1000
