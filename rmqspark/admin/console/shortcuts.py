"""Keys: `/` finds, `g t` goes to the topics, `?` shows them all. Off while somebody types or a dialog is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from nicegui import ui

if TYPE_CHECKING:
    from nicegui.events import KeyEventArguments

    from rmqspark.admin.console.visits import Visit

PLACES: Final = {
    "o": ("Overview", "/"),
    "t": ("Topics", "/topics"),
    "g": ("Groups", "/groups"),
    "s": ("Spark", "/spark"),
    "x": ("Transactions", "/transactions"),
    "d": ("Dead letters", "/dlq"),
    "b": ("Brokers", "/brokers"),
    "a": ("Audit", "/audit"),
}
_LONGEST_PAUSE_MS: Final = 1_500  # between g and what follows it


class Shortcuts:
    def __init__(
        self, visit: Visit, find: Callable[[], None], show_keys: Callable[[], None], is_busy: Callable[[], bool]
    ) -> None:
        self._visit = visit
        self._alone = {"/": find, "?": show_keys}
        self._is_busy = is_busy
        self._going_since_ms: int | None = None
        ui.keyboard(self._press, repeating=False, ignore=["input", "select", "textarea"])

    def _press(self, event: KeyEventArguments) -> None:
        held = event.modifiers
        if not event.action.keydown or held.ctrl or held.alt or held.meta or self._is_busy():
            return
        key = event.key.name
        if key == "Shift":
            return
        now_ms = self._visit.cluster.clock.monotonic_ms()
        going = self._going_since_ms is not None and now_ms - self._going_since_ms < _LONGEST_PAUSE_MS
        self._going_since_ms = None
        if going and key in PLACES:
            ui.navigate.to(PLACES[key][1])
        elif key in self._alone:
            self._alone[key]()
        elif key == "g":
            self._going_since_ms = now_ms
