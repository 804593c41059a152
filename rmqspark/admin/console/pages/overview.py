"""/: what comes and goes, what is behind, what is in doubt, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.admin.console import words
from rmqspark.admin.console.brokers_tables import brokers_table, problems_table
from rmqspark.admin.console.charts import line_chart
from rmqspark.admin.console.groups_table import group_columns
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import empty, figures, group, notes, partial, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import table
from rmqspark.admin.console.watch import MOST_GROUPS
from rmqspark.admin.reads.overview import overview

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit
    from rmqspark.admin.schemas.cluster import BrokerView
    from rmqspark.admin.schemas.groups import GroupSummary
    from rmqspark.admin.schemas.overview import OverviewView

_MOST_GROUPS: Final = 8


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(frame.code_button(lambda: Snippets(visit.where.cli("cluster", "info"), visit.where.rest("cluster"))))
    await frame.live(lambda: overview(visit.cluster), lambda view: show(visit, view), 5, needs_brokers=False)


def show(visit: Visit, view: OverviewView) -> Node:
    return group(
        _figures(visit, view),
        _problems(visit, view),
        _charts(visit),
        section(
            "Brokers",
            brokers_table(visit, view.cluster.brokers),
            actions=[visit.link("Slaves and name servers", "/brokers")],
        ),
        section("Furthest behind", _groups(visit), actions=[visit.link("All groups", "/groups")]),
    )


def _figures(visit: Visit, view: OverviewView) -> Node:
    brokers = view.cluster.brokers
    known = visit.watch.groups
    lags = [each.lag for each in known or () if each.lag is not None]
    nobody = 0 if known == [] and not visit.watch.silent else None
    fullest = max(brokers, key=lambda each: -1.0 if each.disk_used is None else each.disk_used, default=None)
    return figures(
        [
            ("In", f"{words.rate(_sum([each.in_per_second for each in brokers]))}", "messages a second"),
            ("Out", f"{words.rate(_sum([each.out_per_second for each in brokers]))}", "messages a second"),
            ("Largest lag", words.number(max(lags, default=nobody)), f"messages{_of_some(known)}"),
            ("Fullest disk", words.percent(fullest.disk_used if fullest is not None else None), _free(fullest)),
            ("Half messages", words.number(view.half_messages), "not decided"),
            ("Transactions", words.number(view.open_transactions), visit.link("open", "/transactions")),
            ("Dead letters", words.number(view.dead_letters), visit.link("waiting", "/dlq")),
            ("Topics", words.number(view.topic_count), visit.link("all topics", "/topics")),
        ]
    )


def _of_some(groups: list[GroupSummary] | None) -> str:
    return f", of the first {MOST_GROUPS} groups" if groups is not None and len(groups) == MOST_GROUPS else ""


def _sum(rates: list[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _free(broker: BrokerView | None) -> str:
    if broker is None or broker.disk_free_bytes is None:
        return "used"
    return f"{words.size(broker.disk_free_bytes)} free"


def _problems(visit: Visit, view: OverviewView) -> Node:
    found = view.cluster.problems
    return section(
        "State",
        problems_table(visit, found) if found else state("Nothing is wrong", "good"),
        partial(view.silent),
    )


def _charts(visit: Visit) -> Node:
    histories = visit.watch.histories
    return section(
        "Last hour",
        h(
            "div",
            line_chart("In", "messages a second", histories.of("in"), visit.zone, words.rate),
            line_chart("Out", "messages a second", histories.of("out"), visit.zone, words.rate),
            class_="charts",
        ),
    )


def _groups(visit: Visit) -> Node:
    known = visit.watch.groups
    if known is None:
        return empty("How far behind groups are is unknown, until a broker can be asked.")
    if not known:
        nobody = empty("Consumer groups and Spark queries are listed here.", "rmq consume orders --group billing")
        return group(nobody, partial(visit.watch.silent))
    shown = sorted(known, key=_behind, reverse=True)[:_MOST_GROUPS]
    return group(
        table(visit, "Groups furthest behind", group_columns(visit), shown, lambda each: each.group),
        notes(f"Of the first {MOST_GROUPS} groups by name." if _of_some(known) else None),
        partial(visit.watch.silent),
    )


def _behind(each: GroupSummary) -> tuple[bool, int]:
    return each.lag is not None, each.lag or 0
