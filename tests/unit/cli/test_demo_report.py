"""The demo's verdict: every way in which Spark's rows may be wrong is seen."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from rmqspark.cli.demo.report import VALUES, Outcome, Verdict, by_carrier, compare, draw, show
from rmqspark.client.spark.audit import Finding

EXPECTED = pd.DataFrame(
    [("2013-01-01", "AA", 3, 2, 40), ("2013-01-01", "UA", 5, 5, -7), ("2013-01-02", "AA", 1, 0, 0)],
    columns=["day", "carrier", *VALUES],
)


def changed(row: int, **values: object) -> pd.DataFrame:
    """The right rows, but for one."""
    frame = EXPECTED.copy()
    for name, value in values.items():
        frame.loc[row, name] = value
    return frame


def test_the_right_rows_hold_in_any_order() -> None:
    """Spark gives rows in no order; that is no difference."""
    verdict = compare(EXPECTED.iloc[::-1], EXPECTED)
    assert verdict == Verdict(equal=3, missing=0, unexpected=0, doubled=0, different=0, flights=9)
    assert verdict.holds


@pytest.mark.parametrize(
    ("actual", "seen"),
    [
        (EXPECTED.iloc[:2], {"missing": 1}),
        (EXPECTED.iloc[:0], {"missing": 3}),
        (pd.concat([EXPECTED, EXPECTED.iloc[:1]]), {"doubled": 1}),
        (pd.concat([EXPECTED, EXPECTED, EXPECTED]), {"doubled": 6}),
        *[(changed(1, **{name: 99}), {"different": 1}) for name in VALUES],
        (changed(2, day="2013-01-03"), {"missing": 1, "unexpected": 1}),
    ],
    ids=["one missing", "none there", "one twice", "all thrice", *VALUES, "another day"],
)
def test_what_is_wrong_is_counted(actual: pd.DataFrame, seen: dict[str, int]) -> None:
    """A row that is missing, doubled, changed or invented ends the demo with an error."""
    verdict = compare(actual, EXPECTED)
    assert not verdict.holds
    wrong = {name: getattr(verdict, name) for name in ("missing", "unexpected", "doubled", "different")}
    assert {name: count for name, count in wrong.items() if count} == seen


def test_the_year_of_a_carrier() -> None:
    """Most flights first; cancelled ones count as flights and not in the mean delay."""
    year = by_carrier(EXPECTED)
    rows = year[["carrier", "flights", "cancelled", "mean_delay"]].itertuples(index=False)
    assert [tuple(row) for row in rows] == [("UA", 5, 0, -1.4), ("AA", 4, 2, 20.0)]


LOST = Finding("gap", "demo-delays", 3, 2, "rows 5 to 7 of broker-a are not there")


@pytest.mark.parametrize(
    ("topic", "table", "findings", "said"),
    [
        (EXPECTED, EXPECTED, [], "Nothing lost, nothing doubled: 4 batches, each there once."),
        (changed(1, flights=6), EXPECTED, [], "topic: 10 of 9 flights counted; 2 rows"),
        (EXPECTED, changed(2, day="2013-01-03"), [], "1 missing, 1 that pandas has not, 0 doubled"),
        (EXPECTED, EXPECTED, [LOST], "gap in batch 3: rows 5 to 7 of broker-a are not there"),
    ],
    ids=["right", "topic", "table", "audit"],
)
def test_the_verdict_is_told(topic: pd.DataFrame, table: pd.DataFrame, findings: list[Finding], said: str) -> None:
    """A table of the year, what of the rows is right, how the driver died, and what brought the last days out."""
    printed = io.StringIO()
    console = Console(file=printed, width=300)
    holds = show(console, Outcome(topic, table, 2, 4, findings), EXPECTED, Path("out/delays.png"), 9)
    text = printed.getvalue()
    assert holds == (said.startswith("Nothing lost"))
    assert ("It does not add up." in text) != holds
    for words in (
        said,
        "UA",
        "mean delay (min)",
        "batch 2 once more",
        "tag CLOSING, time 2014-01-31",
        "out/delays.png",
    ):
        assert words in text


def test_the_year_is_drawn(tmp_path: Path) -> None:
    """One PNG of some size."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "delays.png"
    draw(EXPECTED, picture)
    head = picture.read_bytes()[:24]
    assert (head[:8], head[12:16]) == (b"\x89PNG\r\n\x1a\n", b"IHDR")
    assert (int.from_bytes(head[16:20]), int.from_bytes(head[20:24])) == (1200, 540)
