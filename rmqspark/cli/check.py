"""`rmq check`: a line and an exit code for monitoring, as Nagios takes them: 0 ok, 1 warning, 2 critical, 3 unknown."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer
from typer.exceptions import TyperException

from rmqspark.cli.terminal.commands import Group, VerbGroup
from rmqspark.cli.terminal.options import Expect, Json, Namesrv
from rmqspark.cli.terminal.output import complain, json_text, print_json, safe
from rmqspark.cli.terminal.streams import discard_output
from rmqspark.cli.thresholds import EXIT_CODES, OK, UNKNOWN, Thresholds, worst
from rmqspark.clock import SystemClock
from rmqspark.errors import GroupNotFound, RmqError
from rmqspark.words import counted, duration, os_error_story

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqspark.client.administration.dead_letters import DeadLetterCount
    from rmqspark.client.administration.descriptions import GroupDescription
    from rmqspark.client.cluster.silence import Silence

_NAMED = 3  # of those that are bad, in the one line there is


class _Checks(Group):
    """Whatever keeps a check from an answer is unknown, exit code 3: a wrong option, too, for 2 would be critical.
    `verbs.py` sees to that, for wrong options may stand before the word `check`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            _give_up(f"It is not said what to check: {', '.join(self.list_commands(ctx))}. See rmq check --help.")
        return super().parse_args(ctx, args)


