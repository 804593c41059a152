"""Keys as they are pressed, without Enter."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NO_LETTERS: Final = re.compile(r"\x1b(\[[0-9;]*|O)?[ -~]?")  # arrows, F2: for them terminals send letters, too


class Keys:
    """Of a terminal, or of nobody: then none is ever pressed."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def are_there(self) -> bool:
        return self._descriptor is not None

    def pressed(self) -> str:
        """What was pressed since the last time, in lower case; "q" where the terminal has gone."""
        if self._descriptor is None or not select.select([self._descriptor], [], [], 0)[0]:
            return ""
        try:
            pressed = os.read(self._descriptor, 64)
        except OSError:
            return "q"
        return _NO_LETTERS.sub("", pressed.decode("ascii", "ignore")).lower() if pressed else "q"


@contextmanager
def single_keys() -> Iterator[Keys]:
    """The terminal gives each key at once, and shows none, while the block runs. Ctrl-C is still Ctrl-C."""
    if not sys.stdin.isatty():
        yield Keys(None)
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    try:
        yield Keys(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
