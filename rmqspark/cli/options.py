"""Options that several verbs share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from rmqspark.errors import InvalidArgument

Namesrv = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Name servers. Default: $RMQ_NAMESRV, else $NAMESRV_ADDR (an empty one is not set), else 127.0.0.1:9876.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document (or one object a line), for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def said_path(text: str) -> Path:
    """For path arguments: an empty word would mean the current directory."""
    if not text.strip():
        raise InvalidArgument("The path is empty.", hint="Name a file or directory; this directory is a dot.")
    return Path(text)


def confirm(question: str, *, yes: bool) -> None:
    """Asks before what cannot be undone; without a terminal there is nobody to ask, so --yes must say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{question} Nobody can be asked here.", hint="Say --yes to go ahead.")
    try:
        agreed = typer.confirm(question, err=True)  # standard output may be a pipe, or JSON
    except typer.Abort:  # Ctrl-C, or Ctrl-D: as anywhere else
        print(file=sys.stderr)
        raise KeyboardInterrupt from None
    if not agreed:
        raise typer.Exit(1)
