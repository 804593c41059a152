"""What a run of the benchmarks says of its figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from figures import Comparison, Figure, Usage, comparisons, ratio, result
from turns import Way, in_turns


def test_a_ratio_pairs_the_runs_of_each_turn() -> None:
    """A machine that is slow in one turn is slow for both sides of it, and the ratio does not show that."""
    ours = Figure("ours", 100, [1.0, 10.0, 1.0])
    theirs = Figure("theirs", 100, [2.0, 20.0, 3.0])
    assert ratio(ours, to=theirs) == (2.0, 2.0, 3.0)


def test_rates_are_of_the_median_run() -> None:
    """The lowest rate is that of the longest run."""
    figure = Figure("read", 1_000, [2.0, 1.0, 4.0])
    assert (figure.rows_per_second, figure.lowest, figure.highest) == (500, 250, 1_000)


def test_a_comparison_shows_both_sides_their_ratio_and_what_is_asked() -> None:
    """One line of the table, and what a row costs each side."""
    usage = [Usage(jvm=1.0, python=0.5, servers=0.25)]
    line = Comparison("read", 1024, Figure("read", 1_000_000, [0.5], usage), Figure("k", 1_000_000, [1.0], usage), 1.6)
    table = comparisons([line.as_json()]).splitlines()
    assert table[2] == "| read | 1 KiB | 2.00 M (2.00–2.00) | 1.00 M (1.00–1.00) | **2.00** | 2.00–2.00 | ≥ 1.6 |"
    assert table[6:] == [f"| read | 1 KiB | {side} | 1.00 | 0.50 | 0.25 | 1.75 µs |" for side in ("ours", "kafka")]


def test_a_path_without_a_peer_has_a_line_too() -> None:
    """What nobody else has is shown without a ratio."""
    line = Comparison("direct read", 100, Figure("direct read", 10, [1.0])).as_json()
    assert comparisons([line]).splitlines()[2] == "| direct read | 100 B | 0.00 M (0.00–0.00) | – | – | – |  |"


def test_json_has_every_run() -> None:
    """Whoever doubts a median can look at what it is of."""
    told = result(Figure("read", 10, [1.0, 2.0], [Usage(jvm=1.0), Usage(jvm=3.0)]))
    assert told["seconds"] == [1.0, 2.0]
    assert [run["jvm"] for run in told["usage"]] == [1.0, 3.0]
    assert told["us_a_row"] == {"jvm": 200_000, "python": 0, "servers": 0}


def moved(log: list[str], name: str, came: int = 5) -> Way:
    return Way(name, 5, run=log.append, count=lambda _: came, target=lambda: name)


def test_ways_take_turns_in_alternating_order() -> None:
    """The warm-up does not count; what comes first in one turn comes last in the next."""
    log: list[str] = []
    figures = in_turns([moved(log, "a"), moved(log, "b")], repeat=2, timeout_s=10, settle=lambda: None)
    assert log == ["b", "a", "a", "b", "b", "a"]
    assert [(figure.path, len(figure.seconds), len(figure.usage)) for figure in figures] == [("a", 2, 2), ("b", 2, 2)]


def test_what_is_done_ahead_of_a_run_is_not_in_its_figure() -> None:
    """A way may be warmed before each run."""
    log: list[str] = []
    (figure,) = in_turns(
        [replace(moved(log, "run"), ahead=lambda: log.append("ahead"))], repeat=2, timeout_s=10, settle=lambda: None
    )
    assert log == ["ahead", "run"] * 3
    assert len(figure.seconds) == 2


@pytest.mark.parametrize("came", [4, 6])
def test_a_run_that_loses_or_doubles_rows_has_no_figure(came: int) -> None:
    """Speed that comes of leaving work out is not speed."""
    with pytest.raises(SystemExit, match=f"short: {came} rows arrived of 5."):
        in_turns([moved([], "short", came)], repeat=1, timeout_s=10, settle=lambda: None)


def failing(log: list[str], fails: int, tries: int) -> Way:
    """Fails so many times."""

    def run(target: str) -> None:
        log.append(target)
        if len(log) <= fails:
            raise RuntimeError("out of order\nwith a trace of many lines" if len(log) > 1 else "")

    return Way("shaky", 5, run, count=lambda _: 5, target=lambda: f"target-{len(log)}", tries=tries)


def test_a_run_that_fails_is_made_again_with_a_target_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """One failure of a peer's does not throw away an hour of figures, and is told."""
    log: list[str] = []
    (figure,) = in_turns([failing(log, 2, tries=3)], repeat=1, timeout_s=10, settle=lambda: None)
    assert log == ["target-0", "target-1", "target-2", "target-3"]
    assert len(figure.seconds) == 1
    told = capsys.readouterr().err
    assert "shaky failed 1 of 3 times, and is run again: RuntimeError('')\n" in told
    assert "shaky failed 2 of 3 times, and is run again: out of order\n" in told


@pytest.mark.parametrize("tries", [1, 2])
def test_a_run_that_fails_every_time_ends_the_benchmark(tries: int) -> None:
    """Ours may not fail once."""
    with pytest.raises(RuntimeError):
        in_turns([failing([], 5, tries)], repeat=1, timeout_s=10, settle=lambda: None)
