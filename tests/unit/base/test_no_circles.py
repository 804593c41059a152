"""Whoever reads a module need not read one that needs it back."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import rmqspark

SOURCES = Path(rmqspark.__file__).parent
IMPORT = re.compile(r"^\s*from (rmqspark\.[\w.]+) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
ONE_THING = "rmqspark.testing.sim."  # a world that is simulated, told in many files


def modules() -> dict[str, str]:
    """The text of each, by its name; but for the package itself, which has names of all others and needs none."""
    found = {}
    for path in SOURCES.rglob("*.py"):
        parts = ("rmqspark", *path.relative_to(SOURCES).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    del found["rmqspark"]
    return found


def needs(texts: dict[str, str]) -> dict[str, set[str]]:
    """What each imports, at its top, where a function needs it, or to name a type."""
    graph: dict[str, set[str]] = {}
    for module, text in texts.items():
        for package, names in IMPORT.findall(text):
            inside = {f"{package}.{name}" for name in re.findall(r"\w+", names)} & texts.keys()
            graph.setdefault(module, set()).update(inside or {package})
    return graph


def test_no_modules_need_each_other() -> None:
    """Nor for their types alone: who wants to know one would have to know all that are in the circle."""
    texts = {name: text for name, text in modules().items() if not name.startswith(ONE_THING)}
    assert len(texts) > 500
    TopologicalSorter(needs(texts)).prepare()


def test_a_circle_is_found() -> None:
    texts = {
        "rmqspark.a": "from rmqspark.b import (\n    B,\n)\n",
        "rmqspark.b": "def of() -> None:\n    from rmqspark import model\n    from rmqspark.c import d\n",
        "rmqspark.c.d": "if TYPE_CHECKING:\n    from rmqspark.a import A\n",
    }
    with pytest.raises(CycleError):
        TopologicalSorter(needs(texts)).prepare()
