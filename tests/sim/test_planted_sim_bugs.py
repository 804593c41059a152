"""Does the net catch fish? Each planted bug must be met by the run of one seed, which without it finds nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqspark.testing.sim.runs import run

from .planted_bugs import BUGS

if TYPE_CHECKING:
    from .planted_bugs import PlantedBug

pytestmark = [pytest.mark.faults]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_planted_bug_is_caught(bug: PlantedBug, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others have lost messages by, outside the store, breaks a law."""
    bug.plant(monkeypatch)
    assert run(bug.seed).violations


def test_the_page_names_each_with_its_seed() -> None:
    """docs/reliability.md, in its table."""
    page = Path(__file__).parents[2] / "docs" / "reliability.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for bug in BUGS:
        assert any(bug.name in row and row.endswith(f" | {bug.seed} |") for row in rows), bug.name
