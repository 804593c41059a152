"""VIEW_BROKER_STATS_DATA (315): what went in and out within the last minute, hour and day, by topic and group.

RocketMQ's AdminBrokerProcessor.ViewBrokerStatsData, and its words for what there is no statistic of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.errors import ServerFault
from rmqspark.protocol.codes import RequestCode
from rmqspark.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.metrics.statistics import Statistics
    from rmqspark.remoting.request import Request


class StatisticsHandlers:
    """Thin: one statistic by name and key."""

    def __init__(self, statistics: Statistics) -> None:
        self._statistics = statistics

    def routes(self) -> Routes:
        return {RequestCode.VIEW_BROKER_STATS_DATA: Route(ViewBrokerStatsDataRequestHeader, self.view)}

    def view(self, request: Request[ViewBrokerStatsDataRequestHeader]) -> Reply:
        name, key = request.header.statsName, request.header.statsKey
        found = self._statistics.find(name, key)
        if found is None:
            raise ServerFault(f"The stats <{name}> <{key}> not exist")
        return Reply(body=found.encode())
