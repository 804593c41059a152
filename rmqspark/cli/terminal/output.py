"""What `rmq` prints: tables for people, JSON for scripts, and no byte of a message that a terminal would obey."""

from __future__ import annotations

import json
import re
import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from rmqspark.display import printable, printable_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NUMBER = re.compile(r"-?[\d,]*(\.\d+)?")  # also none, and a dash in the place of one
_ANY_WIDTH = 1 << 30


def print_json(document: Any) -> None:
    """One JSON document, indented on a terminal and on one line in a pipe."""
    print(json_text(document, indent=2 if sys.stdout.isatty() else None))


def json_text(document: Any, indent: int | None = None) -> str:
    """For a terminal without what it would obey; JSON itself lets half of that through."""
    text = json.dumps(document, ensure_ascii=False, indent=indent)
    return printable_json(text) if sys.stdout.isatty() else text


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Rows under their headings; numbers to the right; `empty` where there are none.

    What is wider than the terminal comes row by row, a value a line: wrapped lines have lost their headings, and
    nothing is cut, for a number without its last digits is wrong.
    """
    rows = list(rows)
    drawn = table_text(columns, rows)
    if _fits(drawn):
        print(drawn or empty, end="" if drawn else "\n")
        return
    for number, row in enumerate(rows):
        print(end="\n" if number else "")
        print_facts(dict(zip(columns, row, strict=True)))


def fits_terminal(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> bool:
    """Whether the terminal need not wrap a table; a pipe takes any."""
    return _fits(table_text(columns, rows))


def _fits(drawn: str) -> bool:
    if not sys.stdout.isatty():
        return True
    from rich.text import Text

    width = get_terminal_size().columns
    return all(Text.from_ansi(line).cell_len <= width for line in drawn.splitlines())


def table_text(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The lines of a table; none where there are no rows. A row that its headings do not fit is a ValueError."""
    cells = [[_cell(value) for _, value in zip(columns, row, strict=True)] for row in rows]
    if not cells:
        return ""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        numeric = all(_NUMBER.fullmatch(row[index]) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    console = Console(width=_ANY_WIDTH, markup=False, emoji=False, highlight=False, soft_wrap=True)
    with console.capture() as drawn:  # rich has its own ideas about a reader that has gone
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines())


def print_facts(facts: Mapping[str, Any]) -> None:
    """Name and value, one a line."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name:<{width}}  {_cell(value)}")


def safe(text: str) -> str:
    """Text from outside for a terminal: control characters become visible, so that no message moves the cursor."""
    return printable(text) if sys.stdout.isatty() else text


def complain(text: str) -> None:
    """A line on standard error, where what went wrong is told in words of others, too."""
    print(printable(text) if sys.stderr.isatty() else text, file=sys.stderr)


def _cell(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return safe(str(value))
