"""What a dashboard is made of. `overview`, `topics` and `spark` are tables of these: one row a panel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BROKER: Final = 'cluster=~"$cluster",node_id=~"$node_id"'
TOPIC: Final = f'{BROKER},topic=~"$topic"'
GROUP: Final = f'{TOPIC},consumer_group=~"$consumer_group"'
QUERY: Final = 'query=~"$query"'

WIDTH: Final = 24
"""Columns of Grafana's grid."""


@dataclass(frozen=True, slots=True)
class Series:
    """A PromQL expression, and how what it gives is called."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """`kind` is stat or timeseries; `unit` is one of Grafana's; width and height are of its grid."""

    title: str
    meaning: str
    series: tuple[Series, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    height: int = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """What can be chosen above a dashboard: the values of `label` among the series of `metric`."""

    name: str
    label: str
    metric: str
    title: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`uid` names it for good: importing it again replaces it."""

    uid: str
    title: str
    meaning: str
    variables: tuple[Variable, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


def once(metric: str, where: str = "") -> str:
    """A gauge of groups that a master and its slaves tell alike, under one broker's name."""
    selected = f"{metric}{{{where}}}" if where else metric
    return f"max by (cluster, node_id, consumer_group, topic, is_retry, is_system) ({selected})"


def stat(title: str, meaning: str, expression: str, unit: str = "short") -> Panel:
    return Panel(title, meaning, (Series(expression, title),), unit, "stat", width=4, height=4)


def lines(title: str, meaning: str, expression: str, legend: str, unit: str = "short") -> Panel:
    return Panel(title, meaning, (Series(expression, legend),), unit)


def quantiles(title: str, meaning: str, metric: str, where: str, by: str, legend: str, unit: str) -> Panel:
    rate = f"sum by (le, {by}) (rate({metric}_bucket{{{where}}}[$__rate_interval]))"
    return Panel(
        title,
        meaning,
        tuple(Series(f"histogram_quantile({q}, {rate})", f"{legend} p{q * 100:g}") for q in (0.5, 0.99)),
        unit,
    )


CLUSTERS: Final = (
    Variable("cluster", "cluster", "rocketmq_broker_permission", "Cluster"),
    Variable("node_id", "node_id", 'rocketmq_broker_permission{cluster=~"$cluster"}', "Broker"),
)
