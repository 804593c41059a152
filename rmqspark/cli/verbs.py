"""The verbs of `rmq`, each loaded when it is asked for: `rmq send` does not wait for what `rmq broker` needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command, get_group

from rmqspark import __version__
from rmqspark.cli.terminal.commands import Group, Verb
from rmqspark.cli.terminal.options import CONTEXT, CONTEXT_IN_USE
from rmqspark.cli.terminal.streams import READER_GONE, discard_output
from rmqspark.errors import InvalidArgument, RmqError, Unreachable
from rmqspark.words import sentence

# Where each verb is; as many of them as `rmq --help` lists, in its order.
HOMES = {
    "up": "rmqspark.cli.up.verb:up",
    "namesrv": "rmqspark.cli.servers.namesrv:namesrv",
    "broker": "rmqspark.cli.servers.broker:broker",
    "admin": "rmqspark.cli.servers.admin:admin",
    "demo": "rmqspark.cli.demo.verb:demo",
    "topic": "rmqspark.cli.topic:app",
    "send": "rmqspark.cli.send:send",
    "consume": "rmqspark.cli.consume:consume",
    "group": "rmqspark.cli.group:app",
    "message": "rmqspark.cli.message:app",
    "dlq": "rmqspark.cli.dlq:app",
    "txn": "rmqspark.cli.txn:app",
    "user": "rmqspark.cli.user:app",
    "acl": "rmqspark.cli.acl:app",
    "config": "rmqspark.cli.config:app",
    "cluster": "rmqspark.cli.cluster:app",
    "spark": "rmqspark.cli.spark:app",
    "audit": "rmqspark.cli.audit:audit",
    "context": "rmqspark.cli.context:app",
    "check": "rmqspark.cli.check:app",
    "top": "rmqspark.cli.top.verb:top",
    "dashboards": "rmqspark.cli.dashboards.verb:app",
    "store": "rmqspark.cli.store:app",
    "bench": "rmqspark.cli.bench.verb:bench",
    "doctor": "rmqspark.cli.doctor:doctor",
}


CHECK = "check"
WORDS = "rmqspark.words"  # where a command line is kept
_INSTALL_COMPLETION = "--install-completion"
_WITH_VALUE = ("--context", "--credentials")  # options before the verb


class LoadedVerbs(Mapping[str, Any]):
    """Verb by name. Looking one up imports its module; the names alone import nothing."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _load(name, HOMES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


class Verbs(Group):
    """The group of all verbs; it also sees to it that what they print is out before the process ends."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": LoadedVerbs()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **attributes: Any) -> Any:
        words = tuple(args)
        with _failing(words), _read_or_not(), _installing(words):  # the help is printed here
            ctx = super().make_context(info_name, args, parent, **attributes)
        ctx.meta[WORDS] = words
        return ctx

    def invoke(self, ctx: Any) -> Any:
        with _failing(ctx.meta[WORDS]), _read_or_not(), _naming_context(ctx):
            return super().invoke(ctx)


def verb_of(words: Sequence[str]) -> str | None:
    """Which verb a command line is about, also one with an option before it that nobody knows."""
    before = ("", *words)
    return next(
        (word for last, word in zip(before, words, strict=False) if word in HOMES and last not in _WITH_VALUE), None
    )


def _failing(words: Sequence[str]) -> AbstractContextManager[None]:
    """What becomes of errors: those of checks are for monitoring, the others for `main`."""
    if verb_of(words) != CHECK:
        return nullcontext()
    from rmqspark.cli.check import unknown_where_it_fails

    return unknown_where_it_fails(as_json="--json" in words)


@contextmanager
def _naming_context(ctx: Any) -> Iterator[None]:
    """Where nobody is at an address, which context has it: another cluster may be meant."""
    try:
        yield
    except Unreachable as error:
        if (name := ctx.meta.get(CONTEXT_IN_USE)) is not None:
            error.retell(f"{sentence(error.message)} This is context {name}.")
        raise


@contextmanager
def _installing(words: Sequence[str]) -> Iterator[None]:
    """What typer stumbles over while it installs completion is told: it looks for a home, and reads what the shell
    reads when it starts."""
    try:
        yield
    except (RuntimeError, UnicodeError) as error:
        if not any(word.startswith(_INSTALL_COMPLETION) for word in words):
            raise
        why = str(error).rstrip(".")
        if isinstance(error, UnicodeError):
            why = "the file that your shell reads when it starts is no UTF-8"
        hint = "rmq --show-completion prints what is to be put there."
        raise RmqError(f"Completion cannot be installed: {why}.", hint=hint) from None


@contextmanager
def _read_or_not() -> Iterator[None]:
    """What is printed is out at the end, or whoever read it has seen enough: `rmq consume t | head`.

    Then it ends as what a signal ends does: nobody is to take a send that broke off for a whole one.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
        raise typer.Exit(READER_GONE) from None


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},  # of every verb, too
)


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
    context: str | None = typer.Option(None, metavar="NAME", help="The cluster of that name: rmq context list."),
    credentials: str | None = typer.Option(
        None,
        metavar="FILE",
        help="access_key and secret_key, in TOML or as RocketMQ's tools.yml; for its owner's eyes alone (chmod 600). "
        "Default: $RMQ_ACCESS_KEY and $RMQ_SECRET_KEY, else the file $RMQ_CREDENTIALS.",
    ),
) -> None:
    """RocketMQ protocol message queue made for Spark. Start one with: rmq up"""
    if context is not None:
        if not context.strip():
            raise InvalidArgument("--context is empty.", hint="Leave it out for the one in use: rmq context list.")
        ctx.meta[CONTEXT] = context
    if credentials is not None:
        from rmqspark.cli.terminal.credentials import use_credentials

        use_credentials(credentials)
    if version:
        typer.echo(f"rmqspark {__version__}")
        raise typer.Exit


def _load(name: str, home: str) -> Any:
    module, _, attribute = home.partition(":")
    verb = getattr(import_module(module), attribute)
    if isinstance(verb, typer.Typer):
        return get_group(verb)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=Verb)(verb)
    return get_command(alone)
