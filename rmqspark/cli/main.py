"""The command `rmq`: what it does with errors, interrupts and readers that have gone. The verbs are in `verbs.py`."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from typing import TYPE_CHECKING, NoReturn

from rmqspark import __version__
from rmqspark.cli.streams import READER_GONE, discard_output, open_closed_streams, print_utf8
from rmqspark.errors import Conflict, InvalidArgument, NotThereYet, RmqError
from rmqspark.words import os_error_story

if TYPE_CHECKING:
    from collections.abc import Iterator


def main() -> None:
    """Runs `rmq`. Exit codes: 0 done, 1 it failed or contradicts what is there, 2 the command line or a setting is
    wrong or names what is not there yet, 129 the terminal was closed, 130 interrupted with Ctrl-C, 141 who read its
    output has gone, 143 SIGTERM."""
    open_closed_streams()
    print_utf8()
    _put_away_when_told_to_end()
    try:
        if sys.argv[1:] == ["--version"]:  # asked by scripts; ten times as quick without the machinery for options
            print(f"rmqspark {__version__}", flush=True)
            return
        from rmqspark.cli.verbs import app

        app(prog_name="rmq")
    except RmqError as error:
        is_usage = isinstance(error, InvalidArgument | NotThereYet) and not isinstance(error, Conflict)
        give_up(error.message, error.hint, exit_code=2 if is_usage else 1)
    except BrokenPipeError:
        discard_output()
        sys.exit(READER_GONE)
    except OSError as error:
        discard_output()
        give_up(os_error_story(error), _advice(error), exit_code=1)
    except KeyboardInterrupt:
        sys.exit(130)


def _put_away_when_told_to_end() -> None:
    """As Ctrl-C does, SIGTERM and the end of the terminal leave nothing half done behind: a file, a topic made for a
    measurement, servers that were started, a terminal without echo. Servers have their own way; `nohup` stays."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: object) -> NoReturn:
    sys.exit(128 + number)


def give_up(message: str, hint: str, *, exit_code: int) -> NoReturn:
    """Says what went wrong and how to mend it, and ends the process."""
    from rmqspark.cli.output import complain

    complain(f"Error: {message}")
    if hint:
        complain(f"  {hint}")
    sys.exit(exit_code)


@contextmanager
def told_or(exit_code: int) -> Iterator[None]:
    """What the block prints is out at its end, or the process ends with this code: where 1 is a finding, a disk that is
    full is none. A reader that has gone is `verbs`' to tell."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        give_up(os_error_story(error), _advice(error), exit_code=exit_code)


def _advice(error: OSError) -> str:
    is_full = error.errno in (ENOSPC, EDQUOT)
    return "The disk is full: make room on it, or use another place." if is_full else ""
