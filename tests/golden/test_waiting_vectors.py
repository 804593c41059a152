"""Vectors of what is not built yet. They wait here for their module, and make themselves heard when it comes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.golden
_HERE = Path(__file__).parent

# kind of vector → the module whose tests will take it; test_every_kind_has_a_test then asks for it here no longer
WAITING = {
    "bloom": "rmqspark.protocol.bloom",
    "timer": "rmqspark.broker.timer",
}


@pytest.mark.parametrize("kind", WAITING)
def test_a_vector_waits_only_as_long_as_its_module_is_missing(kind: str) -> None:
    """Whoever adds the module takes its vectors into its tests and off this list."""
    assert find_spec(WAITING[kind]) is None, f"{WAITING[kind]} is here: prove tests/golden/{kind} with it"


def test_every_kind_has_a_test() -> None:
    """No folder of vectors is forgotten: a test names it, or it waits."""
    tests = "".join(file.read_text() for file in _HERE.parent.rglob("test_*.py") if file != Path(__file__))
    kinds = {file.parent.name for file in _HERE.rglob("*.json")}
    unnamed = {kind for kind in kinds - WAITING.keys() if f'"{kind}"' not in tests}
    assert not unnamed
