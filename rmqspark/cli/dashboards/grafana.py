"""Dashboards as Grafana imports them. Pure: a table in, JSON out."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final

from rmqspark.cli.dashboards.panels import WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqspark.cli.dashboards.panels import Dashboard, Panel, Variable

SCHEMA_VERSION: Final = 39  # of Grafana 11; newer ones take it over by themselves
DATASOURCE: Final = "${datasource}"
_ROW_HEIGHT: Final = 1


def dashboard_json(dashboard: Dashboard, datasource: str | None) -> dict[str, Any]:
    """`datasource` is the name of the one that is chosen at first; None: Grafana's default one."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.meaning,
        "tags": ["rocketmq", "rmqspark"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "timezone": "browser",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "graphTooltip": 1,
        "annotations": {"list": []},
        "links": [],
        "templating": {"list": [_datasource_variable(datasource), *map(_variable, dashboard.variables)]},
        "panels": list(_panels(dashboard)),
    }


def _datasource_variable(datasource: str | None) -> dict[str, Any]:
    chosen = {} if datasource is None else {"current": {"selected": True, "text": datasource, "value": datasource}}
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", **chosen}


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.title,
        "type": "query",
        "datasource": _prometheus(),
        "query": {"query": query, "refId": variable.name},
        "definition": query,
        "refresh": 2,  # whenever the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """From left to right, and in a new line where one has no room; a title above each group."""
    numbers, y = count(1), 0
    for title, panels in dashboard.rows:
        yield _row(next(numbers), title, y)
        x, y, tallest = 0, y + _ROW_HEIGHT, 0
        for panel in panels:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            yield _panel(next(numbers), panel, x, y)
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest


def _row(number: int, title: str, y: int) -> dict[str, Any]:
    place = {"x": 0, "y": y, "w": WIDTH, "h": _ROW_HEIGHT}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.meaning,
        "datasource": _prometheus(),
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, **({"min": 0} if panel.kind == "timeseries" else {})},
            "overrides": [],
        },
        "options": _OPTIONS[panel.kind],
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _prometheus(),
                "expr": series.expression,
                "legendFormat": series.legend,
            }
            for index, series in enumerate(panel.series)
        ],
    }


_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "timeseries": {
        "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"], "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "colorMode": "none",
        "graphMode": "area",
        "textMode": "value",
    },
}


def _prometheus() -> dict[str, str]:
    return {"type": "prometheus", "uid": DATASOURCE}
