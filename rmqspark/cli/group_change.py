"""`rmq group reset` and `rmq group delete`: what changes a consumer group, always with a look at it first."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_json, print_table
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.client.administration.group_resets import QueueReset

Group = Annotated[str, typer.Argument(help="The group's name.")]


def reset(
    group: Group,
    to: Annotated[str, typer.Option(help="earliest, latest, a time, -10m, an offset, or group:NAME.")],
    topic: Annotated[str | None, typer.Option(help="Only this topic; otherwise all it has offsets of.")] = None,
    queue: Annotated[list[int] | None, typer.Option(min=0, help="Only this queue; may be repeated.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the group for a --topic, if there is none.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    yes: Yes = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Sets a group to another place, also while it is read for. Example: rmq group reset billing --to -1h --dry-run"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        plan = admin.reset_group(group, to, topic=topic, queues=queue, create=create, dry_run=True)
        if not as_json:
            _show(plan)
        elif not (dry_run or yes):
            with redirect_stdout(sys.stderr):  # what the question is about, beside the JSON
                _show(plan)
        if not dry_run:
            confirm(f"Set group {group} in {_counted(plan)}?", yes=yes)
            admin.carry_out_reset(group, plan, create=create)
    if as_json:
        print_json({"group": group, "done": not dry_run, "queues": [_document(each) for each in plan]})
    else:
        print("Nothing was changed (--dry-run)." if dry_run else f"Group {group} is set. Its readers go on from there.")


def delete(group: Group, yes: Yes = False, namesrv: Namesrv = None, as_json: Json = False) -> None:
    """Deletes a group with its committed offsets. Example: rmq group delete billing"""
    from rmqspark.client.admin import AdminClient

    with AdminClient(namesrv) as admin:
        described = admin.group(group)
        members = f" Connected to it: {counted(len(described.members), 'member')}." if described.members else ""
        queues = counted(len(described.queues), "queue")
        confirm(f"Delete group {group} and its offsets in {queues}?{members}", yes=yes)
        admin.delete_group(group)
    if as_json:
        print_json({"group": group, "done": True, "queues": len(described.queues)})
    else:
        print(f"Group {group} deleted.")


def _show(plan: list[QueueReset]) -> None:
    columns = ("topic", "broker", "queue", "committed", "new", "change", "min offset", "max offset")
    rows = [(*q.queue, q.committed, q.target, _change(q), q.min_offset, q.max_offset) for q in plan]
    print_table(columns, rows, empty="")


def _change(reset: QueueReset) -> str:
    if reset.read_again > 0:
        return f"{reset.read_again:,} again"
    return f"{-reset.read_again:,} skipped" if reset.read_again else "–"


def _counted(plan: list[QueueReset]) -> str:
    again = sum(max(0, each.read_again) for each in plan)
    skipped = sum(max(0, -each.read_again) for each in plan)
    return f"{counted(len(plan), 'queue')} (messages read again: {again:,}, skipped: {skipped:,})"


def _document(reset: QueueReset) -> dict[str, Any]:
    return {
        "topic": reset.queue.topic,
        "brokerName": reset.queue.broker_name,
        "queueId": reset.queue.queue_id,
        "committed": reset.committed,
        "target": reset.target,
        "minOffset": reset.min_offset,
        "maxOffset": reset.max_offset,
    }
