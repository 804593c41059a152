"""`rmq dlq`: what groups have consumed in vain, and giving it to them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.cli.messages.formats import as_object
from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.options import Json, Namesrv, Yes, confirm
from rmqspark.cli.terminal.output import print_json, print_table
from rmqspark.cli.terminal.progress import counting
from rmqspark.cli.terminal.silent import telling
from rmqspark.client.moments import time_span
from rmqspark.clock import SystemClock
from rmqspark.display import time_text
from rmqspark.words import counted

if TYPE_CHECKING:
    from rmqspark.client.administration.dead_letter_plan import ResendPlan
    from rmqspark.client.administration.dead_letters import DeadLetter, DeadLetterCount

app = VerbGroup(help="Dead letters: what groups have consumed in vain. Example: rmq dlq list billing")

_SHOWN = 64
_MOST_SHOWN = 10_000


@app.command("list")
def list_dead_letters(
    group: Annotated[
        str | None, typer.Argument(help="The group whose letters are shown; otherwise how many each has.")
    ] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=_MOST_SHOWN, help="Of a group: the newest, at most so many.")
    ] = _SHOWN,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Lists the groups that have dead letters, or the newest of one. Examples: rmq dlq list | rmq dlq list billing"""
    from rmqspark.client.admin import AdminClient

    with telling() as silence, AdminClient(namesrv) as admin:
        if group is None:
            _show_counts(admin.dead_letter_counts(on_silent=silence), as_json=as_json)
        else:
            _show_letters(group, admin.dead_letters(group, count, on_silent=silence), as_json=as_json)


@app.command("resend")
def resend(
    group: Annotated[str, typer.Argument(help="The group that gets its dead letters again.")],
    id_: Annotated[
        list[str] | None, typer.Option("--id", help="Only this one, by any id that is listed; may be repeated.")
    ] = None,
    from_: Annotated[str | None, typer.Option("--from", help="Dead since then: a time (UTC), or -10m.")] = None,
    to: Annotated[str | None, typer.Option(help="Dead before then: a time (UTC), or -10m.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what was sent again before.")] = False,
    to_topic: Annotated[
        bool, typer.Option("--to-topic", help="To the original topic, for all who read it, not for the group alone.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be sent, and send nothing.")] = False,
    yes: Yes = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Gives a group its dead letters again, as if never consumed. Example: rmq dlq resend billing --from -1h --dry-run

    The next resend has only what came since, unless --again or --id names it. One that is killed has a few sent that
    the next sends once more: at least once, none is left out.
    """
    from rmqspark.client.admin import AdminClient

    span = time_span(from_, to, SystemClock().now_ms())
    with AdminClient(namesrv) as admin:
        plan = admin.resend_dead_letters(
            group, msg_ids=id_, begin_ms=span.start, end_ms=span.stop, again=again, to_topic=to_topic, dry_run=True
        )
        letters = counted(plan.count, "dead letter")
        receivers = "all who read their topics" if to_topic else f"{group} alone"
        if dry_run:
            _tell_of_plan(plan, f"{letters} would be sent again, to {receivers}", as_json=as_json)
            return
        confirm(f"Send {letters} of group {group} again, to {receivers}?", yes=yes or not plan.count)
        sent = 0
        try:
            with counting(admin.resending(plan), "dead letters sent") as letters_sent:
                for _ in letters_sent:
                    sent += 1
        finally:  # also where a later one failed
            if as_json:
                print_json(_plan_document(plan, sent=sent))
            elif sent or plan.count:
                print(f"{counted(sent, 'dead letter')} sent again, to {receivers}.")
            else:
                print(_nothing(group, again=again))


def _tell_of_plan(plan: ResendPlan, story: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_plan_document(plan, sent=0))
    else:
        print(f"{story}. Nothing was sent (--dry-run).")


def _nothing(group: str, *, again: bool) -> str:
    more = "" if again else " Those sent again before: --again."
    return f"Nothing of group {group} is to be sent again.{more}"


def _show_counts(counts: list[DeadLetterCount], *, as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "group": each.group,
                    "count": each.count,
                    "waiting": each.waiting,
                    "oldest": each.oldest_ms,
                    "newest": each.newest_ms,
                    "silent": each.silent,
                }
                for each in counts
            ]
        )
        return
    rows = [(each.group, each.count, each.waiting, _time(each.oldest_ms), _time(each.newest_ms)) for each in counts]
    columns = ("group", "dead letters", "not sent again", "oldest", "newest")
    print_table(columns, rows, empty="No dead letters. A message becomes one when all retries were in vain.")


def _show_letters(group: str, letters: list[DeadLetter], *, as_json: bool) -> None:
    if as_json:
        print_json([_document(letter) for letter in letters])
        return
    rows = [
        (
            letter.message.msg_id,
            letter.topic,
            " ".join(letter.message.keys) or "-",
            letter.message.tags or "-",
            letter.tries,
            time_text(letter.message.store_timestamp_ms),
            letter.reason,
            letter.is_resent,
        )
        for letter in letters
    ]
    columns = ("message id", "topic", "keys", "tags", "tries", "dead since", "why", "sent again")
    print_table(columns, rows, empty=f"Group {group} has no dead letters.")


def _time(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else time_text(timestamp_ms)


def _document(letter: DeadLetter) -> dict[str, Any]:
    """As a message read from the dead letter topic, with what is known of where it comes from."""
    return {
        **as_object(letter.message),
        "offsetMsgId": letter.message.offset_msg_id,
        "originTopic": letter.topic,
        "originMsgId": letter.origin_msg_id,
        "reason": letter.reason,
        "sentAgain": letter.is_resent,
    }


def _plan_document(plan: ResendPlan, *, sent: int) -> dict[str, Any]:
    return {
        "group": plan.group,
        "planned": plan.count,
        "sent": sent,
        "toTopic": plan.to_topic,
        "queues": [
            {"brokerName": each.queue.broker_name, "queueId": each.queue.queue_id, "from": each.start, "to": each.end}
            for each in plan.ranges
        ],
    }
