"""/topics: all topics by name, RocketMQ's own when asked for, and a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.filters import Change, flag_filter, text_filter
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import button, empty, group, partial
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, pager, table
from rmqspark.admin.console.topic_forms import create_topic
from rmqspark.admin.paging import PartialPage
from rmqspark.admin.reads import topics as look
from rmqspark.admin.schemas.topics import TopicSummary

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit

_ON_A_PAGE = 50


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(
        frame.code_button(lambda: _snippets(visit)),
        button("New topic", lambda: create_topic(frame), kind="primary") if visit.may_change else None,
    )

    def read() -> PartialPage[TopicSummary]:
        given = visit.given
        return look.topics(
            visit.cluster,
            _ON_A_PAGE,
            given.get("cursor"),
            system=bool(given.get("system")),
            containing=given.get("q", ""),
        )

    live: Live[PartialPage[TopicSummary]] = frame.part(read, lambda page: show(visit, page, live.refresh), 5)
    await live.begin()


def show(visit: Visit, page: PartialPage[TopicSummary], changed: Change) -> Node:
    filters = h(
        "div",
        text_filter(visit, "q", "Name contains", changed),
        flag_filter(visit, "system", "RocketMQ's own, too", changed),
        class_="filters",
    )
    return group(filters, partial(page.silent), _listing(visit, page), pager(visit, page.next))


def _listing(visit: Visit, page: PartialPage[TopicSummary]) -> Node:
    if not page.items and visit.given.get("q"):
        return empty(f"No topic has {visit.given['q']!r} in its name.")
    if not page.items:
        return empty("There is no topic yet. One is made with:", "rmq topic create orders")
    return table(visit, "Topics", _columns(visit), page.items, lambda each: each.topic)


def _columns(visit: Visit) -> list[Column[TopicSummary]]:
    return [
        Column("Topic", lambda each: visit.link(each.topic, path("topics", each.topic))),
        Column("Messages", lambda each: words.number(each.messages), is_number=True),
        Column("Newest stored", lambda each: _newest(visit, each)),
        Column("Queues", lambda each: words.number(each.queues), is_number=True),
        Column("Brokers", lambda each: words.number(each.brokers), is_number=True),
        Column("Type", lambda each: words.known(each.type)),
        Column("Perm", lambda each: words.known(each.perm)),
        Column(
            "Look at",
            lambda each: h(
                "a",
                "messages",
                href=visit.href(path("topics", each.topic, "messages")),
                aria_label=f"messages of {each.topic}",
            ),
        ),
    ]


def _newest(visit: Visit, each: TopicSummary) -> Child:
    if each.last_stored:
        return visit.time(each.last_stored)
    return words.UNKNOWN if each.silent else "never"


def _snippets(visit: Visit) -> Snippets:
    system = "true" if visit.given.get("system") else None
    return Snippets(visit.where.cli("topic", "list"), visit.where.rest("topics", limit=_ON_A_PAGE, system=system))
