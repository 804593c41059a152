"""Tables: semantic ones, each in a region of its own that scrolls, so that the page never does sideways. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.visits import Visit
from rmqspark.admin.console.words import UNKNOWN

_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[_Row]):
    """`sort` is by what rows are ordered when somebody asks for it, those of None last; `name` stands for the column in
    the address then. The first column of a table names its rows."""

    title: str
    cell: Callable[[_Row], Child]
    sort: Callable[[_Row], Any] | None = None
    name: str = ""
    is_number: bool = False


def table(
    visit: Visit,
    title: str,
    columns: Sequence[Column[_Row]],
    rows: Sequence[_Row],
    key: Callable[[_Row], str],
    *,
    by: str = "",
) -> Node:
    """Rows in the order that the address asks for (`?sort=lag`, `?sort=-lag`), else by column `by`, or as they come."""
    asked = visit.given.get("sort", by)
    chosen = next((each for each in columns if each.name and each.name == asked.removeprefix("-")), None)
    shown = rows if chosen is None else ordered(rows, chosen, descending=asked.startswith("-"))
    head = h("tr", *(_heading(visit, column, asked) for column in columns))
    body = [h("tr", *_cells(row, columns), key=key(row)) for row in shown]
    inner = h("table", h("caption", title, class_="offscreen"), h("thead", head), h("tbody", *body), key="table")
    return h("div", inner, class_="scroll", role="region", aria_label=title, tabindex=0)


def ordered(rows: Sequence[_Row], column: Column[_Row], *, descending: bool) -> list[_Row]:
    """What is unknown comes last either way."""
    sort = column.sort
    assert sort is not None
    known = [row for row in rows if sort(row) is not None]
    return sorted(known, key=sort, reverse=descending) + [row for row in rows if sort(row) is None]


def _heading(visit: Visit, column: Column[Any], asked: str) -> Node:
    classes = "number" if column.is_number else None
    if column.sort is None:
        return h("th", column.title, scope="col", class_=classes)
    is_chosen = asked.removeprefix("-") == column.name
    descending = is_chosen and asked.startswith("-")
    # Numbers are asked for from the largest on.
    turned = column.name if (descending if is_chosen else not column.is_number) else f"-{column.name}"
    sign = h("span", "▼" if descending else "▲", aria_hidden="true") if is_chosen else None
    address = visit.href(visit.path, **{**visit.given, "sort": turned, "cursor": None})
    return h(
        "th",
        h("a", h("span", column.title), sign, href=address),
        scope="col",
        class_=classes,
        aria_sort=("descending" if descending else "ascending") if is_chosen else "none",
    )


def _cells(row: _Row, columns: Sequence[Column[_Row]]) -> list[Node]:
    first, *rest = columns
    return [h("th", first.cell(row), scope="row"), *(_cell(column, column.cell(row)) for column in rest)]


def _cell(column: Column[Any], content: Child) -> Node:
    """One element where it is a text: a list has thousands."""
    classes = ["number"] if column.is_number else []
    classes += ["unknown"] if content == UNKNOWN else []
    return h("td", content, class_=" ".join(classes) or None)


def pager(visit: Visit, following: str | None) -> Node | None:
    """Links to the first and the next page: they are addresses, and Back goes back."""
    is_first = not visit.given.get("cursor")
    if is_first and following is None:
        return None

    def link(label: str, cursor: str | None) -> Node:
        return h("a", label, href=visit.href(visit.path, **{**visit.given, "cursor": cursor}), class_="button")

    return h(
        "nav",
        None if is_first else link("First page", None),
        link("Next page", following) if following else h("span", "This is the last page.", class_="note"),
        class_="pager",
        aria_label="Pages of this list",
    )
