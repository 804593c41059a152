"""/: what comes and goes, what is behind, what is in doubt, what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.charts import line_chart
from rmqspark.admin.console.groups_table import group_columns
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import empty, figures, group, notes, section, state
from rmqspark.admin.console.snippets import Snippets
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.reads.overview import overview
from rmqspark.admin.schemas.cluster import BrokerView, ProblemView

if TYPE_CHECKING:
    from rmqspark.admin.console.frame import Frame
    from rmqspark.admin.console.visits import Visit
    from rmqspark.admin.schemas.overview import OverviewView


async def build(frame: Frame) -> None:
    visit = frame.visit
    frame.head(frame.code_button(lambda: Snippets(visit.where.cli("cluster", "info"), visit.where.rest("cluster"))))
    await frame.live(lambda: overview(visit.cluster), lambda view: show(visit, view), 5, needs_brokers=False)


def show(visit: Visit, view: OverviewView) -> Node:
    return group(
        _figures(visit, view),
        _problems(visit, view),
        _charts(visit),
        section("Brokers", _brokers(visit, view.cluster.brokers)),
        section("Furthest behind", _groups(visit, view), actions=[visit.link("All groups", "/groups")]),
    )


def _figures(visit: Visit, view: OverviewView) -> Node:
    brokers = view.cluster.brokers
    lags = [each.lag for each in view.groups if each.lag is not None]
    fullest = max((each.disk_used for each in brokers if each.disk_used is not None), default=None)
    return figures(
        [
            ("In", f"{words.rate(_sum([each.in_per_second for each in brokers]))}", "messages a second"),
            ("Out", f"{words.rate(_sum([each.out_per_second for each in brokers]))}", "messages a second"),
            ("Largest lag", words.number(max(lags, default=None if view.groups else 0)), "messages"),
            ("Fullest disk", words.percent(fullest), _free(brokers)),
            ("Half messages", words.number(view.half_messages), "not decided"),
            ("Transactions", words.number(view.open_transactions), visit.link("open", "/transactions")),
            ("Dead letters", words.number(view.dead_letters), visit.link("waiting", "/dlq")),
            ("Topics", words.number(view.topic_count), visit.link("all topics", "/topics")),
        ]
    )


def _sum(rates: list[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _free(brokers: list[BrokerView]) -> str:
    least = min((each.disk_free_bytes for each in brokers if each.disk_free_bytes is not None), default=None)
    return f"{words.size(least)} free" if least is not None else "used"


def _problems(visit: Visit, view: OverviewView) -> Node:
    if not view.cluster.problems:
        told = notes(f"Partial: {', '.join(view.silent)} did not answer about transactions." if view.silent else None)
        return section("State", state("Nothing is wrong", "good"), told)
    columns: list[Column[ProblemView]] = [
        Column("What", lambda each: each.subject),
        Column("Severity", lambda each: state(each.severity, "bad" if each.severity == "critical" else "warning")),
        Column("Problem", lambda each: each.problem),
    ]
    return section(
        "State",
        table(visit, "Problems", columns, view.cluster.problems, lambda each: f"{each.subject} {each.problem}"),
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


def _brokers(visit: Visit, brokers: list[BrokerView]) -> Node:
    columns: list[Column[BrokerView]] = [
        Column("Broker", lambda each: visit.link(each.broker_name, path("brokers", each.broker_name))),
        Column("State", lambda each: state(each.state, "good") if each.state == "ok" else state(each.state, "bad")),
        Column("Slaves in sync", _slaves),
        Column("In/s", lambda each: words.rate(each.in_per_second), is_number=True),
        Column("Out/s", lambda each: words.rate(each.out_per_second), is_number=True),
        Column("Disk", lambda each: words.percent(each.disk_used), is_number=True),
        Column("Free", lambda each: words.size(each.disk_free_bytes), is_number=True),
        Column("Topics", lambda each: words.number(each.topics), is_number=True),
        Column("Queues", lambda each: words.number(each.queues), is_number=True),
        Column("Started", lambda each: visit.time(each.started_at)),
    ]
    if not brokers:
        return empty("No broker is registered with the name servers.", "rmq up")
    return table(visit, "Brokers", columns, brokers, lambda each: each.broker_name)


def _slaves(broker: BrokerView) -> str:
    there = len(broker.slaves)
    in_sync = sum(1 for slave in broker.slaves if slave.in_sync)
    return f"{in_sync} of {there}" if there else "none there"


def _groups(visit: Visit, view: OverviewView) -> Node:
    if not view.groups:
        return empty("Consumer groups and Spark queries are listed here.", "rmq consume orders --group billing")
    return table(visit, "Groups furthest behind", group_columns(visit), view.groups, lambda each: each.group)
