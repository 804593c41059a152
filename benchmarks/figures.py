"""Figures of runs, how they compare, and the tables that show them."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Usage(NamedTuple):
    """Seconds on a processor, of the user and of the system, by who took them."""

    jvm: float = 0.0  # Spark's
    python: float = 0.0  # the driver and the workers
    servers: float = 0.0

    def since(self, earlier: Usage) -> Usage:
        return Usage(*(now - then for now, then in zip(self, earlier, strict=True)))


@dataclass(frozen=True)
class Figure:
    """One measured path."""

    path: str
    rows: int
    seconds: list[float]  # of each run
    usage: list[Usage] = field(default_factory=list)  # of each run, where it was looked at

    @property
    def rows_per_second(self) -> float:
        """Of the median run."""
        return self.rows / statistics.median(self.seconds)

    @property
    def lowest(self) -> float:
        return self.rows / max(self.seconds)

    @property
    def highest(self) -> float:
        return self.rows / min(self.seconds)

    def us_a_row(self) -> Usage:
        """Microseconds on a processor that a row takes, each the median of the runs."""
        return Usage(*(statistics.median(seconds) / self.rows * 1e6 for seconds in zip(*self.usage, strict=True)))


class Ratio(NamedTuple):
    """How many times as fast one path is as another, turn by turn: each turn has its own."""

    median: float
    lowest: float
    highest: float


def ratio(figure: Figure, to: Figure) -> Ratio:
    """Of rows a second; the two took turns, the same number of them."""
    rates = [
        (figure.rows / seconds) / (to.rows / others) for seconds, others in zip(figure.seconds, to.seconds, strict=True)
    ]
    return Ratio(statistics.median(rates), min(rates), max(rates))


@dataclass(frozen=True)
class Comparison:
    """A line of a table: a path of ours, the peer's, if there is one, and what is asked of us."""

    path: str
    body_bytes: int
    ours: Figure
    theirs: Figure | None = None
    asked: float | None = None  # times the peer's rows a second

    def as_json(self) -> dict[str, Any]:
        compared = {} if self.theirs is None else {"kafka": result(self.theirs), "ratio": self._ratio()}
        told = {"path": self.path, "body_bytes": self.body_bytes, "ours": result(self.ours), **compared}
        return told if self.asked is None else told | {"asked": self.asked}

    def _ratio(self) -> dict[str, float]:
        assert self.theirs is not None
        return {name: round(value, 3) for name, value in ratio(self.ours, self.theirs)._asdict().items()}


def result(figure: Figure) -> dict[str, Any]:
    """As JSON has it."""
    rates = {"rows_per_second": figure.rows_per_second, "lowest": figure.lowest, "highest": figure.highest}
    measured: dict[str, Any] = {name: round(rate) for name, rate in rates.items()}
    if figure.usage:
        measured["us_a_row"] = {name: round(us, 3) for name, us in figure.us_a_row()._asdict().items()}
    return asdict(figure) | {"usage": [usage._asdict() for usage in figure.usage]} | measured


# --- Markdown --------------------------------------------------------------------------------------------------------


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is words and whose others are numbers."""
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparisons(measured: Sequence[dict[str, Any]]) -> str:
    """Rows a second beside the peer's, then what a row costs; of comparisons as JSON has them."""
    titles = ("path", "body", "ours, rows/s", "Kafka, rows/s", "ours / Kafka", "lowest–highest", "asked for")
    costs = ("processor time a row", "body", "side", "Spark's JVM", "Python", "servers", "in all")
    return f"{markdown(titles, map(_compared, measured))}\n\n{markdown(costs, _costs(measured))}"


def _compared(line: dict[str, Any]) -> list[str]:
    cells = [line["path"], _size(line["body_bytes"]), rate(line["ours"])]
    cells.append(rate(line["kafka"]) if "kafka" in line else "–")
    if "ratio" in line:
        times = line["ratio"]
        cells += [f"**{times['median']:.2f}**", f"{times['lowest']:.2f}–{times['highest']:.2f}"]
    else:
        cells += ["–", "–"]
    return [*cells, f"≥ {line['asked']:g}" if "asked" in line else ""]


def _costs(measured: Sequence[dict[str, Any]]) -> Iterable[list[str]]:
    for line in measured:
        for side in ("ours", "kafka"):
            if us := line.get(side, {}).get("us_a_row"):
                cells = [f"{us[of]:.2f}" for of in Usage._fields]
                yield [line["path"], _size(line["body_bytes"]), side, *cells, f"{sum(us.values()):.2f} µs"]


def rate(figure: dict[str, Any]) -> str:
    """Millions of rows a second of a figure as JSON has it: 1.49 M (1.47–1.51)."""
    median, lowest, highest = (figure[name] / 1e6 for name in ("rows_per_second", "lowest", "highest"))
    return f"{median:.2f} M ({lowest:.2f}–{highest:.2f})"


def _size(body_bytes: int) -> str:
    return f"{body_bytes // 1024} KiB" if body_bytes % 1024 == 0 else f"{body_bytes} B"
