"""Standard input and output as `rmq` needs them, whoever has closed or left them."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

READER_GONE = 141  # what a shell says of cat or grep then: 128 and the number of SIGPIPE


def open_closed_streams() -> None:
    """`rmq ... >&-` has nowhere to print to; the next file or socket opened would be taken for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends


def print_utf8() -> None:
    """Bodies come out as they are, mostly UTF-8, and so does all else: a locale without their characters loses none,
    and a name of a file keeps what is no UTF-8 in it. Standard error escapes by itself what it cannot say."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def hold_no_text_back() -> None:
    """What is printed goes behind Python's text layer at once: of what that holds back Ctrl-C takes up to 8 KB away,
    where it breaks into a write to the file below. What a whole `print` has taken comes out then, if late."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(write_through=True)


def discard_output() -> None:
    """Forgets what has not come out: Python would try once more at the exit, complain in words of its own, and change
    the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
