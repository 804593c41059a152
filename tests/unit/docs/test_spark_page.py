"""docs/spark.md says what the code does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqspark.sink.options import SINK_OPTIONS
from rmqspark.sink.schema import WRITTEN_COLUMNS
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.source.schema import COLUMNS

if TYPE_CHECKING:
    from rmqspark.options import OptionTable

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "options"), [("source", SOURCE_OPTIONS), ("sink", SINK_OPTIONS)])
def test_every_option_is_in_the_docs(name: str, options: OptionTable) -> None:
    """The tables of options are made from the options: `python docs/generate.py` renews them."""
    begin, end = f"<!-- options: {name} -->\n", f"\n<!-- end: {name} -->"
    assert PAGE.split(begin)[1].split(end)[0] == options.markdown()


@pytest.mark.parametrize("column", [*COLUMNS, *WRITTEN_COLUMNS])
def test_every_column_is_in_the_docs(column: str) -> None:
    """Each column that is read or written is described."""
    assert f"`{column}`" in PAGE
