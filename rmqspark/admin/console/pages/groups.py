"""/groups: consumer groups and Spark queries in one list, by how far they are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.filters import Change, text_filter
from rmqspark.admin.console.lag_parts import caught_up_column, lag_columns
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import empty, group, notes, partial
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, pager, table
from rmqspark.admin.paging import PartialPage
from rmqspark.admin.reads import groups as look
from rmqspark.admin.reads import queries
from rmqspark.admin.schemas.groups import GroupSummary
from rmqspark.admin.schemas.queries import QuerySummary
from rmqspark.client.cluster.silence import Silence

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit

_ON_A_PAGE = 100


class _Row(NamedTuple):
    """A group or a query; `members` are consumers that are connected, or queues that a query owns."""

    kind: str
    name: str
    address: str
    lag: int | None
    seconds_behind: int | None
    caught_up_in_seconds: int | None
    members: str
    reads: str

    @classmethod
    def of_group(cls, each: GroupSummary) -> _Row:
        return cls(
            "group",
            each.group,
            path("groups", each.group),
            each.lag,
            each.seconds_behind,
            each.caught_up_in_seconds,
            words.counted(each.members, "member"),
            ", ".join(each.topics),
        )

    @classmethod
    def of_query(cls, each: QuerySummary) -> _Row:
        return cls(
            "Spark query",
            each.name or each.query_id,
            path("spark", each.query_id),
            each.lag,
            each.seconds_behind,
            each.caught_up_in_seconds,
            words.counted(each.queues, "queue"),
            ", ".join(each.groups),
        )


class _Document(NamedTuple):
    groups: PartialPage[GroupSummary]
    queries: list[QuerySummary]
    silent: dict[str, str]


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(
        frame.code_button(
            lambda: Snippets(visit.where.cli("group", "list"), visit.where.rest("groups", limit=_ON_A_PAGE))
        )
    )
    live: Live[_Document] = frame.part(lambda: _read(visit), lambda document: show(visit, document, live.refresh), 5)
    await live.begin()


def _read(visit: Visit) -> _Document:
    given = visit.given
    said = given.get("q", "")
    silence = Silence()
    found = look.groups(visit.cluster, _ON_A_PAGE, given.get("cursor"), containing=said, silence=silence)
    seen = [] if given.get("cursor") else queries.queries(visit.cluster, silence)
    shown = [each for each in seen if said.casefold() in f"{each.name or ''} {each.query_id}".casefold()]
    return _Document(found, shown, silence.reasons)


def show(visit: Visit, document: _Document, changed: Change) -> Node:
    rows = [*map(_Row.of_group, document.groups.items), *map(_Row.of_query, document.queries)]
    filters = h("div", text_filter(visit, "q", "Name contains", changed), class_="filters")
    more = notes("Sorted within this page of groups; there are more behind it." if document.groups.next else None)
    return group(filters, partial(document.silent), _listing(visit, rows), more, pager(visit, document.groups.next))


def _listing(visit: Visit, rows: list[_Row]) -> Node:
    if not rows and visit.given.get("q"):
        return empty(f"No group or query has {visit.given['q']!r} in its name.")
    if not rows:
        return empty(
            "Whoever reads is listed here: consumer groups, and Spark queries.", "rmq consume orders --group billing"
        )
    return table(visit, "Groups and Spark queries", _columns(visit), rows, lambda each: each.address, by="-lag")


def _columns(visit: Visit) -> list[Column[_Row]]:
    return [
        Column("Name", lambda each: visit.link(each.name, each.address), lambda each: each.name, "name"),
        Column("Kind", lambda each: each.kind, lambda each: each.kind, "kind"),
        *lag_columns(),
        caught_up_column(),
        Column("Connected", lambda each: each.members),
        Column("Reads", lambda each: each.reads or "none"),
    ]
