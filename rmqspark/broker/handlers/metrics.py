"""RMQ_METRICS (30050): this broker's metrics in Prometheus' text format, as its exporter gives them.

rmqspark's own; a stock broker answers REQUEST_CODE_NOT_SUPPORTED. The body is compressed (zlib): the text says the same
again and again, and has to fit a frame.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from rmqspark.protocol.codes import RequestCode
from rmqspark.remoting.reply import Reply
from rmqspark.remoting.router import Route, Routes

if TYPE_CHECKING:
    from rmqspark.broker.metrics.broker_metrics import BrokerMetrics
    from rmqspark.remoting.request import Request
    from rmqspark.remoting.router import NoFields

_QUICKLY: Final = 1


class MetricsHandlers:
    """Thin: the text, compressed."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics

    def routes(self) -> Routes:
        return {RequestCode.RMQ_METRICS: Route(None, self.metrics)}

    async def metrics(self, request: Request[NoFields]) -> Reply:
        del request
        compress = zlib.compressobj(_QUICKLY)
        pieces = [compress.compress(piece) async for piece in self._metrics.text()]
        return Reply(body=b"".join([*pieces, compress.flush()]))
