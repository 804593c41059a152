"""Finding a topic, a group, a query or a message by its name, from every page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from nicegui import background_tasks, ui

from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.dialogs import close_button
from rmqspark.admin.console.nodes import VALUE, Child, Node, On, h
from rmqspark.admin.console.parts import group, partial
from rmqspark.admin.reads.names import Name, all_names
from rmqspark.client.cluster.silence import Silence
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from rmqspark.admin.console.dialogs import Dialog
    from rmqspark.admin.console.visits import Visit

_MOST: Final = 12
_PATHS: Final = {"topic": "topics", "group": "groups", "query": "spark", "broker": "brokers"}


class Finder:
    """A dialog with a field; what is found is a list of links, and Enter goes to the first."""

    def __init__(self, visit: Visit, dialog: Callable[[str, Callable[[], Sequence[Child]]], Dialog]) -> None:
        self._visit = visit
        self._names: list[Name] | None = None
        self._silence = Silence()
        self._problem = ""
        self._said = ""
        self._dialog = dialog("Search", self._body)
        background_tasks.create(self._read(), name="names")

    async def _read(self) -> None:
        try:
            self._names = await self._visit.look(lambda: all_names(self._visit.cluster, self._silence))
        except RmqError as error:
            self._problem = str(error)
        self._dialog.redraw()

    def _body(self) -> list[Child]:
        field = h(
            "input",
            type="search",
            autofocus=True,
            autocomplete="off",
            aria_label="Name of a topic, group, query or broker, or id of a message",
            placeholder="Topic, group, query, broker or message id",
            on={"input": On(self._hear, VALUE)},
        )
        form = h("form", field, on={"submit.prevent": On(self._go)})
        return [form, self._found_list(), close_button(has_focus=False)]

    def _hear(self, said: str) -> None:
        self._said = said.strip()
        self._dialog.redraw()

    def _found(self) -> list[tuple[str, str, str]]:
        """Kind, name and address; what begins with it first."""
        found = fitting(self._names or (), self._said.casefold())
        return [(each.kind, each.shown, path(_PATHS[each.kind], each.name)) for each in found[:_MOST]]

    def _found_list(self) -> Node:
        if self._problem:
            return h("p", self._problem, role="alert", class_="problem")
        if self._names is None:
            return h("p", "Reading names …", class_="note")
        links = [
            h("li", self._visit.link(name, address), h("span", kind, class_="note"), key=address)
            for kind, name, address in self._found()
        ]
        if self._said:
            address = path("messages", self._said)
            links.append(
                h(
                    "li",
                    self._visit.link(self._said, address),
                    h("span", "message with this id", class_="note"),
                    key=address,
                )
            )
        return group(h("ul", *links, class_="found", aria_label="What was found"), partial(self._silence.reasons))

    def _go(self) -> None:
        found = self._found()
        if self._said:
            ui.navigate.to(found[0][2] if found else path("messages", self._said))


def fitting(names: Iterable[Name], said: str) -> list[Name]:
    """Those that have it in them, a query in its id or in the name that it was given; what begins with it first."""
    found = [each for each in names if said in each.shown.casefold() or said in each.name.casefold()]
    return sorted(found, key=lambda each: (not each.shown.casefold().startswith(said), each.shown))
