"""/brokers: name servers, brokers and their slaves, and how each is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.console.brokers_tables import brokers_table, name_servers_table, problems_table, slaves_table
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import group, section
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.reads import cluster as look

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit
    from rmqspark.admin.schemas.cluster import ClusterView


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(frame.code_button(lambda: Snippets(visit.where.cli("cluster", "info"), visit.where.rest("cluster"))))
    await frame.live(lambda: look.cluster(visit.cluster), lambda view: show(visit, view), 5, needs_brokers=False)


def show(visit: Visit, view: ClusterView) -> Node:
    has_slaves = any(broker.slaves for broker in view.brokers)
    return group(
        section("What is wrong", problems_table(visit, view.problems)) if view.problems else None,
        section("Brokers", brokers_table(visit, view.brokers)),
        section("Slaves", slaves_table(visit, view.brokers) if has_slaves else _no_slaves()),
        section("Name servers", name_servers_table(visit, view.name_servers)),
    )


def _no_slaves() -> Node:
    return h("p", "No broker has a slave.", class_="note")
