"""From where on a figure is bad."""

from __future__ import annotations

import pytest

from rmqspark.cli.thresholds import Thresholds, worst
from rmqspark.errors import InvalidArgument


@pytest.mark.parametrize(
    ("warn", "crit", "parsed"),
    [
        ("30s", "5m", Thresholds(30_000, 300_000, are_times=True)),
        ("500ms", "1d", Thresholds(500, 86_400_000, are_times=True)),
        ("1000", " 10000 ", Thresholds(1000, 10_000, are_times=False)),
        ("0", "0", Thresholds(0, 0, are_times=False)),
    ],
)
def test_thresholds_as_people_type_them(warn: str, crit: str, parsed: Thresholds) -> None:
    """Times, or numbers."""
    assert Thresholds.parse(warn, crit) == parsed


@pytest.mark.parametrize(
    ("warn", "crit", "story"),
    [
        ("30s", "1000", "do not go together"),
        ("5m", "30s", "--crit 30s is less than --warn 5m"),
        ("soon", "5m", "--warn 'soon' is neither a time nor a number"),
        ("1", "-1", "--crit '-1' is neither"),
        ("1.5", "2", "--warn '1.5' is neither"),
    ],
)
def test_thresholds_that_are_none(warn: str, crit: str, story: str) -> None:
    """The error names the option."""
    with pytest.raises(InvalidArgument, match=story):
        Thresholds.parse(warn, crit)


def test_a_figure_at_a_threshold_has_reached_it() -> None:
    """What is not known is neither good nor bad."""
    limits = Thresholds(10, 20, are_times=False)
    assert [limits.state(figure) for figure in (9, 10, 19, 20, None)] == [
        "ok",
        "warning",
        "warning",
        "critical",
        "unknown",
    ]


def test_states_taken_together() -> None:
    """As monitoring does: a warning says more than what is not known."""
    assert worst(["ok", "unknown"]) == "unknown"
    assert worst(["unknown", "warning", "ok"]) == "warning"
    assert worst(["warning", "critical"]) == "critical"
    assert worst([]) == "ok"
