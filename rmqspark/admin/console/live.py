"""A part of a page that is read again every few seconds: a skeleton at first, then what was read, its age when it
cannot be read any more, and the way to pause it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import structlog
from nicegui import background_tasks, ui

from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import button, skeleton, trouble
from rmqspark.admin.console.visits import Visit
from rmqspark.admin.console.words import seconds
from rmqspark.admin.mishaps import UNFORESEEN
from rmqspark.errors import Busy, NotFound, RmqError

log = structlog.get_logger("rmqspark.admin.console")

SKELETON_AFTER_S: Final = 0.3
EVERY_S: Final = 3.0
_Document = TypeVar("_Document")


class Live(Generic[_Document]):
    """`read` blocks, and runs on a thread; `show` is pure. `every_s` None: read once."""

    def __init__(
        self,
        visit: Visit,
        read: Callable[[], _Document],
        show: Callable[[_Document], Node],
        every_s: float | None = EVERY_S,
        *,
        needs_brokers: bool = True,
    ) -> None:
        self._visit = visit
        self._source = read
        self._show = show
        self._every_s = every_s
        self._needs_brokers = needs_brokers
        self._document: _Document | None = None
        self._read_at_ms = 0  # by the clock that nobody sets
        self._error: RmqError | None = None
        self._number = ""
        self._content: Node | None = None
        self._begun = self._ended = 0  # reads: how many, and which of those that have ended began last
        self._under_way = 0
        self.paused = False

    async def begin(self) -> None:
        """Shows it where it is called. NotFound, if that is known at once: then there is no such page."""
        first = background_tasks.create(self.read(), name="first read")
        await asyncio.wait({first}, timeout=SKELETON_AFTER_S)
        if isinstance(self._error, NotFound):
            raise self._error
        self._mounted = Mounted(self.node())
        self._visit.redraws.append(self.redraw)
        if not first.done():
            first.add_done_callback(lambda _: self.redraw())
        ui.timer(self._every_s or EVERY_S, self._tick, immediate=False)

    async def refresh(self) -> None:
        """Reads now, paused or not."""
        await self.read()
        self.redraw()

    def redraw(self) -> None:
        if not self._mounted.element.client.is_deleted:
            self._mounted.patch(self.node())

    def node(self) -> Node:
        """What is shown at this moment. Its parts keep their places, so that nothing moves that did not change."""
        if self._visit.role is not None:  # else it stays as it was: there is more on it than the document, and newer
            self._content = self._show_all()
        error = None if self._error is None else trouble(self._error, self._number, self.refresh)
        return h(
            "div",
            h("div", error, key="trouble"),
            h("div", self._freshness(), key="fresh"),
            h("div", self._content, key="content"),
            class_="live",
            aria_busy="true" if self._document is None and self._error is None else "false",
        )

    def _show_all(self) -> Node:
        if self._document is not None:
            return self._show(self._document)
        return skeleton() if self._error is None else h("div")

    def _freshness(self) -> Node | None:
        if self._document is None or self._every_s is None:
            return None
        age_ms = self._visit.cluster.clock.monotonic_ms() - self._read_at_ms
        if self._error is not None:
            story = f"Old: as it was {seconds(age_ms // 1000)} ago."
        elif self.paused:
            story = "Paused."
        else:
            story = f"Live, every {self._every_s:.0f} s."
        toggle = button("Go on" if self.paused else "Pause", self._toggle, kind="quiet")
        return h("p", h("span", story), toggle, class_="freshness old" if self._error else "freshness")

    async def _toggle(self) -> None:
        self.paused = not self.paused
        self.redraw()
        if not self.paused:
            await self.refresh()

    async def _tick(self) -> None:
        """What is read once is read again only where it could not be."""
        is_settled = self._every_s is None and self._error is None
        is_away = not self._mounted.element.client.has_socket_connection
        if not (self.paused or self._under_way or is_settled or is_away):
            await self.refresh()

    async def read(self) -> None:
        """Once, now; what came of it is shown with the next `node`, unless another that began later was there first:
        somebody types, and what was asked for before the last letter may take longer."""
        self._begun += 1
        number = self._begun
        self._under_way += 1
        try:
            document, error = await self._outcome()
        finally:
            self._under_way -= 1
        if number > self._ended:
            self._ended = number
            self._keep(document, error)

    async def _outcome(self) -> tuple[_Document | None, RmqError | None]:
        """One of them. Where nobody is there to tell, an empty list says nothing, and what was known before stays."""
        watch = self._visit.watch
        try:
            document = await self._visit.look(self._source)
        except NotFound as error:
            await watch.check()
            return None, _nobody(error) if watch.is_blind else error
        except RmqError as error:
            return None, error
        except Exception:  # a bug: it is logged, and told on this page; the others go on
            log.exception("a page cannot be read", page=self._visit.path)
            return None, RmqError(UNFORESEEN)
        await watch.check()
        if watch.is_blind and (self._needs_brokers or self._document is not None):
            return None, _nobody(watch.error)
        return document, None

    def _keep(self, document: _Document | None, error: RmqError | None) -> None:
        if error is None:
            self._document, self._read_at_ms = document, self._visit.cluster.clock.monotonic_ms()
        elif self._error is None or self._error.message != error.message:
            self._number = secrets.token_hex(4)
            log.info("a page cannot be read", number=self._number, page=self._visit.path, error=str(error))
        self._error = error


def _nobody(error: RmqError | None) -> RmqError:
    if error is not None and not isinstance(error, NotFound):
        return error
    return Busy("No broker is there to be asked.", hint="Start it again; this page goes on by itself.")
