"""Lines over time, as SVG: with a summary in words, a table of the same numbers, units and the zone. Pure.

Nothing moves, and the colours are the text's: it is as readable in the dark, in print, and with forced colours.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Final

from rmqspark.admin.console.histories import Series
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.words import UNKNOWN, clock_time, moment

_WIDTH, _HEIGHT, _EDGE = 640, 120, 3  # as wide as there is room; lines keep their width
_MOST_ROWS: Final = 30


def line_chart(title: str, unit: str, series: Series, zone: tzinfo, say: Callable[[float], str]) -> Node:
    """`say` writes a number; the unit stands in the title of the axis."""
    known = [(at_ms, value) for at_ms, value in series if value is not None]
    if len(known) < 2:
        return h("p", f"{title}: measured from now on; a line is shown here in a few seconds.", class_="note")
    summary = summed_up(title, unit, series, zone, say)
    return h(
        "figure",
        h("figcaption", h("strong", title), h("span", f"{unit}, {_zone_name(zone)}", class_="note")),
        h("div", h("span", say(max(value for _, value in known))), class_="ends", aria_hidden="true"),
        _picture(summary, series),
        h("div", *(h("span", clock_time(at_ms, zone)) for at_ms in (series[0][0], series[-1][0])), class_="ends"),
        h("p", summary, class_="note"),
        _as_table(title, unit, series, zone, say),
        class_="chart",
    )


def summed_up(title: str, unit: str, series: Series, zone: tzinfo, say: Callable[[float], str]) -> str:
    """What the line says to who cannot see it."""
    known = [(at_ms, value) for at_ms, value in series if value is not None]
    least, most = min(value for _, value in known), max(value for _, value in known)
    first, last = known[0][1], known[-1][1]
    way = "steady" if first == last else "up" if last > first else "down"
    gaps = len(series) - len(known)
    since = clock_time(known[0][0], zone)
    unknown = f" Unknown at {gaps} of {len(series)} times." if gaps else ""
    now = f"{title} now {say(last)} {unit}, {way} from {say(first)} at {since}"
    return f"{now}; between {say(least)} and {say(most)}.{unknown}"


def _picture(summary: str, series: Series) -> Node:
    begin_ms, end_ms = series[0][0], series[-1][0]
    most = max(value for _, value in series if value is not None) or 1

    def place(at_ms: int, value: float) -> str:
        x = (at_ms - begin_ms) / max(1, end_ms - begin_ms) * _WIDTH
        y = _EDGE + (1 - value / most) * (_HEIGHT - 2 * _EDGE)
        return f"{x:.1f},{y:.1f}"

    lines = [
        h("polyline", points=" ".join(place(*point) for point in piece), class_="line") for piece in _pieces(series)
    ]
    floor = _HEIGHT - 1
    return h(
        "svg",
        h("line", x1=0, y1=floor, x2=_WIDTH, y2=floor, class_="axis"),
        h("line", x1=0, y1=_EDGE, x2=_WIDTH, y2=_EDGE, class_="grid"),
        *lines,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=summary,
    )


def _pieces(series: Series) -> list[list[tuple[int, float]]]:
    """A line is broken where nothing was known."""
    pieces: list[list[tuple[int, float]]] = [[]]
    for at_ms, value in series:
        if value is not None:
            pieces[-1].append((at_ms, value))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _as_table(title: str, unit: str, series: Series, zone: tzinfo, say: Callable[[float], str]) -> Node:
    step = max(1, len(series) // _MOST_ROWS)
    rows = [
        h("tr", h("td", moment(at_ms, zone)), h("td", UNKNOWN if value is None else say(value), class_="number"))
        for at_ms, value in series[::-1][::step]
    ]
    head = h("tr", h("th", f"Time, {_zone_name(zone)}", scope="col"), h("th", unit, scope="col", class_="number"))
    table = h("table", h("caption", title, class_="offscreen"), h("thead", head), h("tbody", *rows))
    return h(
        "details",
        h("summary", "As a table"),
        h("div", table, class_="scroll", tabindex=0, role="region", aria_label=title),
    )


def _zone_name(zone: tzinfo) -> str:
    return "UTC" if zone is UTC else str(zone)
