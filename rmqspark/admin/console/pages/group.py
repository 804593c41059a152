"""/groups/{group}: how far it is in each queue, who is connected, its lag over time; setting it to another place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.lag_parts import group_lag_over_time, lag_columns, lag_figures
from rmqspark.admin.console.live import Live
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import button, empty, figures, group, notes, partial, section
from rmqspark.admin.console.resets import reset_group
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.reads import groups as look
from rmqspark.admin.schemas.groups import GroupQueueView, GroupView, MemberView

if TYPE_CHECKING:
    from rmqspark.admin.console.filters import Change
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit


async def build(frame: Frame) -> None:
    visit, name = frame.visit, frame.visit.params["group"]
    frame.head(frame.code_button(lambda: _snippets(visit, name)), crumbs=[("Groups", "/groups")])
    live: Live[GroupView] = frame.part(
        lambda: look.group(visit.cluster, name), lambda view: show(frame, view, live.refresh), 3
    )
    await live.begin()


def show(frame: Frame, view: GroupView, changed: Change) -> Node:
    visit = frame.visit
    return group(
        partial(view.silent),
        figures(
            [
                *lag_figures(view),
                ("Consumes", words.rate(view.consumed_per_second), "messages a second"),
                ("Members", words.number(view.members), "connected"),
            ]
        ),
        group_lag_over_time(visit, view.group),
        section("Offsets", _offsets(visit, view), actions=_changes(frame, view, changed)),
        section("Members", _members(visit, view)),
        section("Dead letters", visit.link(f"Dead letters of {view.group}", path("dlq", view.group))),
    )


def _offsets(visit: Visit, view: GroupView) -> Node:
    if not view.offsets:
        return empty(
            "It has neither committed an offset nor subscribed to a topic.", f"rmq consume orders --group {view.group}"
        )
    columns: list[Column[GroupQueueView]] = [
        Column("Queue", lambda each: _queue(visit, each)),
        Column(
            "Committed", lambda each: words.UNKNOWN if each.committed is None else str(each.committed), is_number=True
        ),
        Column("End", lambda each: str(each.max_offset), is_number=True),
        *lag_columns(),
        Column("Messages", lambda each: _messages_link(visit, each)),
    ]
    listed = table(
        visit, "Offsets", columns, view.offsets, lambda each: f"{each.topic} {each.broker_name}/{each.queue_id}"
    )
    never = sum(each.committed is None for each in view.offsets)
    return group(
        listed,
        notes(
            f"Never committed in {words.counted(never, 'queue')}: how far it is there is unknown." if never else None
        ),
    )


def _queue(visit: Visit, each: GroupQueueView) -> Node:
    topic = visit.link(each.topic, path("topics", each.topic))
    return h("span", topic, h("span", f" {each.broker_name}/{each.queue_id}"))


def _messages_link(visit: Visit, each: GroupQueueView) -> Node:
    queue = f"{each.broker_name}/{each.queue_id}"
    where = path("topics", each.topic, "messages")
    if each.committed is None:
        return visit.link("in the queue", where, queue=queue)
    return visit.link("from there", where, queue=queue, offset=f"{each.committed}:", order="oldest")


def _changes(frame: Frame, view: GroupView, changed: Change) -> list[Node]:
    if not frame.visit.may_change:
        return []
    return [
        button("Reset offsets", lambda: reset_group(frame, view.group, view.topics, changed)),
        button("Delete group", lambda: _delete(frame, view), kind="danger"),
    ]


def _delete(frame: Frame, view: GroupView) -> None:
    async def do() -> None:
        await frame.visit.act(lambda who: frame.visit.desk.actions.delete_group(who, view.group))
        ui.navigate.to("/groups")

    committed = sum(each.committed is not None for each in view.offsets)
    effects = [
        f"Its committed offsets of {words.counted(committed, 'queue')} are deleted; "
        f"{words.counted(view.members, 'member')} connected. Whoever reads for it again begins as a new group does.",
        *(f"The Spark query {name} reads for it." for name in view.queries),
    ]
    frame.confirm(f"Delete group {view.group}?", effects, "Delete group", do, typed=view.group)


def _members(visit: Visit, view: GroupView) -> Node:
    queries = [
        h("p", h("span", "Read by the Spark query "), visit.link(name, path("spark", name))) for name in view.queries
    ]
    return group(*queries, _clients(visit, view))


def _clients(visit: Visit, view: GroupView) -> Node | None:
    if not view.clients:
        return None if view.queries else empty("Nobody is connected for this group.")
    columns: list[Column[MemberView]] = [
        Column("Client", lambda each: each.client_id),
        Column("Address", lambda each: each.address),
        Column("Language", lambda each: each.language),
        Column("Version", lambda each: str(each.version), is_number=True),
    ]
    return table(visit, "Members", columns, view.clients, lambda each: each.client_id)


def _snippets(visit: Visit, name: str) -> Snippets:
    return Snippets(visit.where.cli("group", "describe", name), visit.where.rest("groups", name))
