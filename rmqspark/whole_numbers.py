"""Whole numbers in texts from outside: of a header, a file, a form, an address."""

from __future__ import annotations

from typing import Final

_MOST_DIGITS: Final = 19  # of a long


def whole_number(text: str) -> int | None:
    """What up to nineteen ASCII digits say; None for every other text.

    Python's `int` takes signs, blanks, underscores and digits of all scripts, `isdigit` is true of some that `int`
    refuses, and with thousands of digits it raises, too.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
