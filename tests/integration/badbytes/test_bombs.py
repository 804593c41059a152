"""Small requests that would cost a server much: each costs about what its bytes do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from rmqspark.client.admin import AdminClient
from rmqspark.clock import SystemClock
from rmqspark.testing.fuzz.attack import converse
from rmqspark.testing.fuzz.bombs import bombs
from rmqspark.testing.fuzz.canary import Canary
from rmqspark.testing.fuzz.victim import Victim

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

MAX_GROWTH_BYTES: Final = 64 << 20
"""Beside the bytes of the request itself."""
MAX_CPU_S: Final = 2.0
"""Processor time; a second is meant, and a busy machine makes two of it. The answer itself has a deadline besides."""


@pytest.mark.slow_first
def test_bombs_do_not_go_off(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """Lengths, counts, nesting and compression that promise gigabytes cost at most a second and 64 MiB beside their
    own bytes; a client is served after each."""
    clock, worst_bytes, worst_cpu_s, count = SystemClock(), 0, 0.0, 0
    with Victim(tmp_path) as victim, Canary(victim.namesrv) as canary:
        with AdminClient(victim.namesrv) as admin:
            admin.create_topic("bomb", 4)
        for bomb in bombs("bomb"):
            victim.forget_peak()
            before, cpu_s, begin_ms = victim.resident_bytes(), victim.cpu_seconds(), clock.monotonic_ms()
            converse(victim.broker if bomb.to_broker else victim.namesrv, bomb.wire)
            assert clock.monotonic_ms() - begin_ms < 60_000, bomb.name
            growth, cpu_s = victim.peak_bytes() - before - len(bomb.wire), victim.cpu_seconds() - cpu_s
            assert growth <= MAX_GROWTH_BYTES, f"{bomb.name}: {growth >> 20} MiB"
            assert cpu_s <= MAX_CPU_S, f"{bomb.name}: {cpu_s:.2f} s"
            worst_bytes, worst_cpu_s, count = max(worst_bytes, growth), max(worst_cpu_s, cpu_s), count + 1
            canary.sing()
        canary.check()
        assert victim.complaints() == []
    tell(f"{count} bombs, at most {worst_bytes >> 20} MiB and {worst_cpu_s:.2f} s of processor time for one")
