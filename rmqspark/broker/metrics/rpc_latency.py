"""How long requests take to be answered, by code and outcome. RocketMQ: RemotingMetricsManager, NettyRemotingAbstract.

Requests are timed to the millisecond. Single sends as nearly all are come and go by the turn of the loop, many at once
(`sending/appender.py`): all of a turn are as long under way, and count as SEND_MESSAGE_V2, which all clients of today
send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmqspark.broker.metrics.families import RPC_LATENCY
from rmqspark.broker.metrics.figures import word
from rmqspark.broker.metrics.histograms import Histogram
from rmqspark.protocol.codes import RequestCode, ResponseCode
from rmqspark.protocol.faults import to_response

if TYPE_CHECKING:
    from rmqspark.broker.metrics.figures import Figures
    from rmqspark.clock import Clock
    from rmqspark.errors import RmqError
    from rmqspark.remoting.request import Result

_LONG_POLLED: Final = frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE})
_UNKNOWN: Final = "unknown"
_REQUESTS: Final = {int(code): code.name.lower() for code in RequestCode}
_RESPONSES: Final = {int(code): code.name.lower() for code in ResponseCode}


class RpcLatency:
    """Implements `remoting.request.Stopwatch`."""

    def __init__(self, clock: Clock) -> None:
        self.now_ms = clock.monotonic_ms
        self._times: dict[tuple[int, int, bool, Result], Histogram] = {}

    def answered(self, code: int, response_code: int, began_ms: int, *, waited: bool, result: Result) -> None:
        """Unknown codes are one: a consumer answers an operator with any, and RocketMQ has a series for each."""
        codes = code if code in _REQUESTS else -1, response_code if response_code in _RESPONSES else -1
        key = (*codes, waited and code in _LONG_POLLED, result)
        self._of(key).record(self.now_ms() - began_ms)

    def sends_answered(self, count: int, began_ms: int, error: RmqError | None) -> None:
        """So many sends of one turn."""
        response_code = 0 if error is None else to_response(error)[0]
        key: tuple[int, int, bool, Result] = (RequestCode.SEND_MESSAGE_V2, response_code, False, "success")
        self._of(key).record(self.now_ms() - began_ms, count)

    def tell(self, figures: Figures) -> None:
        for (code, response_code, is_long_polling, result), times in self._times.items():
            names = _REQUESTS.get(code, _UNKNOWN), _RESPONSES.get(response_code, _UNKNOWN)
            figures.add_histogram(RPC_LATENCY, ("remoting", *names, word(is_long_polling), result), times)

    def _of(self, key: tuple[int, int, bool, Result]) -> Histogram:
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = Histogram(RPC_LATENCY.bounds)
        return times
