"""The demo's verdict: every way in which Spark's rows may be wrong is seen."""

from __future__ import annotations

import pandas as pd
import pytest

from rmqspark.cli.demo.report import VALUES, Verdict, by_carrier, compare

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
