"""`rmq context`: clusters by name, and which of them `rmq` means when nothing else says it."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from rmqspark.cli.terminal.commands import VerbGroup
from rmqspark.cli.terminal.contexts import Context, Contexts, contexts_file
from rmqspark.cli.terminal.options import Json, Yes, confirm
from rmqspark.cli.terminal.output import print_facts, print_json, print_table
from rmqspark.client.cluster.addresses import VARIABLES
from rmqspark.errors import InvalidArgument, NotFound

app = VerbGroup(help="Named clusters, and the one in use; alone it lists them. Example: rmq context use prod")

Name = Annotated[str, typer.Argument(help="The context's name.")]


@app.callback(invoke_without_command=True, no_args_is_help=False)
def contexts(ctx: typer.Context, as_json: Json = False) -> None:
    """Without a verb: what `rmq context list` does."""
    if ctx.invoked_subcommand is None:
        list_contexts(as_json)
    elif as_json:
        raise InvalidArgument(
            "--json stands behind the verb.", hint=f"rmq context {ctx.invoked_subcommand} --json, if that has it."
        )


@app.command("list")
def list_contexts(as_json: Json = False) -> None:
    """Lists the clusters that have a name here. Example: rmq context list"""
    contexts = Contexts.read(contexts_file())
    used = contexts.in_use
    if as_json:
        print_json([_document(context, used) for context in contexts.all()])
        return
    rows = [(context.name, context.namesrv, context == used) for context in contexts.all()]
    print_table(("context", "name servers", "in use"), rows, empty="No contexts yet. Add one with: rmq context add")
    _say_what_comes_first()


@app.command("show")
def show(
    name: Annotated[str | None, typer.Argument(help="Which; otherwise the one in use.")] = None, as_json: Json = False
) -> None:
    """Shows one, or the one in use. Example: rmq context show"""
    contexts = Contexts.read(contexts_file())
    used = contexts.in_use
    context = used if name is None else contexts.get(name)
    if context is None:
        raise NotFound("No context is in use.", hint="Choose one with: rmq context use NAME")
    if as_json:
        print_json(_document(context, used))
        return
    facts = {"context": context.name, "name servers": context.namesrv, "in use": context == used}
    print_facts({**facts, "file": contexts.path})
    _say_what_comes_first()


@app.command("add")
def add(
    name: Name,
    namesrv: Annotated[str, typer.Option("--namesrv", metavar="HOST:PORT[;...]", help="The cluster's name servers.")],
    use: Annotated[bool, typer.Option("--use", help="And use it from now on.")] = False,
) -> None:
    """Gives a cluster a name. Example: rmq context add prod --namesrv "h1:9876;h2:9876" """
    contexts = Contexts.read(contexts_file())
    contexts.add(name, namesrv)
    if use:
        contexts.use(name)
    contexts.save()
    print(f"Context {name} added: {contexts.get(name).namesrv}.")
    print("It is in use from now on." if use else f"Use it with: rmq context use {name}")
    _say_what_comes_first()


@app.command("use")
def use(
    name: Annotated[str | None, typer.Argument(help="The context's name.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use none of them any more.")] = False,
) -> None:
    """Has rmq mean this cluster from now on. Examples: rmq context use prod | rmq context use --none"""
    if (name is None) != none:
        raise InvalidArgument("Name one context, or say --none.", hint="They are listed by: rmq context list")
    contexts = Contexts.read(contexts_file())
    contexts.use(name)
    contexts.save()
    print("No context is in use." if name is None else f"Context {name} is in use: {contexts.get(name).namesrv}.")
    _say_what_comes_first()


@app.command("remove")
def remove(name: Name, yes: Yes = False) -> None:
    """Forgets a context; its cluster stays as it is. Example: rmq context remove prod"""
    contexts = Contexts.read(contexts_file())
    context = contexts.get(name)
    confirm(f"Forget context {name} ({context.namesrv})?", yes=yes)
    contexts.remove(name)
    contexts.save()
    print(f"Context {name} is forgotten.")


def _say_what_comes_first() -> None:
    for variable in VARIABLES:
        if os.environ.get(variable):
            print(f"${variable} is set and comes first: {os.environ[variable]}", file=sys.stderr)
            return


def _document(context: Context, used: Context | None) -> dict[str, Any]:
    return {"context": context.name, "namesrv": context.namesrv, "inUse": context == used}
