"""What is around every page: the way to all others, what is wrong with the cluster, results to be read, keys."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from nicegui import ui
from nicegui.element import Element

from rmqspark.admin.console.addresses import with_query
from rmqspark.admin.console.dialogs import Confirmation, Dialog, close_button
from rmqspark.admin.console.finder import Finder
from rmqspark.admin.console.live import EVERY_S, Live
from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import VALUE, Child, Node, On, h
from rmqspark.admin.console.parts import button
from rmqspark.admin.console.preferences import THEME_COOKIE, THEMES, ZONE_COOKIE, Preferences, cookie_script, zone
from rmqspark.admin.console.shortcuts import PLACES, Shortcuts
from rmqspark.admin.console.words import seconds

if TYPE_CHECKING:
    from rmqspark.admin.console.snippets import Snippets
    from rmqspark.admin.console.visits import Visit
    from rmqspark.errors import RmqError

_T = TypeVar("_T")
PRODUCT: Final = "rmqspark"
_LOOK_AGAIN_S: Final = 1.0
_MOST_TOLD: Final = 20  # results that nobody has put away
_TRY_AGAIN_MS: Final = 2_000
_ZONE: Final = (  # the browser's own, or UTC
    "(event) => emit(event.target.value === 'local' ? Intl.DateTimeFormat().resolvedOptions().timeZone : 'UTC')"
)


class Frame:
    """Made before a page is; everything in it can be used while the page is still being read."""

    def __init__(self, visit: Visit, section: str, title: str) -> None:
        self.visit = visit
        self.title = title
        self.section = section
        self._is_signed_in = visit.role is not None  # until the session ends
        self._told: list[Node] = []
        self._numbers = itertools.count()  # of what is told
        self._dialogs: list[Dialog] = []
        layout = ui.context.client.layout
        ui.page_title(title if title == PRODUCT else f"{title} · {PRODUCT}")
        ui.skip_link("Skip to content", target=ui.context.client.content)
        with layout:
            self._header = Mounted(self._head())
            self._header.element.move(target_index=1)
            self._notices = Mounted(self._notice_list())
            self._host = Element("div")
        with ui.context.client.content:
            self._banner = Mounted(self._banner_node())
            self.body = Element("div")
        ui.run_javascript("document.getElementById('popup').role = 'alert'")  # NiceGUI's, of a connection that is lost
        ui.run_javascript(f"window.socket.io.reconnectionDelayMax({_TRY_AGAIN_MS})")  # it waits longer and longer
        client = ui.context.client
        client.on_connect(lambda: visit.meet(client.environ))
        Shortcuts(visit, self.find, self.show_keys, self._has_dialog)
        ui.timer(_LOOK_AGAIN_S, self._look, immediate=False)

    # --- what pages use ----------------------------------------------------------------------------------------------

    def head(self, *actions: Node | None, crumbs: Sequence[tuple[str, str]] = (), note: Child = None) -> None:
        """The page's one h1, with the way back to where it belongs, and what can be done with all of it."""
        way = [h("li", self.visit.link(name, path)) for name, path in crumbs]
        shown = [each for each in actions if each is not None]
        Mounted(
            h(
                "div",
                h(
                    "div",
                    h("ul", *way, class_="crumbs") if way else None,
                    h("h1", self.title),
                    h("p", note, class_="note") if note else None,
                ),
                h("div", *shown, class_="actions") if shown else None,
                class_="page-head",
            )
        )

    def part(
        self,
        read: Callable[[], _T],
        show: Callable[[_T], Node],
        every_s: float | None = EVERY_S,
        *,
        needs_brokers: bool = True,
    ) -> Live[_T]:
        """What is read again and again, once it is begun."""
        return Live(self.visit, read, show, every_s, needs_brokers=needs_brokers)

    async def live(
        self,
        read: Callable[[], _T],
        show: Callable[[_T], Node],
        every_s: float | None = EVERY_S,
        *,
        needs_brokers: bool = True,
    ) -> None:
        """The same, begun."""
        await self.part(read, show, every_s, needs_brokers=needs_brokers).begin()

    def tell(self, *story: Child) -> None:
        """A result; it stays until it is read."""
        self._add("told", *story)

    def complain(self, error: RmqError) -> None:
        self._add("told problem", h("strong", error.message), error.hint or None)

    def dialog(self, title: str, body: Callable[[], Sequence[Child]], *, wide: bool = False) -> Dialog:
        return self._opened(Dialog(self._host, title, body, wide=wide))

    def confirm(
        self, title: str, effects: Sequence[Child], label: str, do: Callable[[], Awaitable[None]], typed: str = ""
    ) -> None:
        self._opened(Confirmation(self._host, title, effects, label, do, typed).dialog)

    def code_button(self, snippets: Callable[[], Snippets]) -> Node:
        """Opens the dialog with the code for what is shown now."""
        return button("Open in Spark / CLI / REST", lambda: self.show_code(snippets()))

    def show_code(self, snippets: Snippets) -> None:
        kinds = [("Spark", snippets.spark), ("Command line", snippets.cli), ("REST", snippets.rest)]
        blocks = [_block(name, text) for name, text in kinds if text]
        self.dialog("The same rows, elsewhere", lambda: [*blocks, close_button()], wide=True)

    def _has_dialog(self) -> bool:
        return any(each.is_open for each in self._dialogs)

    def _opened(self, dialog: Dialog) -> Dialog:
        """One, and the one that it was opened from: a browser that is none opens as many as it likes."""
        open_ones = [each for each in self._dialogs if each.is_open]
        for each in open_ones[:-1]:
            each.discard()
        self._dialogs = [*open_ones[-1:], dialog]
        return dialog

    # --- keys and search ---------------------------------------------------------------------------------------------

    def find(self) -> None:
        if self._is_signed_in:
            Finder(self.visit, self.dialog)

    def show_keys(self) -> None:
        rows = [
            ("/", "Search"),
            *((f"g {key}", name) for key, (name, _) in PLACES.items()),
            ("?", "These keys"),
            ("Esc", "Close"),
        ]
        body = h("dl", *(h("div", h("dt", h("kbd", key)), h("dd", does)) for key, does in rows), class_="keys")
        self.dialog("Keys", lambda: [body, close_button()])

    # --- the head ----------------------------------------------------------------------------------------------------

    def _head(self) -> Node:
        links = [
            h("li", h("a", name, href=self.visit.href(path), aria_current="page" if path == self.section else None))
            for name, path in PLACES.values()
        ]
        return h(
            "header",
            h("a", h("span", "rmqspark"), href=self.visit.href("/"), class_="brand"),
            h("nav", h("ul", *links), aria_label="Main"),
            h("div", *self._tools(), class_="tools"),
        )

    def _tools(self) -> list[Node | None]:
        local = self.visit.preferences.zone_name != "UTC"
        may_leave = self._is_signed_in and self.visit.desk.config.asks_for_tokens
        return [
            button("Search  /", self.find, kind="quiet", aria_keyshortcuts="/") if self._is_signed_in else None,
            _choice(
                "Theme", [(each, each.capitalize()) for each in THEMES], self.visit.preferences.theme, self._set_theme
            ),
            _choice("Times", [("utc", "UTC"), ("local", "Local")], "local" if local else "utc", self._set_zone, _ZONE),
            button("Keys  ?", self.show_keys, kind="quiet"),
            h("a", "Sign out", href=self.visit.href("/logout"), class_="button quiet") if may_leave else None,
        ]

    def _set_theme(self, theme: str) -> None:
        if theme in THEMES:
            self.visit.preferences = Preferences(theme, self.visit.preferences.zone_name)
            ui.run_javascript(f"document.documentElement.dataset.theme = '{theme}'")
            ui.run_javascript(cookie_script(THEME_COOKIE, theme, self.visit.prefix))

    def _set_zone(self, name: str) -> None:
        if zone(name) is None:
            self.tell(f"This machine does not know the zone {name!r:.80}: times stay in UTC.")
            name = "UTC"
        self.visit.preferences = Preferences(self.visit.preferences.theme, name)
        ui.run_javascript(cookie_script(ZONE_COOKIE, name, self.visit.prefix))
        for redraw in self.visit.redraws:
            redraw()

    # --- what comes and goes by itself -------------------------------------------------------------------------------

    def _look(self) -> None:
        if not ui.context.client.has_socket_connection:
            return
        if self._is_signed_in and self.visit.role is None:
            here = None if self.visit.has_signed_out else with_query(self.visit.path, self.visit.given)
            ui.navigate.to(with_query("/login", {"next": here}))
            return
        self._banner.patch(self._banner_node())

    def _banner_node(self) -> Node:
        watch = self.visit.watch
        if not watch.alarm or not self._is_signed_in:  # it names servers
            return h("div", h("div", key="quiet"), class_="banner-place")
        ago_ms = watch.seen_ago_ms if watch.error else None
        known = None if ago_ms is None else f"Last seen whole {seconds(ago_ms // 1000)} ago."
        words = h(
            "p", h("strong", "Not all is there. "), h("span", watch.alarm), h("span", f" {known}") if known else None
        )
        return h("div", h("div", words, class_="banner", role="alert", key="alarm"), class_="banner-place")

    def _notice_list(self) -> Node:
        return h("div", *self._told, class_="notices", role="status", aria_live="polite")

    def _add(self, kind: str, *story: Child) -> None:
        key = f"notice-{next(self._numbers)}"

        def dismiss() -> None:
            self._told = [each for each in self._told if each.key != key]
            self._notices.patch(self._notice_list())

        words = h("div", *(h("p", each) if isinstance(each, str) else each for each in story))
        told = h("div", words, button("Dismiss", dismiss, kind="quiet"), class_=kind, key=key)
        self._told = [*self._told, told][-_MOST_TOLD:]
        self._notices.patch(self._notice_list())


def _choice(
    label: str, options: Sequence[tuple[str, str]], chosen: str, choose: Callable[[str], object], sends: str = VALUE
) -> Node:
    shown = [h("option", name, value=value, selected=value == chosen) for value, name in options]
    return h("label", h("span", label), h("select", *shown, on={"change": On(choose, sends)}), class_="choice")


def _block(name: str, text: str) -> Node:
    def copy() -> None:
        ui.clipboard.write(text)

    head = h("div", h("h3", name), button("Copy", copy, aria_label=f"Copy {name}"), class_="section-head")
    return h("section", head, h("pre", h("code", text), tabindex=0, aria_label=name, role="region"))
