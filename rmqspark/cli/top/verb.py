"""`rmq top`: what it shows, and where: the whole terminal, one frame, or one document a frame."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rmqspark.cli.terminal.options import Json, Namesrv
from rmqspark.cli.terminal.output import json_text, print_json
from rmqspark.cli.top.view import Sort, document, frame_text

if TYPE_CHECKING:
    from rmqspark.cli.top.keys import Keys
    from rmqspark.cli.top.watch import Watch
    from rmqspark.client.watching.rates import Rates

_KEYS = "keys: l lag  r rate  d drain  n name  q quit"
_LOOK_AT_KEYS_S = 0.1


def top(
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.1, max=3600, help="Seconds between two looks.")
    ] = 2.0,
    sort: Annotated[Sort, typer.Option(help="What comes first.")] = Sort.LAG,
    once: Annotated[bool, typer.Option("--once", help="One frame, after two looks: rates are differences.")] = False,
    namesrv: Namesrv = None,
    as_json: Json = False,
) -> None:
    """Shows what goes on, live: brokers, topics, groups, queries.

    Brokers with messages in and out a second and their disks, topics by rate, groups and Spark queries by lag with when
    they will have caught up, half messages, and transactions that nobody has decided. A broker that does not answer
    stays, with the age of its figures. q or Ctrl-C ends it; with --json it prints one document a frame.

    Examples: rmq top | rmq top --once | rmq top --interval 5 --json
    """
    from rmqspark.cli.top.watch import Watch
    from rmqspark.client.cluster.cluster_client import ClusterClient

    with ClusterClient(namesrv) as cluster, Watch(cluster, interval) as watch:
        if once:
            _print(_next(watch), sort, as_json=as_json, is_only_one=True)
        elif as_json or not sys.stdout.isatty():
            while True:
                _print(_next(watch), sort, as_json=as_json, is_only_one=False)
        else:
            _live(watch, sort)


def _next(watch: Watch) -> Rates:
    frame = watch.next()
    assert frame is not None  # without a time limit there is one
    return frame


def _print(frame: Rates, sort: Sort, *, as_json: bool, is_only_one: bool) -> None:
    if not as_json:
        print(frame_text(frame, sort), end="\n" if is_only_one else "\n\n", flush=True)
    elif is_only_one:
        print_json(document(frame, sort))
    else:
        print(json_text(document(frame, sort)), flush=True)


def _live(watch: Watch, sort: Sort) -> None:
    """On the terminal's other screen, which leaves what was there before as it was."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from rmqspark.cli.top.keys import single_keys

    console = Console(markup=False, highlight=False)
    with single_keys() as keys, Live(Text("Looking ..."), console=console, screen=True, auto_refresh=False) as live:
        frame: Rates | None = None
        size = console.size
        while True:
            pressed = keys.pressed()
            if "q" in pressed:
                return
            sort, newest = _sort_of(pressed, sort), watch.next(_LOOK_AT_KEYS_S)
            if newest is None and not pressed and size == console.size:
                continue
            frame, size = newest or frame, console.size
            if frame is not None:
                text = frame_text(frame, sort, size.height, _hint(keys))
                live.update(Text.from_ansi(text, no_wrap=True, overflow="crop"), refresh=True)


def _hint(keys: Keys) -> str:
    return _KEYS if keys.are_there else ""


def _sort_of(pressed: str, sort: Sort) -> Sort:
    """By the last of these keys that was pressed."""
    return next((each for key in reversed(pressed) for each in Sort if each.startswith(key)), sort)
