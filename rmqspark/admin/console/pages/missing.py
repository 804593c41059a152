"""What is not there: said with 404, and with the nearest name that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nicegui import ui

from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.shortcuts import PLACES
from rmqspark.admin.console.words import nearest
from rmqspark.admin.reads.names import all_names
from rmqspark.client.cluster.silence import Silence
from rmqspark.errors import NotFound, RmqError

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame

_KINDS: Final = {
    "/topics": ("topic", "topics"),
    "/groups": ("group", "groups"),
    "/spark": ("query", "spark"),
    "/brokers": ("broker", "brokers"),
}


async def show_missing(frame: Frame, error: NotFound) -> None:
    """In place of the page."""
    frame.title = "Not found"
    ui.context.client.status_code = 404
    ui.page_title("Not found · rmqspark")
    frame.body.clear()
    with frame.body:
        frame.head()
        meant = await _meant(frame)
        Mounted(
            h(
                "div",
                h("p", h("strong", error.message)),
                meant,
                h("p", error.hint) if error.hint else None,
                class_="empty",
            )
        )


async def build(frame: Frame) -> None:
    """Any address that is no page."""
    raise NotFound(f"There is no page {frame.visit.path}.", hint=_there_are())


def _there_are() -> str:
    return f"There are: {', '.join(address for _, address in PLACES.values())}."


async def _meant(frame: Frame) -> Node | None:
    asked = next(iter(frame.visit.params.values()), "")
    kind, step = _KINDS.get(frame.section, ("", ""))
    if not asked or not kind:
        return None
    try:
        names = await frame.visit.look(lambda: all_names(frame.visit.cluster, Silence()))
    except RmqError:
        return None
    addresses = {each.shown: path(step, each.name) for each in names if each.kind == kind}
    name = nearest(asked, addresses)
    if name is None:
        return None
    return h("p", h("span", f"The nearest {kind} is "), frame.visit.link(name, addresses[name]))
