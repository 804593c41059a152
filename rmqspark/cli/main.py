"""The command `rmq`: a list of verbs. A verb imports what it needs when it runs, so `rmq --help` is quick."""

from __future__ import annotations

import os
import sys

import typer

from rmqspark import __version__
from rmqspark.cli import consume, doctor, group, message, send, servers, topic, up
from rmqspark.cli.demo.run import demo
from rmqspark.errors import InvalidArgument, RmqError

app = typer.Typer(
    name="rmq",
    help="RocketMQ protocol message queue made for Spark. Start one with: rmq up",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up)
app.command("namesrv")(servers.namesrv)
app.command("broker")(servers.broker)
app.command("demo")(demo)
app.add_typer(topic.app, name="topic")
app.command("send")(send.send)
app.command("consume")(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(message.app, name="message")
app.command("doctor")(doctor.doctor)


@app.callback(invoke_without_command=True)
def root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    """RocketMQ protocol message queue made for Spark. Start one with: rmq up"""
    if version:
        typer.echo(f"rmqspark {__version__}")
        raise typer.Exit


def main() -> None:
    """Runs `rmq`. Exit codes: 0 done, 1 it failed, 2 the command line is wrong, 130 interrupted with Ctrl-C."""
    try:
        app()
    except InvalidArgument as error:
        _complain(error, exit_code=2)
    except RmqError as error:
        _complain(error, exit_code=1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read our output has gone (`rmq consume t | head`). Python would complain once more while flushing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _complain(error: RmqError, *, exit_code: int) -> None:
    sys.stdout.flush()
    print(f"Error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"  {error.hint}", file=sys.stderr)
    sys.exit(exit_code)
