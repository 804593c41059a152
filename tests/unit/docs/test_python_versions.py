"""Which Pythons there are tests on is said in several places, and in all of them alike."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CLASSIFIER = "Programming Language :: Python :: "


def test_all_that_is_said_of_pythons_is_the_same() -> None:
    """Who installs it, who reads about it and who works on it are told of the same versions, and of the same oldest."""
    classifiers = PROJECT["project"]["classifiers"]
    oldest, *between, newest = [line.removeprefix(CLASSIFIER) for line in classifiers if line.startswith(CLASSIFIER)]
    listed = f"Python {', '.join([oldest, *between])} and {newest}"
    assert {page: listed in (ROOT / page).read_text() for page in ("README.md", "constraints.txt")} == {
        "README.md": True,
        "constraints.txt": True,
    }
    assert PROJECT["project"]["requires-python"] == f">={oldest}"
    assert PROJECT["tool"]["mypy"]["python_version"] == oldest
    assert PROJECT["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert f"Python {oldest} or newer is missing" in (ROOT / "Makefile").read_text()
