"""What was measured, as it is printed and as JSON. Times in microseconds, rates per second."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from array import array

PERCENTILES = (50.0, 90.0, 99.0, 99.9)


@dataclass(frozen=True)
class Latencies:
    """How long each of `count` requests or messages took, in microseconds: percentiles, mean, longest."""

    count: int
    mean: float
    longest: float
    percentiles: dict[str, float]

    @classmethod
    def of(cls, nanoseconds: array[int]) -> Latencies | None:
        """None where nothing was timed."""
        if not len(nanoseconds):
            return None
        times = np.frombuffer(nanoseconds, np.int64) / 1000
        named = zip(PERCENTILES, np.percentile(times, PERCENTILES), strict=True)
        return cls(
            len(times),
            round(float(times.mean()), 1),
            round(float(times.max()), 1),
            {f"p{percent:g}": round(float(value), 1) for percent, value in named},
        )


@dataclass(frozen=True)
class StageFigures:
    """One part of the benchmark. `server_cpu_us` is the brokers' time on a processor for each message, None where they
    do not run on this machine."""

    stage: str
    messages: int
    seconds: float
    body_bytes: int
    latencies: Latencies | None
    server_cpu_us: float | None = None
    generator_cpu_us: float | None = None  # ours for each message; near 1e6 / rate, we are the bottleneck
    errors: int = 0
    refusal: str = ""  # what one of them says
    settings: dict[str, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    def as_object(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "stage": self.stage,
            **self.settings,
            "messages": self.messages,
            "seconds": round(self.seconds, 3),
            "messagesPerSecond": round(self.rate, 1),
            "megabytesPerSecond": round(self.rate * self.body_bytes / 1e6, 3),
            "errors": self.errors,
            "refusal": self.refusal or None,
            "serverCpuMicros": self.server_cpu_us,
            "generatorCpuMicros": self.generator_cpu_us,
            "latencyMicros": asdict(self.latencies) if self.latencies is not None else None,
        }
