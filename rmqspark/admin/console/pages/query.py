"""/spark/{query}: one query: where it is in its queues, its last batch, what makes it slow, its lag over time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.lag_parts import lag_columns, lag_figures, query_lag_over_time
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Child, Node, h
from rmqspark.admin.console.parts import button, empty, facts, figures, group, notes, partial, section
from rmqspark.admin.console.query_parts import query_state
from rmqspark.admin.console.resets import reset_group
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.reads import queries as look
from rmqspark.admin.schemas.queries import OwnedQueueView, QueryDetail

if TYPE_CHECKING:
    from rmqspark.admin.console.filters import Change
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit


async def build(frame: Frame) -> None:
    visit, name = frame.visit, frame.visit.params["query_id"]
    proof = h("a", "Proof", href=visit.href(path("spark", name, "proof")), class_="button primary")
    frame.head(frame.code_button(lambda: _snippets(visit, name)), proof, crumbs=[("Spark", "/spark")])
    live: Live[QueryDetail] = frame.part(
        lambda: look.query(visit.cluster, name), lambda view: show(frame, view, live.refresh)
    )
    await live.begin()


def show(frame: Frame, view: QueryDetail, changed: Change) -> Node:
    visit = frame.visit
    return group(
        partial(view.silent),
        figures(
            [
                *lag_figures(view),
                ("Batch", words.number(view.batch_id), f"of {words.number(view.input_rows)} rows"),
                ("Batch time", words.milliseconds(view.batch_ms), None),
            ]
        ),
        section("Query", _facts(visit, view), actions=_changes(frame, view, changed)),
        section("What to change", _advice(view)),
        query_lag_over_time(visit, view.query_id),
        section("Queues", _queues(visit, view)),
        section("Batch time by phase", _phases(view)),
    )


def _facts(visit: Visit, view: QueryDetail) -> Node:
    groups: Child = (
        h("span", *(visit.link(each, path("groups", each)) for each in view.groups))
        if view.groups
        else "none: commitOffsets=false"
    )
    known: dict[str, Child] = {
        "State": query_state(view.state),
        "Name": view.name or words.UNKNOWN,
        "Query id": h("span", view.query_id, class_="mono"),
        "Heard of": f"{words.seconds(view.heard_seconds_ago)} ago",
        "Groups": groups,
        "Bytes behind": words.size(view.bytes_behind),
        "Spark UI": _ui_link(view.ui_url),
    }
    return group(facts(known), notes(f"It ended with: {view.error}" if view.error else None))


def _ui_link(url: str | None) -> Child:
    """What a listener said is a link only where it is one."""
    if url is None:
        return words.UNKNOWN
    is_web = urlsplit(url).scheme in ("http", "https")
    return h("a", url, href=url, rel="noreferrer noopener", target="_blank") if is_web else url


def _changes(frame: Frame, view: QueryDetail, changed: Change) -> list[Node]:
    if not frame.visit.may_change or len(view.groups) != 1:
        return []
    topics = sorted({each.topic for each in view.owned})
    return [button("Rewind", lambda: reset_group(frame, view.groups[0], topics, changed))]


def _advice(view: QueryDetail) -> Node:
    if not view.advice:
        return h("p", "Nothing was found that makes it slow.", class_="note")
    return h(
        "dl",
        *(h("div", h("dt", h("strong", each.story)), h("dd", each.advice)) for each in view.advice),
        class_="advice",
    )


def _queues(visit: Visit, view: QueryDetail) -> Node:
    if not view.owned:
        return empty("It has told of no queue yet.")
    columns: list[Column[OwnedQueueView]] = [
        Column("Queue", lambda each: f"{each.topic} {each.broker_name}/{each.queue_id}"),
        Column("Position", lambda each: words.UNKNOWN if each.position is None else str(each.position), is_number=True),
        Column(
            "End", lambda each: words.UNKNOWN if each.latest_offset is None else str(each.latest_offset), is_number=True
        ),
        *lag_columns(),
        Column("Group", lambda each: each.group or "none"),
    ]
    return table(
        visit,
        "Queues",
        columns,
        view.owned,
        lambda each: f"{each.group} {each.topic} {each.broker_name}/{each.queue_id}",
    )


def _phases(view: QueryDetail) -> Node:
    if not view.duration_ms:
        return h("p", "Unknown: only a listener (LagListener) tells it.", class_="note")
    return facts({name: words.milliseconds(took_ms) for name, took_ms in view.duration_ms.items()})


def _snippets(visit: Visit, name: str) -> Snippets:
    return Snippets(visit.where.cli("spark", "describe", name), visit.where.rest("spark", "queries", name))
