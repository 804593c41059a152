"""Which brokers a producer leaves alone for a while. Pure: the caller says what time it is.

RocketMQ's MQFaultStrategy and LatencyFaultToleranceImpl (spec: semantics, section 4). A try that failed counts as one
of ten seconds; how long a broker is left alone follows from the table. RocketMQ keeps the table only where
sendLatencyFaultEnable is on, and otherwise avoids a broker for the rest of the one send that failed. Here failures are
remembered in any case, so that a broker that hangs costs one send its patience, not every second one; what the setting
adds is that brokers which are merely slow are left alone too.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqspark.message_queue import MessageQueue

LATENCY_MAX_MS: Final = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
NOT_AVAILABLE_MS: Final = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
FAILURE_LATENCY_MS: Final = 10_000


def not_available_ms(latency_ms: int) -> int:
    """How long to leave a broker alone that took so long: the entry of the largest threshold that is not above it."""
    entry = bisect_right(LATENCY_MAX_MS, latency_ms) - 1
    return NOT_AVAILABLE_MS[entry] if entry >= 0 else 0


class LatencyFaults:
    """Until when each broker is left alone. Safe to share between threads: each step is one of a dict."""

    def __init__(self, *, avoid_slow: bool) -> None:
        self._avoid_slow = avoid_slow
        self._until_ms: dict[str, int] = {}

    def answered(self, broker_name: str, latency_ms: int, now_ms: int) -> None:
        """A send was answered: whatever was held against the broker is over, unless it was slow and that counts."""
        pause_ms = not_available_ms(latency_ms) if self._avoid_slow else 0
        if pause_ms:
            self._until_ms[broker_name] = now_ms + pause_ms
        elif self._until_ms:
            self._until_ms.pop(broker_name, None)

    def failed(self, broker_name: str, now_ms: int) -> None:
        """A send failed for a reason that lies with the broker, or on the way to it. What is over for others is
        forgotten: some brokers never answer again."""
        for name, until_ms in list(self._until_ms.items()):
            if until_ms <= now_ms:
                self._until_ms.pop(name, None)
        self._until_ms[broker_name] = now_ms + not_available_ms(FAILURE_LATENCY_MS)

    def is_available(self, broker_name: str, now_ms: int) -> bool:
        return self._until_ms.get(broker_name, now_ms) <= now_ms

    def preferred(
        self, queues: Sequence[MessageQueue], now_ms: int, avoid_broker: str | None = None
    ) -> Sequence[MessageQueue]:
        """The queues to choose from: on brokers that are not left alone, nor the one whose try has just failed; where
        there are none, on any but that one; where it is the only one, all."""
        if not self._until_ms and avoid_broker is None:
            return queues
        others = [queue for queue in queues if queue.broker_name != avoid_broker]
        available = [queue for queue in others if self.is_available(queue.broker_name, now_ms)]
        return available or others or queues
