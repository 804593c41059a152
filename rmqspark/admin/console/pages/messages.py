"""/topics/{topic}/messages: by time, key, offset, queue, tag or SQL92; page by page, or as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from rmqspark.admin.console import exports
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.message_filters import ON_A_PAGE, Asked, filter_form
from rmqspark.admin.console.message_parts import listed, message_columns
from rmqspark.admin.console.message_snippets import message_snippets
from rmqspark.admin.console.mounted import Mounted
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import button, empty, group
from rmqspark.admin.console.tables import pager, table
from rmqspark.admin.console.tail import MOST_ROWS, Tail, Tailing
from rmqspark.admin.console.topic_forms import send_message
from rmqspark.admin.paging import Page
from rmqspark.admin.reads import messages as look
from rmqspark.admin.reads import topics
from rmqspark.admin.schemas.messages import MessageView

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit
    from rmqspark.admin.reads.messages import Wanted

_FOLLOW_EVERY_S = 1.0


async def build(frame: Frame) -> None:
    visit = frame.visit
    topic = visit.params["topic"]
    asked = Asked.of(topic, visit.given)
    shown: list[MessageView] = []  # by now
    frame.head(
        frame.code_button(lambda: message_snippets(visit.where, asked, shown, ON_A_PAGE, visit.given.get("cursor"))),
        _follow_link(visit, asked),
        button("Send a message", lambda: send_message(frame, topic), kind="primary") if visit.may_change else None,
        crumbs=[("Topics", "/topics"), (topic, path("topics", topic))],
    )
    Mounted(filter_form(visit))  # beside what is read: what it says wrong is mended in it
    if asked.follows:
        tailing = Tailing(lambda: look.page(visit.cluster, asked.wanted, ON_A_PAGE, None).items)

        def follow(tail: Tail) -> Node:
            shown[:] = tail.messages
            return show_tail(visit, tail)

        await frame.live(tailing.look, follow, _FOLLOW_EVERY_S)
    else:

        def show_page(page: Page[MessageView]) -> Node:
            shown[:] = page.items
            return show(frame, page, asked)

        await frame.live(lambda: _read(visit, asked), show_page, None)


def _read(visit: Visit, asked: Asked) -> Page[MessageView]:
    cursor = visit.given.get("cursor")
    if asked.key is not None:
        return _with_key(visit, asked.wanted, asked.key, cursor)
    topics.topic(visit.cluster, asked.wanted.topic)  # reading one that is not there would make it
    return look.page(visit.cluster, asked.wanted, ON_A_PAGE, cursor)


def _with_key(visit: Visit, wanted: Wanted, key: str, cursor: str | None) -> Page[MessageView]:
    """Each next page is older, whatever the order on it: a broker's index is walked from its end."""
    page = look.with_key(visit.cluster, wanted.topic, key, wanted.from_, wanted.to, ON_A_PAGE, cursor)
    return Page(items=page.items[::-1], next=page.next) if wanted.newest_first else page


def show(frame: Frame, page: Page[MessageView], asked: Asked) -> Node:
    visit = frame.visit
    return group(
        h(
            "div",
            h("p", f"{listed(page.items)} on this page.{_story(page, asked)}", class_="note"),
            _exports(visit, page.items),
            class_="section-head",
        ),
        _rows(visit, page.items, has_more=page.next is not None),
        pager(visit, page.next),
    )


def _story(page: Page[MessageView], asked: Asked) -> str:
    """What somebody would take for the end of it, or for the wrong one."""
    told = []
    if asked.key is not None and asked.is_filtered_besides:
        told.append("A key is looked for alone: filters but times are left aside.")
    if page.next is not None and asked.key is not None and not asked.wanted.newest_first:
        told.append("Messages with a key come from the newest on: older ones are on the next page.")
    elif page.next is not None and 0 < len(page.items) < ON_A_PAGE:
        told.append("It ends early, for bodies are large or few pass the filters: there are more on the next page.")
    return " ".join(["", *told])


def show_tail(visit: Visit, tail: Tail) -> Node:
    full = f" Only the newest {MOST_ROWS} are kept here." if tail.is_full else ""
    full += " More came than were looked at: some are left out." if tail.is_behind and tail.came >= ON_A_PAGE else ""
    return group(
        h(
            "p",
            f"{listed(tail.messages)} shown, {tail.came} came with the last look.{full}",
            class_="note",
            aria_live="polite",
        ),
        _rows(visit, tail.messages, has_more=False),
    )


def _rows(visit: Visit, messages: tuple[MessageView, ...] | list[MessageView], *, has_more: bool) -> Node:
    topic = visit.params["topic"]
    if messages:
        return table(visit, f"Messages of {topic}", message_columns(visit), messages, lambda each: each.offset_msg_id)
    if has_more:
        return empty(
            "Nothing here passes the filter, so far. There are more messages to look through: go to the next page."
        )
    if set(visit.given) - {"order", "cursor", "follow"}:
        return empty("No message is like that. Ask for another time, or clear the filters.")
    return empty("Messages of this topic are listed here. Send the first one with:", f"rmq send {topic} hello")


def _follow_link(visit: Visit, asked: Asked) -> Node | None:
    if asked.follows:
        return h("a", "Stop following", href=visit.href(visit.path, **{**visit.given, "follow": None}), class_="button")
    kept = {name: said for name, said in visit.given.items() if name in ("queue", "tags", "sql")}
    return h("a", "Follow", href=visit.href(visit.path, **kept, follow=1), class_="button")


def _exports(visit: Visit, messages: list[MessageView]) -> Node | None:
    if not messages:
        return None
    name = f"{visit.params['topic']}-messages"
    return h(
        "div",
        button("Save as JSONL", lambda: ui.download.content(exports.jsonl(messages), f"{name}.jsonl")),
        button("Save as CSV", lambda: ui.download.content(exports.as_csv(messages), f"{name}.csv")),
        class_="actions",
    )
