"""`make bench`: its options, and what it shows when not everything went well."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest
from given import LARGE, SMALL, Given
from hypothesis import given as given_any
from hypothesis import strategies as st
from parts import PARTS
from run import tables
from shares import table as shares_table
from spark_scale import middle
from stock_clients import CONSUMER, PRODUCER, Program, rates_of
from stock_clients import table as clients_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("given", [Given(), Given(rows=7, repeat=1, fresh_memory=True)])
def test_a_part_is_given_what_the_command_was(given: Given) -> None:
    """The process of a part reads the options that the first one writes for it."""
    parser = argparse.ArgumentParser()
    Given.add_options(parser)
    assert Given.of(parser.parse_args(given.as_options())) == given


def test_large_bodies_are_fewer() -> None:
    """A quarter of the rows, so that a run does not take ten times as long."""
    given = Given(rows=1_000)
    assert (given.rows_of(SMALL), given.rows_of(LARGE)) == (1_000, 250)


def test_a_part_that_failed_leaves_the_others_their_tables() -> None:
    """What was measured is shown, and beside it what was not, and why."""
    starts = [{"what": "import", "unit": "s", "required": 0.15, "median": 0.01, "lowest": 0.01, "highest": 0.02}]
    shown = tables({"parts": {"read": {"failed": "interrupted"}, "start": {"measured": starts}}})
    assert f"## {PARTS['read'].title}\n\nNo figures: interrupted." in shown
    assert "| import | 0.010 s | 0.010–0.020 | ≤ 0.15 s |" in shown


@pytest.mark.parametrize(
    ("program", "printed", "expected"),
    [
        (PRODUCER, "Send TPS: 41234 Max RT(ms): 20\nCurrent Time: now | Send TPS: 56789 | Max RT", [41_234, 56_789]),
        (CONSUMER, "Current Time: now | Consume TPS: 61000 | AVG(B2C) RT(ms):   3.100", [61_000]),
        (PRODUCER, "No route info of this topic", []),
    ],
)
def test_the_rates_of_stock_clients_are_what_they_print(
    tmp_path: Path, program: Program, printed: str, expected: list[int]
) -> None:
    """One for every second, in their order."""
    output = tmp_path / "client.log"
    output.write_text(printed)
    assert rates_of(program, output) == expected


def test_clients_are_compared_turn_by_turn() -> None:
    """Medians and ranges of each side, and of their ratios."""
    line = {"path": "sends alone", "client": "Producer", "rmqspark": [20, 40, 60], "rocketmq": [10, 40, 20]}
    shown = clients_table([line]).splitlines()[-1]
    assert shown == "| sends alone: Producer | 40 (20–60) | 20 (10–40) | **2.00** | 1.00–3.00 |"


def test_shares_are_told_in_times_of_one() -> None:
    """Twice the brokers and executors, twice the rows."""
    lines = [{"count": count, "write": [count * 100], "read": [count * 200]} for count in (1, 2)]
    assert "| 2 of each | 200 (200–200) | 2.00 | 400 (400–400) | 2.00 |" in shares_table(lines)


@given_any(st.lists(st.integers(0, 10**9), min_size=1, max_size=64).filter(sum), st.data())
def test_the_middle_of_a_store_has_as_many_rows_as_were_asked_for(sizes: list[int], data: st.DataObject) -> None:
    """However unevenly queues are filled, no range goes beyond what is there."""
    rows = data.draw(st.integers(0, sum(sizes)))
    ranges = middle(dict(enumerate(sizes)), rows)
    assert sum(end - start for start, end in ranges.values()) == rows
    assert all(0 <= start <= end <= sizes[queue] for queue, (start, end) in ranges.items())
