"""Filters in the address: what is typed is there at once, so that reload, Back and a copied link keep it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from nicegui import ui

from rmqspark.admin.console.nodes import CHECKED, VALUE, Node, On, h

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit

Change: TypeAlias = Callable[[], Awaitable[Any]]


def set_filter(visit: Visit, name: str, value: str | None) -> None:
    """Changes one in the address, without leaving the page. A page of a list is a page of another list then."""
    kept = {each: said for each, said in visit.given.items() if each not in (name, "cursor")}
    visit.given = {**kept, name: value} if value else kept
    ui.navigate.history.replace(visit.href(visit.path, **visit.given))


def text_filter(visit: Visit, name: str, label: str, changed: Change) -> Node:
    async def hear(said: str) -> None:
        set_filter(visit, name, said.strip())
        await changed()

    return h(
        "label",
        h("span", label),
        h(
            "input",
            type="search",
            defaultValue=visit.given.get(name, ""),
            autocomplete="off",
            spellcheck="false",
            on={"input": On(hear, VALUE)},
        ),
    )


def flag_filter(visit: Visit, name: str, label: str, changed: Change) -> Node:
    async def hear(is_on: bool) -> None:
        set_filter(visit, name, "1" if is_on else None)
        await changed()

    ticked = bool(visit.given.get(name))
    box = h("input", type="checkbox", checked=ticked, on={"change": On(hear, CHECKED)})
    return h("label", box, h("span", label), class_="check")
