"""docs/security.md: no requirement is left out, and what is said to show one is there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS: Final = {
    cells[0]: cells
    for row in re.findall(r"^\| [SF]\d+ \|.*\|$", PAGE, re.MULTILINE)
    for cells in [[cell.strip() for cell in row.strip("|").split(" | ")]]
}
WANTED: Final = [*(f"S{number}" for number in range(1, 21)), *(f"F{number}" for number in range(1, 8))]


@cache
def functions_of(file: str) -> set[str]:
    found = [path for path in (ROOT / "tests").rglob(f"*{Path(file).name}") if path.as_posix().endswith(f"/{file}")]
    assert len(found) == 1, f"{file}: {found}"
    return set(re.findall(r"^(?:async )?def (test_\w+)", found[0].read_text(encoding="utf-8"), re.MULTILINE))


def test_every_requirement_is_there() -> None:
    """In order, once, with something in every cell."""
    assert list(ROWS) == WANTED
    assert [number for number, cells in ROWS.items() if len(cells) != 5 or not all(cells)] == []


@pytest.mark.parametrize("number", WANTED)
def test_what_shows_it_is_there(number: str) -> None:
    """Each test that is named, by a name that only it has."""
    named = re.findall(r"`((?:\w+/)*test_\w+\.py)(?:::(test_\w+))?`", ROWS[number][3])
    assert named
    for file, function in named:
        assert functions_of(file)
        assert not function or function in functions_of(file), f"{file}::{function}"
