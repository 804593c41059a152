"""docs/spark.md says what the code does, and what it names is tried."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqspark.sink.option_table import SINK_OPTIONS
from rmqspark.sink.schema import WRITTEN_COLUMNS
from rmqspark.source.option_table import SOURCE_OPTIONS
from rmqspark.source.values.schema import COLUMNS

if TYPE_CHECKING:
    from rmqspark.options import OptionTable

PAGE = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
WITH_SPARK = "\n".join(
    file.read_text(encoding="utf-8")
    for file in (Path(__file__).parents[2] / "spark").rglob("*.py")
    if file.name != "test_spark_errors.py"  # where options are refused
)


@pytest.mark.parametrize(("name", "options"), [("source", SOURCE_OPTIONS), ("sink", SINK_OPTIONS)])
def test_every_option_is_in_the_docs(name: str, options: OptionTable) -> None:
    """The tables of options are made from the options: `python docs/generate.py` renews them."""
    begin, end = f"<!-- options: {name} -->\n", f"\n<!-- end: {name} -->"
    assert PAGE.split(begin)[1].split(end)[0] == options.markdown()


@pytest.mark.parametrize(
    "name", [name for table in (SOURCE_OPTIONS, SINK_OPTIONS) for option in table.options for name in option.names]
)
def test_every_option_is_given_to_a_real_spark(name: str) -> None:
    """Under each of its names, by some test in tests/spark that is not about mistakes: as `option("name", …)`, `name=…`
    or in a dictionary."""
    as_word = name.replace(".", "__")
    assert re.search(rf"""["']{re.escape(name)}["']\s*[,:]|\b{as_word}\s*=[^=]|\b{as_word} '""", WITH_SPARK)


@pytest.mark.parametrize("column", [*COLUMNS, *WRITTEN_COLUMNS])
def test_every_column_is_in_the_docs(column: str) -> None:
    """Each column that is read or written is described."""
    assert f"`{column}`" in PAGE
