"""Options that several verbs share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqspark.display import printable
from rmqspark.errors import InvalidArgument

if TYPE_CHECKING:
    from rmqspark.cli.terminal.contexts import Context

CONTEXT = "rmqspark.context"  # where a command line keeps the name that --context gave
CONTEXT_IN_USE = "rmqspark.context-in-use"  # and that of the context by which it is carried out, if it is by one


def _namesrv(ctx: typer.Context, namesrv: str | None) -> str | None:
    """What was said, else what a context says. On a terminal it is told which one decides: it may be production."""
    from rmqspark.cli.terminal.contexts import namesrv_of_context

    return _said_or(namesrv_of_context, ctx, namesrv)


def _own_namesrv(ctx: typer.Context, namesrv: str | None) -> str | None:
    """Here a context counts only where it is named, not by being in use."""
    from rmqspark.cli.terminal.contexts import namesrv_of_context

    return _said_or(lambda named: None if named is None else namesrv_of_context(named), ctx, namesrv)


def _said_or(look: Callable[[str | None], Context | None], ctx: typer.Context, namesrv: str | None) -> str | None:
    named = ctx.meta.get(CONTEXT)
    if namesrv is not None and named is not None:
        raise InvalidArgument("Both --namesrv and --context say which cluster is meant.", hint="Give one of them.")
    context = None if namesrv is not None or ctx.resilient_parsing else look(named)
    if context is None:
        return namesrv
    ctx.meta[CONTEXT_IN_USE] = context.name
    if sys.stderr.isatty():
        print(f"Context {context.name}: {context.namesrv}", file=sys.stderr)
    return context.namesrv


Namesrv = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Name servers. Default: $RMQ_NAMESRV, else $NAMESRV_ADDR (an empty one is not set), else the context in "
        "use (rmq context), else 127.0.0.1:9876.",
        callback=_namesrv,
    ),
]
Expect = Annotated[
    list[str] | None,
    typer.Option(metavar="BROKER", help="A broker that has to be there: critical without it. May be repeated."),
]


def _own(*names: str) -> Any:
    return typer.Option(
        *names,
        metavar="HOST:PORT[;...]",
        help="Name servers. Default: $RMQ_NAMESRV, else $NAMESRV_ADDR (an empty one is not set), else 127.0.0.1:9876.",
        callback=_own_namesrv,
    )


OwnNamesrv = Annotated[str | None, _own("--namesrv")]  # of what loads a cluster
ServersNamesrv = Annotated[str | None, _own("--namesrv", "--namesrv-addr")]  # of what joins it, by the setting's name
IgnoreUnknown = Annotated[
    bool, typer.Option("--ignore-unknown-columns", help="Leave out columns of the file that nothing is known of.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document (or one object a line), for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def said_path(text: str | Path) -> Path:
    """For path arguments: an empty word would mean the current directory. Typer hands in a default, too."""
    if isinstance(text, str) and not text.strip():
        raise InvalidArgument("The path is empty.", hint="Name a file or directory; this directory is a dot.")
    return Path(text)


def confirm(question: str, *, yes: bool) -> None:
    """Asks before what cannot be undone; without a terminal there is nobody to ask, so --yes must say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{question} Nobody can be asked here.", hint="Say --yes to go ahead.")
    try:
        agreed = typer.confirm(printable(question), err=True)  # standard output may be a pipe, or JSON
    except typer.Abort:  # Ctrl-C, or Ctrl-D: as anywhere else
        print(file=sys.stderr)
        raise KeyboardInterrupt from None
    if not agreed:
        raise typer.Exit(1)