@contextmanager
def unknown_where_it_fails(*, as_json: bool) -> Iterator[None]:
    """Around the whole command line of a check, `rmq --context prod check lag`: it ends with 3 and one line, which is
    JSON for who has asked for that."""
    try:
        yield
    except TyperException as error:
        _give_up(error.format_message(), as_json=as_json)
    except RmqError as error:
        _give_up(str(error), as_json=as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up(os_error_story(error), as_json=as_json)
    except (typer.Exit, typer.Abort):
        raise
    except Exception as error:  # noqa: BLE001 - a bug, whose traceback is told; Python's exit code would be a warning
        traceback.print_exc()
        _give_up(f"A bug of rmq: {type(error).__name__}: {error}", as_json=as_json)


app = VerbGroup(
    help="One line and exit code 0, 1, 2 or 3, for monitoring. Example: rmq check lag --warn 30s --crit 5m", cls=_Checks
)

OnlyGroup = Annotated[str | None, typer.Argument(metavar="[GROUP]", help="Only this group; otherwise all.")]


class Measured(NamedTuple):
    """A group's figures, what they come to, and that in words."""

    group: str
    state: str
    story: str
    figures: dict[str, int | None]


@app.command("lag")
def lag(
    group: OnlyGroup = None,
    warn: Annotated[str, typer.Option(help="A time behind (30s), or a number of messages (1000).")] = "30s",
    crit: Annotated[str, typer.Option(help="The same, from where on it is critical.")] = "5m",
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """How far groups are behind. Examples: rmq check lag --warn 30s --crit 5m | rmq check lag billing --warn 1000
    --crit 10000

    What has committed nothing is unknown where it is named, and else left aside. So is what a broker knows that does
    not answer: the check is bad if it is without that, and unknown otherwise.
    """
    from rmqspark.client.admin import AdminClient
    from rmqspark.client.cluster.silence import Silence

    limits = Thresholds.parse(warn, crit)
    silence = Silence()
    with AdminClient(namesrv) as admin:
        if group is not None:
            groups = [admin.group(group, on_silent=silence)]
        else:
            groups = admin.describe_groups(admin.groups(on_silent=silence), on_silent=silence)
    now_ms = SystemClock().now_ms()
    known = [each for each in groups if group is not None or each.lag is not None]
    _tell("lag", [_lag_of(each, limits, now_ms) for each in known], "group", silence, as_json=as_json)


@app.command("dlq")
def dlq(
    group: OnlyGroup = None,
    warn: Annotated[str, typer.Option(help="A number of dead letters, or a time the first has waited (1h).")] = "1",
    crit: Annotated[str, typer.Option(help="The same, from where on it is critical.")] = "100",
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Dead letters that were not sent again. Example: rmq check dlq billing --warn 1 --crit 100"""
    from rmqspark.client.admin import AdminClient
    from rmqspark.client.cluster.silence import Silence

    limits = Thresholds.parse(warn, crit)
    silence = Silence()
    with AdminClient(namesrv) as admin:
        counts = [each for each in admin.dead_letter_counts(on_silent=silence) if group in (None, each.group)]
        if group is not None and not counts and group not in admin.groups(system=True, on_silent=silence):
            silence.insist()
            raise GroupNotFound(group, hint="rmq group list shows those that exist.")
    now_ms = SystemClock().now_ms()
    measured = [_letters_of(each, limits, now_ms) for each in counts]
    _tell("dlq", measured, "group with dead letters", silence, as_json=as_json)


@app.command("cluster")
def cluster(
    warn: Annotated[str, typer.Option(help="Taken for one command line for all checks; changes nothing.")] = "30s",
    crit: Annotated[str, typer.Option(help="The same.")] = "5m",
    expect: Expect = None,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Whether all servers are well, as rmq cluster health says it. Example: rmq check cluster --expect broker-a

    What is wrong with a server is a warning or critical by itself: there is no figure that --warn and --crit could be
    compared with. A broker that has gone is missed only where it is expected: nothing else knows that it was there.
    """
    from rmqspark.cli.cluster import look, problem_documents

    Thresholds.parse(warn, crit)
    found, summary = look(namesrv, expect)
    state = worst([problem.severity for problem in found])
    story = _joined([f"{problem.subject}: {problem.story}" for problem in found]) if found else summary
    _end("cluster", state, story, {"problems": problem_documents(found)}, as_json=as_json)


def _lag_of(group: GroupDescription, limits: Thresholds, now_ms: int) -> Measured:
    behind_ms = group.behind_ms(now_ms)
    figures = {"lag": group.lag, "secondsBehind": None if behind_ms is None else behind_ms // 1000}
    state = limits.state(behind_ms if limits.are_times else group.lag)
    if group.lag is None:
        where = f" but perhaps on {', '.join(sorted(group.silent))}" if group.silent else ""
        return Measured(group.name, state, f"{group.name} has committed nothing{where}", figures)
    behind = "for how long is unknown" if behind_ms is None else duration(behind_ms)
    return Measured(group.name, state, f"{group.name} {counted(group.lag, 'message')} behind, {behind}", figures)


def _letters_of(count: DeadLetterCount, limits: Thresholds, now_ms: int) -> Measured:
    if count.waiting is None:
        figures: dict[str, int | None] = {"count": None, "waiting": None, "waitingSeconds": None}
        return Measured(count.group, UNKNOWN, f"{count.group} has its dead letters where nobody answers", figures)
    since_ms = count.waiting_since_ms
    waited_ms = max(0, now_ms - since_ms) if since_ms is not None and count.waiting else 0
    state = limits.state(waited_ms if limits.are_times else count.waiting)
    story = f"{count.group} {counted(count.waiting, 'dead letter')} not sent again"
    story += f", the first for {duration(waited_ms)}" if count.waiting else ""
    figures = {
        "count": count.count,
        "waiting": count.waiting,
        "waitingSeconds": waited_ms // 1000,
    }
    return Measured(count.group, state, story, figures)


def _tell(check: str, measured: Sequence[Measured], noun: str, silence: Silence, *, as_json: bool) -> NoReturn:
    """What brokers say that answer may be bad enough; where it is not, that of the others is unknown."""
    away = [f"{broker_name} does not answer: {why}" for broker_name, why in silence.reasons.items()]
    state = worst([*(each.state for each in measured), *(UNKNOWN for _ in away)])
    bad = [each.story for each in measured if each.state == state] if state != OK else []
    plural = noun.replace("group", "groups", 1)
    story = _joined([*away, *bad] if state == UNKNOWN else [*bad, *away]) or _when_well(
        measured, counted(len(measured), noun, plural)
    )
    groups = [{"group": each.group, "state": each.state, **each.figures} for each in measured]
    _end(check, state, story, {"groups": groups, "silent": silence.reasons}, as_json=as_json)


def _when_well(measured: Sequence[Measured], how_many: str) -> str:
    return measured[0].story if len(measured) == 1 else how_many


def _joined(stories: Sequence[str]) -> str:
    more = f"; {len(stories) - _NAMED:,} more" if len(stories) > _NAMED else ""
    return "; ".join(stories[:_NAMED]) + more


def _end(check: str, state: str, story: str, more: dict[str, Any], *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"check": check, "state": state, "story": story, **more})
    else:
        print(safe(f"{state.upper()}: {' '.join(story.split())}"))
    raise typer.Exit(EXIT_CODES[state])


def _give_up(story: str, *, as_json: bool = False) -> NoReturn:
    """On standard error where standard output takes nothing: the exit code is to say it all the same."""
    told = safe(f"UNKNOWN: {' '.join(story.split())}")
    try:
        print(json_text({"state": UNKNOWN, "story": story}) if as_json else told, flush=True)
    except BrokenPipeError:
        raise
    except OSError:
        discard_output()
        complain(told)
    raise typer.Exit(EXIT_CODES[UNKNOWN])
