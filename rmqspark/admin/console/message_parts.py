"""Messages as they are shown: in rows, and one in full. Pure; what they carry is text, whatever it says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.bodies import Shape, preview, shapes
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import button, facts, section
from rmqspark.admin.console.tables import Column
from rmqspark.admin.schemas.messages import MessageView

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit


def place(message: MessageView) -> str:
    return f"{message.broker_name}/{message.queue_id} @ {message.queue_offset}"


def message_link(visit: Visit, message: MessageView, text: str) -> Node:
    """By its offset id, which is exact: a sender's id may have been stored twice."""
    return visit.link(text, path("messages", message.offset_msg_id))


def message_columns(visit: Visit) -> list[Column[MessageView]]:
    return [
        Column("Queue @ offset", lambda each: h("span", message_link(visit, each, place(each)), class_="nowrap")),
        Column("Stored", lambda each: visit.time(each.store_timestamp, exact=True)),
        Column("Tag", lambda each: h("span", each.tags) if each.tags else h("span", "none", class_="note")),
        Column(
            "Keys",
            lambda each: h("span", " ".join(each.keys)) if each.keys else h("span", "none", class_="note"),
        ),
        Column("Body", lambda each: h("div", preview(each.body_as_bytes()), class_="body-cell mono")),
        Column("Bytes", lambda each: words.number(each.body_bytes), is_number=True),
    ]


def message_facts(visit: Visit, message: MessageView) -> Node:
    return facts(
        {
            "Topic": visit.link(message.topic, path("topics", message.topic)),
            "Queue and offset": visit.link(
                place(message),
                path("topics", message.topic, "messages"),
                queue=f"{message.broker_name}/{message.queue_id}",
                offset=f"{message.queue_offset}:{message.queue_offset + 1}",
            ),
            "Stored": visit.time(message.store_timestamp, exact=True),
            "Born": visit.time(message.born_timestamp, exact=True),
            "Message id": h("span", message.msg_id, class_="mono"),
            "Offset message id": h("span", message.offset_msg_id, class_="mono"),
            "Tag": message.tags or "none",
            "Keys": _keys(visit, message),
            "Consumed before": words.counted(message.reconsume_times, "time"),
            "Flag": str(message.flag),
        }
    )


def _keys(visit: Visit, message: MessageView) -> Child:
    """Each leads to all messages that have it."""
    browser = path("topics", message.topic, "messages")
    links = [h("li", visit.link(each, browser, key=each)) for each in message.keys]
    return h("ul", *links) if links else "none"


def properties(message: MessageView) -> Node:
    rows = [h("tr", h("th", name, scope="row"), h("td", text)) for name, text in sorted(message.properties.items())]
    head = h("tr", h("th", "Property", scope="col"), h("th", "Value", scope="col"))
    inner = h("table", h("caption", "Properties", class_="offscreen"), h("thead", head), h("tbody", *rows))
    return section("Properties", h("div", inner, class_="scroll", role="region", aria_label="Properties", tabindex=0))


class BodyActions(NamedTuple):
    """What can be done with a body: looking at it in another shape, seeing all of it, copying what is shown, saving all
    of it."""

    look: Callable[[str], None]
    show_all: Callable[[], None]
    copy: Callable[[str], None]
    save: Callable[[], None]


def body(message: MessageView, view: str, do: BodyActions, *, all_of_it: bool) -> Node:
    """In the shape that was asked for, else the best one."""
    found = shapes(message.body_as_bytes(), all_of_it=all_of_it)
    chosen = next((each for each in found if each.name.lower() == view), found[0])
    tabs = [
        button(
            each.name, lambda name=each.name: do.look(name.lower()), aria_pressed="true" if each is chosen else "false"
        )
        for each in found
    ]
    return section(
        f"Body, {words.counted(message.body_bytes, 'byte')}",
        h("div", *tabs, class_="tabs", role="group", aria_label="Show the body as"),
        h("pre", h("code", chosen.text or "(empty)"), tabindex=0, role="region", aria_label=f"Body as {chosen.name}"),
        _left_out(chosen, None if all_of_it else do.show_all),
        actions=[
            button("Copy", lambda: do.copy(chosen.text), aria_label="Copy what is shown of the body"),
            button("Save", do.save, aria_label="Save the body"),
        ],
    )


def extension(message: MessageView) -> str:
    """Of a file with its body."""
    best = shapes(message.body_as_bytes())[0].name
    return {"JSON": "json", "Text": "txt"}.get(best, "bin")


def _left_out(shape: Shape, show_all: Callable[[], None] | None) -> Node | None:
    if not shape.left_out:
        return None
    left_out = words.counted(shape.left_out, "more byte" if shape.name == "Hex" else "more character")
    told = f"{left_out} {'is' if shape.left_out == 1 else 'are'} not shown. "
    if show_all is None:
        return h("p", f"{told}No browser would bear them; Save has them all.", class_="note")
    return h("p", h("span", told), button("Show more", show_all), class_="note")


def listed(messages: Sequence[MessageView]) -> str:
    """How many, for who cannot see the rows."""
    return words.counted(len(messages), "message")
