"""The command `rmq`: what it does with errors, interrupts and readers that have gone. The verbs are in `verbs.py`."""

from __future__ import annotations

import os
import sys
from errno import EDQUOT, ENOSPC
from io import TextIOWrapper

from rmqspark import __version__
from rmqspark.errors import Conflict, InvalidArgument, NotThereYet, RmqError

READER_GONE = 141  # what a shell says of cat or grep then: 128 and the number of SIGPIPE


def main() -> None:
    """Runs `rmq`. Exit codes: 0 done, 1 it failed or contradicts what is there, 2 the command line or a setting is
    wrong or names what is not there yet, 130 interrupted with Ctrl-C, 141 who read its output has gone."""
    _open_closed_streams()
    _print_utf8()
    try:
        if sys.argv[1:] == ["--version"]:  # asked by scripts; ten times as quick without the machinery for options
            print(f"rmqspark {__version__}", flush=True)
            return
        from rmqspark.cli.verbs import app

        app(prog_name="rmq")
    except RmqError as error:
        is_usage = isinstance(error, InvalidArgument | NotThereYet) and not isinstance(error, Conflict)
        _complain(error.message, error.hint, exit_code=2 if is_usage else 1)
    except BrokenPipeError:
        discard_output()
        sys.exit(READER_GONE)
    except OSError as error:
        discard_output()
        _complain(os_error_story(error), _advice(error), exit_code=1)
    except KeyboardInterrupt:
        sys.exit(130)


def _open_closed_streams() -> None:
    """`rmq ... >&-` has nowhere to print to; the next file or socket opened would be taken for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends


def _print_utf8() -> None:
    """Bodies come out as they are, mostly UTF-8, and so does all else: a locale without their characters loses none,
    and a name of a file keeps what is no UTF-8 in it. Standard error escapes by itself what it cannot say."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def discard_output() -> None:
    """Forgets what has not come out: Python would try once more at the exit, complain in words of its own, and change
    the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, hint: str, *, exit_code: int) -> None:
    print(f"Error: {message}", file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
    sys.exit(exit_code)


def os_error_story(error: OSError) -> str:
    """What the operating system refused, in its words: 'rmq-store: Permission denied'."""
    reason = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {reason}" if error.filename is not None else reason


def _advice(error: OSError) -> str:
    is_full = error.errno in (ENOSPC, EDQUOT)
    return "The disk is full: make room on it, or use another place." if is_full else ""
