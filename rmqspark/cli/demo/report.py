"""The demo's verdict: is what Spark wrote what pandas computes? A table and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.cli.demo.flights import CLOSING_TAG, CLOSING_TIME
from rmqspark.errors import MissingExtra

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from rmqspark.client.spark.audit import Finding

KEY = ["day", "carrier"]
VALUES = ["flights", "departed", "delay_minutes"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Rows per (day, carrier): how many are equal, and how many are missing, doubled or different."""

    equal: int
    missing: int
    unexpected: int
    doubled: int
    different: int
    flights: int

    @property
    def holds(self) -> bool:
        return not (self.missing or self.unexpected or self.doubled or self.different)


class Outcome(NamedTuple):
    """What stands where, and what the brokers recorded of it."""

    topic: pd.DataFrame
    table: pd.DataFrame
    unfinished: int  # the batch that was written when its driver died, and that Spark had not recorded
    batches: int
    findings: list[Finding]


def compare(actual: pd.DataFrame, expected: pd.DataFrame) -> Verdict:
    """Compares every row with pandas' own, number by number."""
    doubled = int(actual.duplicated(KEY).sum())
    joined = expected.merge(actual.drop_duplicates(KEY), on=KEY, how="outer", suffixes=("", "_actual"), indicator=True)
    both = joined[joined["_merge"] == "both"]
    same = (both[VALUES].to_numpy() == both[[f"{name}_actual" for name in VALUES]].to_numpy()).all(axis=1)
    return Verdict(
        equal=int(same.sum()),
        missing=int((joined["_merge"] == "left_only").sum()),
        unexpected=int((joined["_merge"] == "right_only").sum()),
        doubled=doubled,
        different=int((~same).sum()),
        flights=int(actual["flights"].sum()),
    )


def by_carrier(delays: pd.DataFrame) -> pd.DataFrame:
    """The year per carrier: flights, cancelled flights and the mean delay of those that left; most flights first."""
    year = delays.groupby("carrier", as_index=False)[VALUES].sum()
    year["cancelled"] = year["flights"] - year["departed"]
    year["mean_delay"] = (year["delay_minutes"] / year["departed"]).round(1)
    return year.sort_values("flights", ascending=False, ignore_index=True)


def draw(delays: pd.DataFrame, file: Path) -> None:
    """One picture: a day's mean delay over the year, and the week's. Raises MissingExtra without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtra("matplotlib", "demo") from None
    mpl.use("Agg")
    import pandas as pd
    from matplotlib import pyplot

    days = delays.groupby("day")[["delay_minutes", "departed"]].sum()
    days.index = pd.to_datetime(days.index)
    mean = days["delay_minutes"] / days["departed"]
    figure, axes = pyplot.subplots(figsize=(10, 4.5), layout="constrained")
    axes.plot(mean.index, mean, color="#b9c6d3", linewidth=1, label="a day")
    axes.plot(mean.index, mean.rolling(7, center=True).mean(), color="#c8452b", linewidth=2, label="7 days' mean")
    axes.set_title("Departure delay from New York City, 2013: through a queue and Spark", loc="left")
    axes.set_ylabel("minutes")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=120)
    pyplot.close(figure)


def show(console: Console, outcome: Outcome, expected: pd.DataFrame, picture: Path, sent: int) -> bool:
    """Prints the year's table and the verdict; whether everything is there, once."""
    console.print(_year(outcome.topic))
    verdicts = {"topic": compare(outcome.topic, expected), "Delta table": compare(outcome.table, expected)}
    holds = all(verdict.holds for verdict in verdicts.values()) and not outcome.findings
    colour = "green" if holds else "red"
    for where, verdict in verdicts.items():
        console.print(
            f"[{colour}]{where}: {verdict.flights:,} of {sent:,} flights counted; {verdict.equal:,} rows (day and "
            f"carrier) equal to pandas', {verdict.different} different, {verdict.missing} missing, "
            f"{verdict.unexpected} that pandas has not, {verdict.doubled} doubled[/{colour}]"
        )
    for finding in outcome.findings:
        console.print(f"[red]{finding.kind} in batch {finding.version}: {finding.story}[/red]")
    n = outcome.unfinished
    console.print(
        f"The driver was killed when batch {n} was written and Spark had not recorded it (offsets/{n} was there, "
        f"commits/{n} was not). Started again, it ran batch {n} once more{': that added nothing' if holds else ''}."
    )
    console.print(
        f"One message more closed the stream (tag {CLOSING_TAG}, time {CLOSING_TIME}): it moved the watermark past "
        "every flight, so that Spark handed out the last days too."
    )
    console.print(f"Picture: {picture}")
    word = (
        f"Nothing lost, nothing doubled: {outcome.batches} batches, each there once."
        if holds
        else "It does not add up."
    )
    console.print(f"[bold {colour}]{word}[/bold {colour}]")
    return holds


def _year(delays: pd.DataFrame) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title="New York's departures of 2013, as Spark wrote them", title_justify="left")
    for name in ("carrier", "flights", "cancelled", "mean delay (min)"):
        table.add_column(name, justify="left" if name == "carrier" else "right")
    for row in by_carrier(delays).itertuples(index=False):
        table.add_row(row.carrier, f"{row.flights:,}", f"{row.cancelled:,}", f"{row.mean_delay:.1f}")
    return table
