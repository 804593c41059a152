"""Dialogs: HTML's own, which keep the focus inside, close at Esc and give the focus back to who opened them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import structlog
from pydantic import ValidationError

from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import VALUE, Child, Node, On, h
from rmqspark.admin.console.parts import button
from rmqspark.admin.mishaps import UNFORESEEN
from rmqspark.errors import RmqError

if TYPE_CHECKING:
    from nicegui.element import Element

_TITLE: Final = "dialog-title"

log = structlog.get_logger("rmqspark.admin.console")


class Dialog:
    """One that is open. `body` makes what is in it, again at each `redraw`."""

    def __init__(self, host: Element, title: str, body: Callable[[], Sequence[Child]], *, wide: bool = False) -> None:
        self._title = title
        self._body = body
        self._wide = wide
        self.is_open = True
        with host:
            self._mounted = Mounted(self._node())
        self._mounted.element.run_method("showModal")

    def redraw(self) -> None:
        if self.is_open:
            self._mounted.patch(self._node())

    def close(self) -> None:
        if self.is_open:
            self._mounted.element.run_method("close")

    def focus(self, name: str) -> None:
        if self.is_open and (element := self._mounted.named(name)):
            element.run_method("focus")

    def _node(self) -> Node:
        return h(
            "dialog",
            h("h2", self._title, id=_TITLE),
            *self._body(),
            class_="wide" if self._wide else None,
            aria_labelledby=_TITLE,
            on={"close": On(self.discard)},
        )

    def discard(self) -> None:
        """It is gone, on the page, too."""
        if self.is_open:
            self.is_open = False
            self._mounted.element.delete()


async def attempted(work: Awaitable[None]) -> str:
    """What kept it from being done, in words; "" where it is done."""
    try:
        await work
    except RmqError as error:
        return str(error)
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    except Exception:  # a bug: it is logged, and the dialog goes on
        log.exception("a change failed")
        return UNFORESEEN
    return ""


class Confirmation:
    """Asks before something is changed for good: what it does, in numbers, and to what. The way out has the focus;
    `typed` is the name that has to be typed, if any. It is done once, however often the button is pressed."""

    def __init__(
        self,
        host: Element,
        title: str,
        effects: Sequence[Child],
        label: str,
        do: Callable[[], Awaitable[None]],
        typed: str = "",
    ) -> None:
        self._effects = effects
        self._label = label
        self._do = do
        self._typed = typed
        self._said = ""
        self._is_begun = False
        self._problem = ""
        self.dialog = Dialog(host, title, self._body)

    def _body(self) -> list[Child]:
        return [
            *(h("p", effect) if isinstance(effect, str) else effect for effect in self._effects),
            self._name_field(),
            h("div", self._problem or None, role="alert", class_="problem"),
            h(
                "div",
                button("Cancel", self.dialog_close, autofocus=True),
                button(
                    "Working …" if self._is_begun else self._label,
                    self._confirm,
                    kind="danger",
                    disabled=self._is_begun or self._said != self._typed,
                ),
                class_="choices",
            ),
        ]

    def dialog_close(self) -> None:
        self.dialog.close()

    def _name_field(self) -> Node | None:
        if not self._typed:
            return None
        label = h("label", h("span", f"Type {self._typed} to go on"), _input(self._hear))
        return h("div", label, class_="field")

    def _hear(self, said: str) -> None:
        self._said = said.strip()
        self.dialog.redraw()

    async def _confirm(self) -> None:
        if self._is_begun or self._said != self._typed:
            return
        self._is_begun, self._problem = True, ""
        self.dialog.redraw()
        self._problem = await attempted(self._do())
        if self._problem:
            self._is_begun = False
            self.dialog.redraw()
        else:
            self.dialog.close()


def close_button(*, has_focus: bool = True) -> Node:
    """Closes the dialog that it is in: the browser sees to that by itself."""
    button_ = h("button", "Close", type="submit", class_="button", autofocus=has_focus)
    return h("form", button_, method="dialog", class_="choices")


def _input(hear: Callable[[str], None]) -> Node:
    return h("input", type="text", autocomplete="off", spellcheck="false", on={"input": On(hear, VALUE)})
