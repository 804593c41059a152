"""Forms in dialogs: fields, one button that does it, and what was wrong told above it. What was typed stays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from rmqspark.admin.console.dialogs import attempted
from rmqspark.admin.console.nodes import FORM, Child, Node, On, h
from rmqspark.admin.console.parts import button
from rmqspark.errors import InvalidArgument
from rmqspark.whole_numbers import whole_number

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame

Said: TypeAlias = Mapping[str, str]


class Form:
    """`do` takes what was typed, by the names of the fields; it raises what is wrong. Done once, however often sent."""

    def __init__(
        self,
        frame: Frame,
        title: str,
        fields: Sequence[Child],
        label: str,
        do: Callable[[Said], Awaitable[None]],
    ) -> None:
        self._fields = fields
        self._label = label
        self._do = do
        self._problem = ""
        self._is_begun = False
        self._dialog = frame.dialog(title, self._body)

    def _body(self) -> list[Child]:
        choices = h(
            "div",
            button("Cancel", lambda: self._dialog.close()),
            h(
                "button",
                "Working …" if self._is_begun else self._label,
                type="submit",
                class_="button primary",
                disabled=self._is_begun,
            ),
            class_="choices",
        )
        story = h("div", self._problem or None, role="alert", class_="problem")
        return [h("form", *self._fields, story, choices, on={"submit.prevent": On(self._send, FORM)})]

    async def _send(self, said: Said) -> None:
        if self._is_begun:
            return
        self._is_begun, self._problem = True, ""
        self._dialog.redraw()
        self._problem = await attempted(self._do(said))
        if self._problem:
            self._is_begun = False
            self._dialog.redraw()
        else:
            self._dialog.close()


def field(label: str, name: str, value: str = "", *, hint: str = "", kind: str = "text", focus: bool = False) -> Node:
    shown = h("input", type=kind, defaultValue=value, autocomplete="off", spellcheck="false", autofocus=focus)
    return h(
        "div",
        h("label", h("span", label), _named(shown, name)),
        h("p", hint, class_="note") if hint else None,
        class_="field",
    )


def area(label: str, name: str, value: str = "") -> Node:
    return h(
        "div",
        h("label", h("span", label), _named(h("textarea", defaultValue=value, spellcheck="false"), name)),
        class_="field",
    )


def choice(label: str, name: str, options: Sequence[tuple[str, str]], chosen: str = "") -> Node:
    shown = [h("option", text, value=value, selected=value == chosen) for value, text in options]
    return h("div", h("label", h("span", label), _named(h("select", *shown), name)), class_="field")


def tick(label: str, name: str, *, is_on: bool = False) -> Node:
    return h(
        "div",
        h("label", _named(h("input", type="checkbox", checked=is_on), name), h("span", label), class_="check"),
        class_="field",
    )


def _named(control: Node, name: str) -> Node:
    """`name` of HTML, which `h` takes for a node's own."""
    return Node(control.tag, control.text, {**control.attributes, "name": name}, control.children, control.on)


def whole(said: Said, name: str, label: str) -> int:
    """A field that is a whole number. InvalidArgument."""
    text = said.get(name, "").strip()
    number = whole_number(text)
    if number is None:
        raise InvalidArgument(f"{label} {text!r:.80} is not a whole number.")
    return number
