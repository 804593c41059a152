"""What a page shows, as values: elements with text, attributes, children, and what is done when they are used.

Texts are texts: nothing in a node is ever read as HTML, and nothing in it hides what is beside it, whoever it comes
from. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rmqspark.admin.console.bodies import visible

Child: TypeAlias = "Node | str | None"

# What of an event is sent here. One-liners of JavaScript, for NiceGUI sends events whole otherwise.
NOTHING: Final = "() => emit()"
VALUE: Final = "(event) => emit(event.target.value)"
CHECKED: Final = "(event) => emit(event.target.checked)"
FORM: Final = "(event) => emit(Object.fromEntries(new FormData(event.target)))"


@dataclass(frozen=True, slots=True)
class On:
    """What is done at an event (as `click`, `submit.prevent`); `do` takes what `sends` sends, nothing for NOTHING."""

    do: Callable[..., Any]
    sends: str = NOTHING


@dataclass(frozen=True, slots=True)
class Node:
    """One element. `key` is what it is known by among its siblings when they change; otherwise its place is. `name`
    is for whoever wants to focus it, or to call its methods."""

    tag: str
    text: str | None = None
    attributes: Mapping[str, str | bool] = field(default_factory=dict)
    children: tuple[Node, ...] = ()
    on: Mapping[str, On] = field(default_factory=dict)
    key: str = ""
    name: str = ""


def h(
    tag: str,
    *children: Child,
    on: Mapping[str, On] | None = None,
    key: str = "",
    name: str = "",
    **attributes: str | int | bool | None,
) -> Node:
    """An element. Attributes are HTML's, with `_` for `-`, and `class_`, `for_`; None and False leave them out."""
    return element(tag, children, attributes, on, key, name)


def element(
    tag: str,
    children: Iterable[Child],
    attributes: Mapping[str, str | int | bool | None],
    on: Mapping[str, On] | None = None,
    key: str = "",
    name: str = "",
) -> Node:
    """The same, of attributes that came in a mapping."""
    given = {
        _attribute(each): _value(value)
        for each, value in attributes.items()
        if value is not None and value is not False
    }
    shown = [visible(child) if isinstance(child, str) else child for child in children if child not in (None, "")]
    if len(shown) == 1 and isinstance(shown[0], str):
        return Node(tag, shown[0], given, (), on or {}, key, name)
    nodes = tuple(Node("span", child) if isinstance(child, str) else child for child in shown if child is not None)
    return Node(tag, None, given, nodes, on or {}, key, name)


def texts(node: Node) -> str:
    """All that can be read in it: for tests, and for names."""
    return " ".join(filter(None, [node.text, *map(texts, node.children)]))


def find(node: Node, tag: str) -> list[Node]:
    """All elements of one kind in it, itself included."""
    return [*([node] if node.tag == tag else []), *(found for child in node.children for found in find(child, tag))]


def _attribute(name: str) -> str:
    return name.removesuffix("_").replace("_", "-") if name.islower() else name


def _value(value: str | int | bool) -> str | bool:
    return value if isinstance(value, (str, bool)) else str(value)
