"""/messages/{id}: one message in full, and its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from rmqspark.admin.console.filters import set_filter
from rmqspark.admin.console.message_parts import BodyActions, body, extension, message_facts, properties
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import button, group, notes, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.console.topic_forms import send_message
from rmqspark.admin.reads import messages as look
from rmqspark.admin.schemas.journeys import EventView, GroupReaderView, JourneyView
from rmqspark.admin.schemas.messages import MessageView

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.live import Live
    from rmqspark.admin.console.visits import Visit


async def build(frame: Frame) -> None:
    visit = frame.visit
    msg_id, topic = visit.params["msg_id"], visit.given.get("topic")
    frame.head(frame.code_button(lambda: _snippets(visit, msg_id, topic)), crumbs=[("Topics", "/topics")])
    shown = _Shown(frame)
    shown.live = frame.part(lambda: look.message(visit.cluster, msg_id, topic), shown.show, None)
    await shown.live.begin()
    await frame.live(lambda: look.journey(visit.cluster, msg_id, topic), lambda found: show_journey(visit, found), None)


class _Shown:
    """The message, and how its body is looked at: which is in the address."""

    live: Live[MessageView]

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._all_of_it = False

    def show(self, message: MessageView) -> Node:
        visit = self._frame.visit
        resend = (
            button("Edit and resend", lambda: send_message(self._frame, message.topic, message))
            if visit.may_change
            else None
        )
        view = visit.given.get("view", "")
        return group(
            message_facts(visit, message),
            h("div", resend, class_="actions", style="margin-top:12px") if resend else None,
            body(message, view, self._actions(message), all_of_it=self._all_of_it),
            properties(message),
        )

    def _actions(self, message: MessageView) -> BodyActions:
        def save() -> None:
            ui.download.content(message.body_as_bytes(), f"{message.offset_msg_id}.{extension(message)}")

        return BodyActions(self._look, self._show_all, ui.clipboard.write, save)

    def _look(self, view: str) -> None:
        set_filter(self._frame.visit, "view", view)
        self.live.redraw()

    def _show_all(self) -> None:
        self._all_of_it = True
        self.live.redraw()


def show_journey(visit: Visit, found: JourneyView) -> Node:
    events: list[Column[EventView]] = [
        Column("What", lambda each: each.what),
        Column("When", lambda each: visit.time(each.at, exact=True)),
        Column("How", lambda each: each.story),
    ]
    readers: list[Column[GroupReaderView]] = [
        Column("Group", lambda each: each.group),
        Column("State", lambda each: _reader_state(each)),
        Column("How it stands", lambda each: each.story),
    ]
    unknown = notes(*(f"Unknown: {each.what}: {each.why}." for each in found.unknown))
    groups = (
        table(visit, "Its readers", readers, found.groups, lambda each: each.group)
        if found.groups
        else h("p", "No group reads this topic.", class_="note")
    )
    return group(
        section(
            "Journey",
            table(visit, "Journey", events, found.events, lambda each: f"{each.at} {each.what} {each.story}"),
            unknown,
        ),
        section("Readers", groups),
    )


def _reader_state(reader: GroupReaderView) -> Node:
    if reader.is_past is None:
        return state("unknown", "plain")
    return state("has read it", "good") if reader.is_past else state("not yet", "warning")


def _snippets(visit: Visit, msg_id: str, topic: str | None) -> Snippets:
    named = ["--topic", topic] if topic else []
    return Snippets(
        visit.where.cli("message", "get", msg_id, *named),
        visit.where.rest("messages", msg_id, topic=topic),
        visit.where.spark([f"rows = rows.where(\"msgId = '{msg_id}'\")"], subscribe=topic)
        if topic and msg_id.isalnum()
        else "",
    )
