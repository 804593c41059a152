"""Options that several verbs share, and flags made from settings."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rmqspark.errors import InvalidArgument
from rmqspark.settings import SettingInfo, describe

Namesrv = Annotated[
    str | None,
    typer.Option(
        "--namesrv",
        metavar="HOST:PORT[;...]",
        help="Name servers. Default: $RMQ_NAMESRV, else $NAMESRV_ADDR, else 127.0.0.1:9876.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document (or one object a line), for scripts.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Asks before what cannot be undone; without a terminal there is nobody to ask, so --yes must say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgument(f"{question} Nobody can be asked here.", hint="Say --yes to go ahead.")
    if not typer.confirm(question):
        raise typer.Exit(1)


def with_settings(*kinds: type, leave_out: frozenset[str] = frozenset()) -> Callable[..., Callable[..., None]]:
    """Gives a verb one flag for each setting of the settings classes; it receives them as the dict `settings`.

    A setting whose flag the verb already declares in its own words is passed through that one, via `leave_out`.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        infos = {info.name: info for kind in kinds for info in describe(kind) if info.name not in leave_out}
        own = [p for p in inspect.signature(verb, eval_str=True).parameters.values() if p.name != "settings"]

        @functools.wraps(verb)
        def wrapped(**given: Any) -> None:
            settings = {name: given.pop(name) for name in infos}
            verb(**given, settings=settings)

        flags = [_flag(info) for info in infos.values()]
        wrapped.__signature__ = inspect.Signature([*own, *flags])  # type: ignore[attr-defined]
        wrapped.__annotations__ = {p.name: p.annotation for p in [*own, *flags]}
        return wrapped

    return decorate


def _flag(info: SettingInfo) -> inspect.Parameter:
    """Settings come in as text and are converted in one place, `settings.load`, whatever source they came from."""
    default = (
        "" if info.default is None else f" Default: {str(info.default).lower() if info.kind is bool else info.default}."
    )
    unit = f" [{info.unit}]" if info.unit else ""
    option = typer.Option(
        info.flag,
        metavar=info.kind.__name__.upper(),
        help=f"{info.meaning}{unit}{default}",
        rich_help_panel="Settings",
        show_default=False,
    )
    return inspect.Parameter(
        info.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[str | None, option]
    )
