"""/spark: the Spark queries that read from here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rmqspark.admin.console.filters import Change, flag_filter
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import code, empty, group, partial
from rmqspark.admin.console.query_parts import query_columns
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import table
from rmqspark.admin.reads import queries as look
from rmqspark.admin.schemas.queries import QuerySummary
from rmqspark.client.cluster.silence import Silence

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit


class _Document(NamedTuple):
    queries: list[QuerySummary]
    silent: dict[str, str]


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(frame.code_button(lambda: _snippets(visit)))
    live: Live[_Document] = frame.part(lambda: _read(visit), lambda document: show(visit, document, live.refresh))
    await live.begin()


def _read(visit: Visit) -> _Document:
    silence = Silence()
    found = look.queries(visit.cluster, silence, past=bool(visit.given.get("past")))
    return _Document(found, silence.reasons)


def show(visit: Visit, document: _Document, changed: Change) -> Node:
    filters = h("div", flag_filter(visit, "past", "Those that ended long ago, too", changed), class_="filters")
    return group(filters, partial(document.silent), _listing(visit, document.queries))


def _listing(visit: Visit, found: list[QuerySummary]) -> Node:
    if not found:
        named, topic = f'.option("namesrv", "{visit.cluster.namesrv}")', '.option("subscribe", "orders")'
        start = "\n    ".join(['spark.readStream.format("rmq")', named, f"{topic}.load()"])
        return empty("Spark queries that read from here are listed as soon as they do:", "", code(start))
    return table(visit, "Spark queries", query_columns(visit), found, lambda each: each.query_id)


def _snippets(visit: Visit) -> Snippets:
    past = "true" if visit.given.get("past") else None
    return Snippets(visit.where.cli("spark", "list"), visit.where.rest("spark", "queries", past=past))
