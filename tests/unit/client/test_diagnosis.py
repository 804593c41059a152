"""Why a query is slow: figures in, findings out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqspark.client.administration.drain import seconds_to_catch_up
from rmqspark.client.spark.diagnosis import diagnose
from rmqspark.protocol.bodies.queries import BatchFigures, KnownQuery, QueryQueue, QueryReport


def query(
    *rows: int, behind: int = 0, phases: dict[str, int] | None = None, every_ms: int = 10_000, **fields: Any
) -> KnownQuery:
    """A query whose last batch read so many rows of each queue, on two brokers by turns."""
    queues = [
        QueryQueue("g", "orders", f"broker-{'ab'[at % 2]}", at // 2, 0, count, count + behind // len(rows))
        for at, count in enumerate(rows)
    ]
    history = fields.pop("history", [BatchFigures(8, 100_000 - every_ms, 300, sum(rows), behind)])
    report = QueryReport(
        "q",
        "run",
        batchId=9,
        batchAt=100_000,
        durationMs={"triggerExecution": 300, **(phases or {})},
        inputRows=fields.pop("input_rows", sum(rows)),
        cores=fields.pop("cores", 2),
        queues=queues,
        **fields,
    )
    return KnownQuery("q", report, history)


HISTORY = [BatchFigures(at, at * 10_000, 300, 100, 10_000 * at) for at in range(1, 9)]
CASES = {
    "nothing": (query(50_000, 50_000), []),
    "idle": (query(0, 0), []),
    "fixed-cost": (query(60, 60, every_ms=310), ["fixed-cost"]),
    "small-limit": (query(60, 60, behind=10_000, every_ms=310), ["small-limit"]),
    "small-limit-behind-a-filter": (query(60, 60, behind=10_000, every_ms=310, input_rows=0), ["small-limit"]),
    "skewed-queues": (query(90_000, 100, 100, 100, 2_000, 20_000), ["skewed-queues"]),
    "skewed-two": (query(1_900, 5, cores=1), ["skewed-queues", "one-broker"]),
    "skewed-three": (query(5_000, 0, 5, cores=1), ["skewed-queues", "one-broker"]),
    "few-queues": (query(40_000, 40_000, cores=8), ["few-queues"]),
    "one-broker": (query(5_000, 10, 5_000, 0, cores=2), ["one-broker"]),
    "falling-behind": (query(50_000, 50_000, behind=90_000, history=HISTORY), ["falling-behind"]),
    "slow-offsets": (query(50_000, 50_000, phases={"latestOffset": 600, "triggerExecution": 900}), ["slow-offsets"]),
    "slow-checkpoint": (query(50_000, 50_000, phases={"walCommit": 500, "triggerExecution": 900}), ["slow-checkpoint"]),
    "small-batch": (query(5, 5, phases={"walCommit": 190, "triggerExecution": 543}), []),
    "no-queues": (query(input_rows=5, groups=["g"]), ["no-queues"]),
    "failed": (query(50_000, 50_000, state="failed", error="Broken\n at x"), ["failed"]),
    "failed-in-silence": (query(50_000, 50_000, state="failed", error=""), ["failed"]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_told_from_the_figures(name: str) -> None:
    """What is wrong is named, and nothing else is."""
    known, kinds = CASES[name]
    found = diagnose(known, silent_ms=0)
    assert [advice.kind for advice in found] == kinds
    assert all(advice.story.endswith((".", "Broken")) and advice.advice.endswith((".", ").")) for advice in found)


def test_a_silent_driver_and_a_missing_listener_are_told() -> None:
    """A query nobody speaks for is not called healthy."""
    assert [advice.kind for advice in diagnose(query(50_000, 50_000), 61_000)] == ["silent"]
    assert [advice.kind for advice in diagnose(KnownQuery("q"), 0)] == ["no-listener"]


@given(
    st.lists(st.integers(0, 10**12), max_size=5),
    st.integers(0, 10**12),
    st.dictionaries(st.sampled_from(["latestOffset", "walCommit", "triggerExecution"]), st.integers(0, 10**9)),
    st.integers(0, 64),
)
def test_any_figures_have_a_diagnosis(rows: list[int], behind: int, phases: dict[str, int], cores: int) -> None:
    """No figures make it fail, however odd."""
    for advice in diagnose(query(*rows, behind=behind if rows else 0, phases=phases, cores=cores), 0):
        assert advice.story


@pytest.mark.parametrize(
    ("lag", "behind_ms", "rate", "seconds"),
    [
        (0, 0, None, 0),
        (1_000, 10_000, 200.0, 10),  # 100 a second come in, 200 go out
        (1_000, 10_000, 100.0, None),  # as many come in as go out
        (1_000, 10_000, None, None),
        (1_000, None, 200.0, None),
        (10, 1, 20.0, 1),  # stored just now: at least a second counts
    ],
)
def test_when_it_is_caught_up(lag: int, behind_ms: int | None, rate: float | None, seconds: int | None) -> None:
    """What comes in is weighed against what is consumed; what is unknown stays so."""
    assert seconds_to_catch_up(lag, behind_ms, rate) == seconds
