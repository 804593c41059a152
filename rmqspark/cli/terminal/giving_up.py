"""How `rmq` ends where it cannot go on: with what went wrong, how to mend it, and an exit code."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from errno import EDQUOT, ENOSPC
from typing import TYPE_CHECKING, NoReturn

from rmqspark.cli.terminal.streams import discard_output
from rmqspark.words import os_error_story

if TYPE_CHECKING:
    from collections.abc import Iterator


def give_up(message: str, hint: str, *, exit_code: int) -> NoReturn:
    """Says what went wrong and how to mend it, and ends the process."""
    from rmqspark.cli.terminal.output import complain

    complain(f"Error: {message}")
    if hint:
        complain(f"  {hint}")
    sys.exit(exit_code)


def give_up_for(error: OSError, *, exit_code: int) -> NoReturn:
    """The same where the system refused something: also what was printed may not have come out, and is forgotten."""
    discard_output()
    is_full = error.errno in (ENOSPC, EDQUOT)
    advice = "The disk is full: make room on it, or use another place." if is_full else ""
    give_up(os_error_story(error), advice, exit_code=exit_code)


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
        give_up_for(error, exit_code=exit_code)
