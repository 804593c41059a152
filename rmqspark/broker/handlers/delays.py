"""GET_ALL_DELAY_OFFSET (45): how far each level of delayed messages is delivered (RocketMQ's AdminBrokerProcessor)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.delays.delay_table import DelayTable
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields


class DelayHandlers:
    """Tells what is kept, which may be a moment behind."""

    def __init__(self, delays: DelayTable) -> None:
        self._delays = delays

    def routes(self) -> Routes:
        return {RequestCode.GET_ALL_DELAY_OFFSET: Route(None, self.all)}

    def all(self, request: Request[NoFields]) -> Reply:
        del request
        return Reply(body=self._delays.table().encode())
