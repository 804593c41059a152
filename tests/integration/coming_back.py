"""A broker that was stopped, and is there again after a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from rmqspark.testing import LocalCluster
    from rmqspark.testing.manual_clock import ManualClock


def comes_back(one: LocalCluster, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, *, after_ms: int) -> None:
    """Starts broker-a again when who sleeps by this clock has slept for so long."""
    away, begun_ms, advance = ["broker-a"], clock.monotonic_ms(), clock.sleep_ms

    def pass_time(duration_ms: int) -> None:
        advance(duration_ms)
        if away and clock.monotonic_ms() - begun_ms > after_ms:
            one.start_broker(away.pop())

    monkeypatch.setattr(clock, "sleep_ms", pass_time)
