"""What `rmq demo` needs is looked for before it begins."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from rmqspark.cli.demo import verb
from rmqspark.errors import MissingExtra


@pytest.mark.parametrize(("module", "library"), verb._LIBRARIES.items())
def test_what_is_missing_is_named_with_the_extra_that_brings_it(
    module: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after two minutes, when the picture is to be drawn, nor as the last words of Spark's driver."""

    def found(name: str) -> Any:
        return None if name == module else find_spec("json")

    monkeypatch.setattr(verb, "find_spec", found)
    with pytest.raises(MissingExtra, match=f"{library} is not installed") as refused:
        verb.require_libraries()
    assert refused.value.extra == "demo"
