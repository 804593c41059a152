"""Pieces that pages are made of: facts, cards, states, empty places, errors. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rmqspark.admin.console.nodes import Child, Node, On, element, h
from rmqspark.admin.console.words import UNKNOWN
from rmqspark.client.cluster.silence import story
from rmqspark.errors import RmqError

# A state is told by a sign and a word, never by its colour alone.
_SIGNS: Final = {"good": "●", "warning": "▲", "bad": "■", "plain": "○"}


def state(word: str, mood: str) -> Node:
    """`mood` is good, warning, bad or plain."""
    return h("span", h("span", _SIGNS[mood], aria_hidden="true"), h("span", word), class_=f"state state-{mood}")


def value(text: str) -> Node:
    """What is unknown looks it."""
    return h("span", text, class_="unknown" if text == UNKNOWN else None)


def facts(given: Mapping[str, Child]) -> Node:
    """Names with their values."""
    pairs = [
        h("div", h("dt", name), h("dd", value(each) if isinstance(each, str) else each)) for name, each in given.items()
    ]
    return h("dl", *pairs, class_="facts")


def figures(given: Sequence[tuple[str, str, Child]]) -> Node:
    """The few numbers that a page begins with: name, number, and a word on it."""
    cells = [
        h("div", h("dt", name), h("dd", h("strong", value(figure)), h("span", note, class_="note") if note else None))
        for name, figure, note in given
    ]
    return h("dl", *cells, class_="figures")


def section(title: str, *children: Child, actions: Sequence[Node] = ()) -> Node:
    head = h("div", h("h2", title), h("div", *actions, class_="actions") if actions else None, class_="section-head")
    return h("section", head, *children)


def group(*children: Child) -> Node:
    """Several things, one after the other."""
    return h("div", *children)


def button(
    label: str, do: Callable[..., Any], *, kind: str = "", name: str = "", **attributes: str | int | bool | None
) -> Node:
    """`kind` is "", primary, danger or quiet."""
    given = {"type": "button", "class_": f"button {kind}".strip(), **attributes}
    return element("button", [label], given, {"click": On(do)}, name=name)


def empty(what: str, command: str = "", *children: Child) -> Node:
    """Nothing is here: what belongs here, and the command that fills it."""
    shown = h("p", "Try: ", h("code", command)) if command else None
    return h("div", h("p", what), shown, *children, class_="empty")


def notes(*lines: Child) -> Node | None:
    told = [line for line in lines if line]
    return h("div", *(h("p", line) for line in told), class_="notes") if told else None


def partial(silent: Mapping[str, str]) -> Node | None:
    """Which brokers do not answer, so that what they know is not on the page, and why."""
    return notes(*(story(broker_name, why) for broker_name, why in silent.items()))


def trouble(error: RmqError, number: str, retry: Callable[[], Any]) -> Node:
    """What went wrong, why, what to do next."""
    return h(
        "div",
        h("p", h("strong", error.message)),
        h("p", error.hint) if error.hint else None,
        h("p", f"In the log of rmq admin it has the number {number}.", class_="note"),
        button("Try again", retry),
        class_="trouble",
        role="alert",
    )


def skeleton() -> Node:
    bars = [h("div", class_="bar", style=f"width:{width}%") for width in (40, 90, 75, 85)]
    return h("div", h("p", "Loading …", class_="offscreen"), *bars, class_="skeleton", aria_busy="true")


def code(text: str) -> Node:
    """Several lines, in a place that can be scrolled by keyboard."""
    return h("pre", h("code", text), tabindex=0)
