"""What the message browser is asked for: the filters in its address, and the form that sets them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nicegui import ui

from rmqspark.admin.console.nodes import FORM, Node, On, h
from rmqspark.admin.reads.messages import Wanted

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit

ON_A_PAGE: Final = 50
_FIELDS: Final = (
    ("from", "From", "-10m, 2026-01-31T12:00"),
    ("to", "To", "latest"),
    ("queue", "Queue", "broker-a/3, or 3"),
    ("offset", "Offset", "42, 5:10, -20"),
    ("key", "Key", "customer-7"),
    ("tags", "Tags", "paid || shipped"),
    ("sql", "SQL92", "price > 10"),
    ("body", "Body contains", "refused"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """As the address says. A key excludes the rest but times; following is about the newest, whatever is in them."""

    wanted: Wanted
    key: str | None
    follows: bool

    @classmethod
    def of(cls, topic: str, given: Mapping[str, str]) -> Asked:
        follows = bool(given.get("follow")) and not given.get("key")
        newest_first = follows or given.get("order") != "oldest"
        wanted = Wanted(
            topic,
            given.get("queue"),
            given.get("offset"),
            given.get("from"),
            given.get("to"),
            given.get("tags"),
            given.get("sql"),
            newest_first,
            None if follows else given.get("body"),
        )
        return cls(wanted, given.get("key"), follows)

    @property
    def is_filtered_besides(self) -> bool:
        """By what a key excludes."""
        wanted = self.wanted
        return any((wanted.queue, wanted.offset, wanted.tags, wanted.sql, wanted.body))

    def as_looked_for(self) -> Asked:
        """Without what a key excludes."""
        if not self.key:
            return self
        return replace(self, wanted=replace(self.wanted, queue=None, offset=None, tags=None, sql=None, body=None))


def filter_form(visit: Visit) -> Node:
    def look(said: Mapping[str, str]) -> None:
        filters = {name: said[name].strip() for name, _, _ in _FIELDS}
        order = "oldest" if said.get("order") == "oldest" else None
        ui.navigate.to(visit.href(visit.path, **filters, order=order).removeprefix(visit.prefix))

    return h(
        "form",
        *(_field(name, label, example, visit.given.get(name, "")) for name, label, example in _FIELDS),
        _order(visit.given.get("order", "newest")),
        h(
            "div",
            h("button", "Look", type="submit", class_="button primary"),
            h("a", "Clear", href=visit.href(visit.path), class_="button"),
            class_="go",
        ),
        class_="filters",
        aria_label="Which messages",
        on={"submit.prevent": On(look, FORM)},
    )


def _field(name: str, label: str, example: str, value: str) -> Node:
    attributes: dict[str, str | bool] = {
        "name": name,
        "type": "text",
        "defaultValue": value,
        "placeholder": example,
        "autocomplete": "off",
        "spellcheck": "false",
    }
    return h("label", h("span", label), Node("input", attributes=attributes))


def _order(chosen: str) -> Node:
    options = [
        h("option", text, value=value, selected=value == chosen)
        for value, text in (("newest", "Newest first"), ("oldest", "Oldest first"))
    ]
    return h("label", h("span", "Order"), Node("select", attributes={"name": "order"}, children=tuple(options)))
