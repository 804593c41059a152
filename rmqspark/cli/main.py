"""The command `rmq`: what it does with errors, interrupts and readers that have gone. The verbs are in `verbs.py`."""

from __future__ import annotations

import signal
import sys
from typing import NoReturn

from rmqspark import __version__
from rmqspark.cli.terminal.giving_up import give_up, give_up_for
from rmqspark.cli.terminal.streams import READER_GONE, discard_output, open_closed_streams, print_utf8
from rmqspark.errors import Conflict, InvalidArgument, NotThereYet, RmqError


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
        give_up_for(error, exit_code=1)
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
