"""Servers in tables: brokers, their slaves, name servers, and what is wrong; the same wherever they are shown. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rmqspark.admin.console import words
from rmqspark.admin.console.addresses import path
from rmqspark.admin.console.nodes import Node, h
from rmqspark.admin.console.parts import empty, state
from rmqspark.admin.console.tables import Column, table
from rmqspark.admin.schemas.cluster import BrokerView, NameServerView, ProblemView, SlaveView

if TYPE_CHECKING:
    from rmqspark.admin.console.visits import Visit


def brokers_table(visit: Visit, brokers: Sequence[BrokerView]) -> Node:
    if not brokers:
        return empty("No broker is registered with the name servers.", "rmq up")
    columns: list[Column[BrokerView]] = [
        Column("Broker", lambda each: visit.link(each.broker_name, path("brokers", each.broker_name))),
        Column("State", lambda each: state(each.state, "good" if each.state == "ok" else "bad")),
        Column("Role", lambda each: each.role or words.UNKNOWN),
        Column("Slaves in sync", _slaves_in_sync),
        Column("In/s", lambda each: words.rate(each.in_per_second), is_number=True),
        Column("Out/s", lambda each: words.rate(each.out_per_second), is_number=True),
        Column("Disk", lambda each: words.percent(each.disk_used), is_number=True),
        Column("Free", lambda each: words.size(each.disk_free_bytes), is_number=True),
        Column("Topics", lambda each: words.number(each.topics), is_number=True),
        Column("Queues", lambda each: words.number(each.queues), is_number=True),
        Column("Started", lambda each: visit.time(each.started_at)),
    ]
    return table(visit, "Brokers", columns, brokers, lambda each: each.broker_name)


def _slaves_in_sync(broker: BrokerView) -> str:
    """Of those that are registered, and how many a send waits for."""
    waited = f", a send waits for {broker.slaves_wanted}" if broker.slaves_wanted else ""
    in_sync = sum(1 for slave in broker.slaves if slave.in_sync)
    return (f"{in_sync} of {len(broker.slaves)}" if broker.slaves else "none there") + waited


def slaves_table(visit: Visit, brokers: Sequence[BrokerView]) -> Node:
    """Of one broker, or of several."""
    rows = [(broker.broker_name, slave) for broker in brokers for slave in broker.slaves]
    columns: list[Column[tuple[str, SlaveView]]] = [
        Column("Slave", lambda row: h("span", f"{row[1].broker_id} of {row[0]}", class_="nowrap")),
        Column("Address", lambda row: h("span", row[1].address, class_="mono")),
        Column("Role", lambda row: row[1].role),
        Column("Behind", lambda row: words.size(row[1].behind_bytes), is_number=True),
        Column("In sync", lambda row: _yes_or_no(row[1].in_sync)),
        Column("State", lambda row: state(row[1].state, "good" if row[1].state == "ok" else "warning")),
    ]
    return table(visit, "Slaves", columns, rows, lambda row: f"{row[0]} {row[1].broker_id}")


def _yes_or_no(is_so: bool | None) -> str:
    return words.UNKNOWN if is_so is None else "yes" if is_so else "no"


def name_servers_table(visit: Visit, servers: Sequence[NameServerView]) -> Node:
    columns: list[Column[NameServerView]] = [
        Column("Name server", lambda each: h("span", each.address, class_="mono")),
        Column("State", lambda each: state(each.problem or "ok", "warning" if each.problem else "good")),
        Column("Brokers it knows", lambda each: words.UNKNOWN if each.problem else ", ".join(each.brokers) or "none"),
    ]
    return table(visit, "Name servers", columns, servers, lambda each: each.address)


def problems_table(visit: Visit, problems: Sequence[ProblemView]) -> Node:
    columns: list[Column[ProblemView]] = [
        Column("What", lambda each: each.subject),
        Column("Severity", lambda each: state(each.severity, "bad" if each.severity == "critical" else "warning")),
        Column("Problem", lambda each: each.problem),
    ]
    return table(visit, "Problems", columns, problems, lambda each: f"{each.subject} {each.problem}")
